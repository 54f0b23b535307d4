"""Programming languages in entries: the names that sites give them, and the one name that Eventr stores."""

from __future__ import annotations

import re
from typing import Final

#: Name → other names of it in use. The names are those of Pygments' lexers.
_NAMES: Final = {
    "bash": "sh shell zsh ksh shellscript",
    "c": "h",
    "clojure": "clj",
    "cmake": "",
    "cpp": "c++ cxx cc hpp",
    "csharp": "c# cs",
    "css": "",
    "dart": "",
    "diff": "patch udiff",
    "docker": "dockerfile",
    "elixir": "ex exs",
    "elm": "",
    "erlang": "erl",
    "fsharp": "f#",
    "go": "golang",
    "graphql": "",
    "haskell": "hs literatehaskell",
    "html": "xhtml",
    "ini": "cfg dosini",
    "java": "",
    "javascript": "js jscript node",
    "json": "jsonc json5",
    "julia": "jl",
    "kotlin": "kt kts",
    "common-lisp": "lisp cl elisp emacs-lisp",
    "lua": "",
    "make": "makefile mf",
    "nginx": "",
    "nix": "",
    "objective-c": "objc objectivec obj-c",
    "ocaml": "ml",
    "perl": "pl",
    "php": "",
    "powershell": "ps1 posh pwsh",
    "python": "py python3 py3",
    "r": "",
    "ruby": "rb",
    "rust": "rs",
    "scala": "",
    "scheme": "scm racket",
    "scss": "sass",
    "sql": "mysql postgresql plpgsql sqlite",
    "swift": "",
    "toml": "",
    "typescript": "ts tsx jsx",
    "xml": "svg rss xsl",
    "yaml": "yml",
    "zig": "",
}
_BY_NAME: Final = {other: name for name, others in _NAMES.items() for other in (name, *others.split())}
LANGUAGES: Final = frozenset(_NAMES)
CLASS_PREFIX: Final = "language-"
_WORD = re.compile(r"[A-Za-z0-9+#._-]{1,40}")
_PREFIX = re.compile(r"(?:language|lang|highlight-source|highlight-text|highlight|src)-")
#: Words that say that another word of the class may be a language: pandoc, Hexo, SyntaxHighlighter, Prettify.
_MARKS = frozenset(["sourcecode", "highlight", "brush", "prettyprint", "hljs"])


def find_language(name: str) -> str | None:
    """Return the language that a site's name means."""
    return _BY_NAME.get(name.lower())


def find_class_language(value: str) -> str | None:
    """Return the language that the class of an element names, such as ``language-py`` or ``brush: py``."""
    words = _WORD.findall(value[:400])
    for word in words:
        name = _PREFIX.sub("", word, count=1)
        if name != word and (found := find_language(name)):
            return found
    if not any(word.lower() in _MARKS for word in words):
        return None
    return next((found for word in words if (found := find_language(word))), None)
