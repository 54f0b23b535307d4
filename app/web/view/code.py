"""Code and tables in articles: boxes of their own that scroll, a button to copy code, and colors by language.

The text of code never changes. Colors are added when an article is shown, not when it is stored: lists and
apps need none, and what is stored stays the same when the colors change. A pattern of Pygments can't be
interrupted, so the languages are those of :mod:`app.models.reading.code_languages`, and the size is limited.
"""

from __future__ import annotations

import functools
import html
import re
from typing import Final

from flask_babel import gettext as _

from app.models.reading.code_languages import CLASS_PREFIX, LANGUAGES
from app.web.context import get_web

#: Most characters of code in an article that get colors, and of one block and one line of it. Some patterns
#: need time in the square of what they search.
COLORED_MAX: Final = 8000
BLOCK_MAX, LINES_MAX, LINE_MAX = 4000, 200, 400
#: Where Pygments begins to read these languages: not at the patterns of functions, which hostile code could
#: keep busy for minutes.
_STATES: Final = {"c": "statement", "cpp": "statement", "objective-c": "statement"}
#: Blocks of code that a process remembers in colors, with up to 100 KB each.
_REMEMBERED: Final = 32

_PRE = re.compile(r"<pre((?: [^<>]*)?)>(.*?)</pre>", re.DOTALL)
_LANGUAGE = re.compile(rf'class="{CLASS_PREFIX}([a-z-]+)"')
#: The markup that other highlighters leave around words, without any meaning.
_PLAIN = re.compile(r"</?(?:code|span)>")
_LAST_BREAK = re.compile(r"\n((?:</span>)?)\Z")
_TABLE = re.compile(r"<(/?)table(?: [^<>]*)?>")
_CAPTION = re.compile(r"<caption(?: [^<>]*)?>([^<]{1,200})</caption>")
#: Token types of Pygments by the beginning of their names → our class; the longest beginning counts.
_CLASSES: Final = {
    "Comment": "c",
    "Generic.Deleted": "x",
    "Generic.Heading": "k",
    "Generic.Inserted": "s",
    "Generic.Prompt": "c",
    "Generic.Subheading": "k",
    "Keyword": "k",
    "Keyword.Constant": "n",
    "Literal": "n",
    "Literal.String": "s",
    "Name.Attribute": "f",
    "Name.Builtin": "f",
    "Name.Class": "f",
    "Name.Constant": "n",
    "Name.Decorator": "f",
    "Name.Function": "f",
    "Name.Tag": "k",
    "Operator.Word": "k",
}


def show_code(markup: str, *, is_colored: bool = False) -> str:
    """Return clean HTML whose code and tables have boxes.

    Args:
        markup: sanitized HTML.
        is_colored: color code whose language is known.
    """
    if "<table" in markup:
        markup = _box_tables(markup)
    if "<pre" not in markup:
        return markup
    left = COLORED_MAX if is_colored else 0
    script = _render_script()
    label, copy = html.escape(_("Code")), html.escape(_("Copy"))
    end = f'</pre><button class="copy js-only" type="button">{copy}</button></div>'

    def wrap_code(found: re.Match[str]) -> str:
        nonlocal left, script
        given, inside = found[1], found[2]
        language = _LANGUAGE.search(given)
        if language and len(inside) <= left and language[1] in LANGUAGES:
            left -= len(inside)
            inside = _color(language[1], inside)
        start = f'<div class="code"{script}><pre tabindex="0" role="group" aria-label="{label}"'
        script = ""
        return f"{start}{given}>{inside}{end}"

    return _PRE.sub(wrap_code, markup)


def _box_tables(markup: str) -> str:
    """Return the HTML with each outermost table in a box."""
    parts, at, depth, begin = [], 0, 0, 0
    script = _render_script()
    for tag in _TABLE.finditer(markup):
        depth += -1 if tag[1] else 1
        if not tag[1] and depth == 1:
            begin = tag.start()
        elif tag[1] and depth == 0:
            table = markup[begin : tag.end()]
            named = _CAPTION.search(table)
            # Text keeps its quotation marks; an attribute would end at one (H01).
            label = named[1].strip().replace('"', "&quot;") if named else html.escape(_("Table"))
            start = f'<div class="wide"{script} role="group" tabindex="0" aria-label="{label}">'
            parts += [markup[at:begin], start, table, "</div>"]
            at, script = tag.end(), ""
    return "".join(parts) + markup[at:]


def _render_script() -> str:
    return f' data-script="{get_web().assets.get_url("code.js")}"'


def _color(language: str, inside: str) -> str:
    """Return the inside of <pre> in colors, or unchanged if it contains more than text."""
    plain = _PLAIN.sub("", inside)
    lines = plain.split("\n")
    is_long = len(plain) > BLOCK_MAX or len(lines) > LINES_MAX or max(map(len, lines)) > LINE_MAX
    if is_long or "<" in plain:
        return inside
    return _color_text(language, html.unescape(plain)) or inside


@functools.lru_cache(_REMEMBERED)
def _color_text(language: str, text: str) -> str | None:
    """Return code as HTML with classes; None if the colors would change the text."""
    # Loaded with the first code: 4 MB and 30 ms that most processes never need.
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(language)
    # Only some lexers can begin elsewhere.
    begin = [(_STATES[language],)] if language in _STATES else []
    parts: list[str] = []
    last, words, whole = "", "", ""
    # Some languages end a line only with its break.
    for _at, kind, value in (*lexer.get_tokens_unprocessed(f"{text}\n", *begin), (0, None, "")):
        name = _find_class(kind) if kind is not None else None
        whole += value
        if name != last:
            if words:
                parts.append(_write(last, words))
            last, words = name or "", ""
        words += value
    if whole != f"{text}\n":
        return None
    return _LAST_BREAK.sub(r"\1", "".join(parts))


def _write(name: str, words: str) -> str:
    shown = html.escape(words, quote=False)
    return f'<span class="hl-{name}">{shown}</span>' if name else shown


@functools.lru_cache(256)
def _find_class(kind: tuple[str, ...]) -> str:
    names = [".".join(kind[:length]) for length in range(len(kind), 0, -1)]
    return next((_CLASSES[name] for name in names if name in _CLASSES), "")
