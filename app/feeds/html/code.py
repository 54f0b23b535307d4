"""Code in entries: the language that a site names beside it, in the one way of the HTML standard (§4.4.3).

Sites name it on the code, on the <pre>, or on an element around it. Afterwards it is the class of the <pre>,
such as ``language-python``, and the only class that sanitized HTML has (H06).
"""

from __future__ import annotations

import re

from app.feeds.html import tag_patterns
from app.models.reading.code_languages import CLASS_PREFIX, find_class_language, find_language

#: Elements whose class may name a language.
NAMED = ("code", "div", "figure", "pre")
#: One of them is in each element that names a language. To search for words is a tenth of a pattern's work.
_SIGNS = (
    "language-",
    "lang-",
    "highlight",
    "brush:",
    "sourceCode",
    "src-",
    "prettyprint",
    "hljs",
    "<pre lang=",
)
_TAG = re.compile(r"<(/?)(code|div|figure|pre)((?: [^<>]*)?)>")
_INSIDE = re.compile(r"\s*<code((?: [^<>]*)?)>")


def is_named(markup: str) -> bool:
    """Return whether published HTML may name the language of its code."""
    return "<pre" in markup and any(sign in markup for sign in _SIGNS)


def find_mark(value: str) -> str | None:
    """Return the class that stays of a class."""
    language = find_class_language(value)
    return CLASS_PREFIX + language if language else None


def settle_languages(markup: str) -> str:
    """Return sanitized HTML in which only <pre> has a class, the one of its language."""
    around: list[str | None] = []

    def settle_tag(tag: re.Match[str]) -> str:
        name, given = tag[2], tag_patterns.parse_clean_attributes(tag[3])
        if tag[1]:
            if name in ("div", "figure") and around:
                around.pop()
            return tag[0]
        mark = given.pop("class", None)
        if name in ("div", "figure"):
            around.append(mark or (around[-1] if around else None))
        elif name == "pre":
            code = _INSIDE.match(markup, tag.end())
            mark = mark or (tag_patterns.parse_clean_attributes(code[1]).get("class") if code else None)
            if language := find_language(given.get("lang", "")):
                mark = mark or CLASS_PREFIX + language
                del given["lang"]
            mark = mark or (around[-1] if around else None)
            given = {"class": mark, **given} if mark else given
        return f"<{name}{tag_patterns.write_attributes(given)}>"

    return _TAG.sub(settle_tag, markup)
