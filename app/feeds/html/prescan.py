"""Prescan: a linear check whether entry HTML would cost the HTML parser too much (X02).

HTML5 tree building is quadratic in the depth of open elements, in the attributes of one element, and in
unclosed formatting elements, which are reopened in each following block. This scan computes an upper
bound of all three; :func:`is_hostile` returns whether one is exceeded. When in doubt, it refuses: an end
tag only counts where the real parser surely closes the element too.

Tokenizing follows the WHATWG HTML standard §13.2.5 for tags, comments and raw text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from app.feeds.html.patterns import build_possessive

MAX_DEPTH = 256
MAX_ATTRIBUTES = 128
#: Most formatting elements that the parser would reopen, summed over all blocks.
MAX_REOPENED = 50_000
#: Most visits per character, on average: tags that seem nested inside other tags overlap.
MAX_LOOKS = 16

_SPACE = r"\t\n\f\r "
_SHARE = f"{{0,{MAX_ATTRIBUTES}}}"


def _attribute(stop: str) -> str:
    """Return the expression of one attribute without ``stop`` outside quotes."""
    value = rf"""[^{_SPACE}>{stop}"'][^{_SPACE}>{stop}]*+"""
    return rf"[{_SPACE}/]*+[^{_SPACE}/>{stop}][^{_SPACE}/>={stop}]*+" + build_possessive(
        rf"""[{_SPACE}]*+=[{_SPACE}]*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|{value}|(?=>))""", "?"
    )


_ATTRIBUTE = _attribute("")
#: "<" is legal in attributes but unusual. Excluding it ends each search at the next tag, so searching
#: from each tag stays linear.
_USUAL = _attribute("<")
#: Each attribute is read once; then one attribute too many follows, or another tag begins inside.
_SUSPECT = re.compile(
    rf"<[A-Za-z][^{_SPACE}/><]*+"
    rf"(?:[{_SPACE}/]{build_possessive(_USUAL, _SHARE)}(?:{_USUAL}|[{_SPACE}/]*+<)|<)"
)
_START = re.compile(r"<(?=[A-Za-z])")
_ATTRIBUTES = re.compile(
    rf"<[^{_SPACE}/>]*+(?:[{_SPACE}/]{build_possessive(_ATTRIBUTE, _SHARE)}({_ATTRIBUTE})?)?"
)
_TOKEN = re.compile(
    r"<(?:!--(?:-?>|.*?(?:--!?>|\Z))"
    r"|[!?][^>]*+>?|/[^A-Za-z][^>]*+>?"
    rf"|(?P<end>/?)(?P<name>[A-Za-z][^{_SPACE}/>]*+){build_possessive(_ATTRIBUTE)}[{_SPACE}/]*+(?:>|\Z))",
    re.DOTALL,
)
_FOREIGN = re.compile(r"<(?:svg|math)", re.IGNORECASE)
#: Attributes that all parsers read the same way.
_TIDY = (
    build_possessive(
        rf"[{_SPACE}]++[A-Za-z][A-Za-z0-9:_-]*+"
        + build_possessive(r"""=(?:"[^"<>]*+"|'[^'<>]*+'|[A-Za-z0-9#%._-]++)""", "?")
    )
    + rf"[{_SPACE}]*+"
)
#: Elements that leave nothing open, wherever they are: they contain only text, or nothing.
_LEAF = re.compile(
    r"<(?:(?P<name>a|b|big|blockquote|code|dd|div|dl|dt|em|figcaption|figure|h[1-6]|i|li|ol|p|pre|section|small"
    rf"|span|strong|sub|sup|table|tbody|td|th|tr|u|ul){_TIDY}>[^<]*+</(?P=name)>|(?:br|hr|img){_TIDY}/?>)"
)
_LEAF_ROUNDS = 3

_VOID = frozenset(
    [
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source"),
        *("track", "wbr"),
    ]
)
_RAW = frozenset(["iframe", "noembed", "noframes", "noscript", "script", "style", "textarea", "title", "xmp"])
_RAW_END = {name: re.compile(rf"</{name}(?=[{_SPACE}/>])", re.IGNORECASE) for name in _RAW}
_FORMATTING = frozenset(
    [*("a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u")]
)
_CLOSES_P = frozenset(
    [
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "center",
            "dd",
            "details",
            "dialog",
            "dir",
            "div",
            "dl",
        ),
        *("dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6"),
        *(
            "header",
            "hgroup",
            "hr",
            "li",
            "main",
            "menu",
            "nav",
            "ol",
            "p",
            "pre",
            "section",
            "summary",
            "ul",
        ),
    ]
)
#: Start tag → elements it closes when they are innermost.
_CLOSES = {
    **dict.fromkeys(_CLOSES_P, ("p",)),
    "li": ("p", "li"),
    "dd": ("p", "dd", "dt"),
    "dt": ("p", "dd", "dt"),
    "option": ("option",),
}
_CELLS = {
    "td": ("p", "li", "td", "th"),
    "th": ("p", "li", "td", "th"),
    "tr": ("p", "li", "td", "th", "tr"),
    "tbody": ("p", "li", "td", "th", "tr", "tbody", "thead", "tfoot"),
    "thead": ("p", "li", "td", "th", "tr", "tbody", "thead", "tfoot"),
    "tfoot": ("p", "li", "td", "th", "tr", "tbody", "thead", "tfoot"),
}
#: End tag → unclosed elements that it may close on its way.
_REACHES = {
    **dict.fromkeys(_CLOSES_P - {"p", "li", "dd", "dt"}, ("p", "li", "dd", "dt")),
    "li": ("p",),
    "dd": ("p",),
    "dt": ("p",),
    "select": ("option",),
}
_REACHES_CELLS = {**_CELLS, "table": ("p", "li", "td", "th", "tr", "tbody", "thead", "tfoot", "caption")}


#: Most ampersands that begin no reference: each costs the parser a copy of the text read so far.
LONE_MOST = 50_000
_LONE = re.compile(r"&(?!#?[0-9A-Za-z]{1,31};)")


def is_hostile(html: str) -> bool:
    """Return whether an HTML parser would need too much time or memory for this entry."""
    if html.count("&") > LONE_MOST and len(_LONE.findall(html)) > LONE_MOST:
        return True
    if "<" not in html:
        return False
    if _SUSPECT.search(html) and _has_many_attributes(html):
        return True
    # With fewer start tags, neither the depth nor the blocks for reopened formatting elements suffice.
    # This spares most entries the loop below.
    if html.count("<") <= MAX_DEPTH or (starts := html.count("<") - html.count("</")) <= MAX_DEPTH:
        return False
    return not _is_shallow(html, starts) and _Open().exceeds_limits(html)


def _is_shallow(html: str, starts: int) -> bool:
    """Return whether few start tags remain without self-contained elements, too few to nest deeply.

    Such an element is innermost while it is open, so its end tag closes it in any context.
    Text in a comment or raw text may go too: the remaining start tags count wherever they are.
    """
    for depth in range(_LEAF_ROUNDS):
        html = _LEAF.sub("", html)
        left = html.count("<") - html.count("</") + depth + 1
        if left <= MAX_DEPTH and left * starts <= MAX_REOPENED:
            return True
    return False


def _has_many_attributes(html: str) -> bool:
    """Return whether any tag has too many attributes, or checking would cost too much."""
    left = MAX_LOOKS * len(html)
    for start in _START.finditer(html):
        tag = _ATTRIBUTES.match(html, start.start())
        left -= len(tag[0]) if tag else 0
        if left < 0 or (tag and tag[1]):
            return True
    return False


class _Open:
    """The open elements: an upper bound of the tree builder's stack."""

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._formatting = 0
        self._tables = 0
        self._reopened = 0
        self._exact = False

    def exceeds_limits(self, html: str) -> bool:
        self._exact = _FOREIGN.search(html) is not None
        for ends, name in _tags(html, foreign=self._exact):
            if ends:
                self._end(name)
            elif name not in _VOID:
                self._start(name)
                if len(self._stack) > MAX_DEPTH or self._reopened > MAX_REOPENED:
                    return True
        return False

    def _start(self, name: str) -> None:
        # In svg and math no start tag closes another element, so nothing is popped then.
        if not self._exact:
            closes = _CELLS.get(name) if self._tables else None
            self._take(closes or _CLOSES.get(name, ()))
        if name in _FORMATTING:
            self._formatting += 1
        else:
            self._reopened += self._formatting
            self._tables += name == "table"
        self._stack.append(name)

    def _end(self, name: str) -> None:
        stack = self._stack
        if not self._exact:
            over = _REACHES_CELLS.get(name) if self._tables else None
            over = over or _REACHES.get(name, ())
            at = len(stack) - 1
            while at >= 0 and stack[at] != name and stack[at] in over:
                at -= 1
            if at < 0 or stack[at] != name:
                return
            while len(stack) > at + 1:
                self._pop()
        if stack and stack[-1] == name:
            self._pop()

    def _take(self, names: tuple[str, ...]) -> None:
        while self._stack and self._stack[-1] in names:
            self._pop()

    def _pop(self) -> None:
        name = self._stack.pop()
        self._formatting -= name in _FORMATTING
        self._tables -= name == "table"


def _tags(html: str, *, foreign: bool) -> Iterator[tuple[bool, str]]:
    """Yield (is an end tag, lower-case name) of each tag; raw text is skipped.

    With ``foreign`` elements present, raw text may be markup and ``<![CDATA[`` may hide it: from the first
    such place on, end tags don't count.
    """
    at, hidden = 0, False
    while match := _TOKEN.search(html, at):
        at = match.end()
        name = match["name"]
        if name is None:
            hidden = hidden or (foreign and html.startswith("<![", match.start()))
            continue
        name = name.lower()
        if match["end"]:
            if not hidden:
                yield True, name
            continue
        if name == "plaintext":
            return
        yield False, name
        if name in _RAW:
            if foreign:
                hidden = True
                continue
            close = _RAW_END[name].search(html, at)
            at = close.start() if close else len(html)


_BARRIERS = frozenset(["caption", "table", "td", "th"])
_HEADINGS = frozenset(["h1", "h2", "h3", "h4", "h5", "h6"])
_LIST_OWNERS = _BARRIERS | {"ul", "ol", "dl"}
#: The most frequent elements first: the expression tries them in order.
_OFTEN = ("p", "a", "li", "div", "td", "ul", "h3", "h2")
_NESTING = re.compile(
    rf"<(/?(?:{'|'.join((*_OFTEN, *sorted((_CLOSES_P | _BARRIERS).difference(_OFTEN))))}))[ >]"
)
#: Element → ancestors it may not have, and elements that end the search upwards.
_NOT_INSIDE: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    **dict.fromkeys(_CLOSES_P, (frozenset(["p"]), _BARRIERS)),
    **dict.fromkeys(_HEADINGS, (_HEADINGS | {"p"}, _BARRIERS)),
    "a": (frozenset(["a"]), _BARRIERS),
    "li": (frozenset(["li", "p"]), _LIST_OWNERS),
    "dd": (frozenset(["dd", "dt", "p"]), _LIST_OWNERS),
    "dt": (frozenset(["dd", "dt", "p"]), _LIST_OWNERS),
    "table": (frozenset(["p", "table"]), frozenset(["caption", "td", "th"])),
}


def may_reparse_differently(serialised: str) -> bool:
    """Return whether a serialized tree may parse into another tree: ``<p>`` in ``<p>``, a link in a link.

    Such trees arise when the elements between were removed. Only for well-nested HTML with lower-case
    names. False is certain; True means "parse again".
    """
    stack: list[str] = []
    for tag in _NESTING.findall(serialised):
        if tag[0] == "/":
            if stack:
                stack.pop()
            continue
        if stack and (rule := _NOT_INSIDE.get(tag)) and _is_inside(stack, *rule):
            return True
        if tag != "hr":
            stack.append(tag)
    return False


def _is_inside(stack: Sequence[str], refused: Collection[str], ends: Collection[str]) -> bool:
    """Return whether a refused element is open, looking outward up to the first element of ``ends``."""
    for outer in reversed(stack):
        if outer in refused:
            return True
        if outer in ends:
            return False
    return False
