"""Element trees of the markup inside ``<math>`` and ``<svg>``.

Formulas and drawings are written anew from such a tree, so nothing of their markup reaches a page unparsed.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Iterator

from app.feeds.html import tag_patterns

MAX_DEPTH = 48
MAX_ELEMENTS = 8000


def list_names(names: str) -> frozenset[str]:
    """Return the names in a text, separated by white space."""
    return frozenset(names.split())


_TOKEN = re.compile(
    rf"<(?:!--.*?-->|!\[CDATA\[(?P<data>.*?)\]\]>"
    rf"|(?P<end>/?)(?:[A-Za-z0-9]{{1,16}}:)?(?P<name>[A-Za-z][A-Za-z0-9_.-]{{0,40}}){tag_patterns.INNER}>)",
    re.DOTALL,
)
#: Start tags at which the HTML parser leaves a formula or drawing (HTML standard §13.2.6.5).
_BREAKOUT = list_names(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing "
    "menu meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
)
#: Elements that may contain HTML.
_WITH_HTML = list_names("annotation-xml desc foreignobject mi mn mo ms mtext title")
#: Characters that neither XML nor HTML may contain.
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


@dataclasses.dataclass(slots=True)
class Element:
    """An element: its lower-case local name, its attributes by lower-case name, and its content."""

    name: str
    given: dict[str, str]
    content: list[Element | str]

    @property
    def elements(self) -> list[Element]:
        """The child elements."""
        return [one for one in self.content if isinstance(one, Element)]

    def walk_elements(self) -> Iterator[Element]:
        """Yield this element and all below it, in document order."""
        yield self
        for child in self.elements:
            yield from child.walk_elements()

    def join_text(self) -> str:
        """Return all text of this element."""
        return "".join(one if isinstance(one, str) else one.join_text() for one in self.content)


def parse_element(name: str, inner: str, inside: str) -> Element | None:
    """Return the tree of an element, given the insides of its start tag and of the element.

    Returns:
        The tree; None if the markup is too large or nested too deep, or if HTML would end the element.
    """
    root = Element(name, tag_patterns.parse_attributes(inner), [])
    stack, count, at = [root], 0, 0
    while at < len(inside):
        begin = inside.find("<", at)
        if text := inside[at : begin if begin >= 0 else len(inside)]:
            stack[-1].content.append(_REFUSED.sub("", html.unescape(text)))
        if begin < 0:
            break
        token = _TOKEN.match(inside, begin)
        if token is None:
            return None
        at = token.end()
        if token["data"] is not None:
            stack[-1].content.append(_REFUSED.sub("", token["data"]))
        elif token["name"] is not None:
            if not _add(stack, token["name"].lower(), bool(token["end"]), token[4]):
                return None
            count += 1
            if count > 2 * MAX_ELEMENTS or len(stack) > MAX_DEPTH:
                return None
    return root


def _add(stack: list[Element], name: str, ends: bool, inner: str) -> bool:
    """Add a tag to the open elements; return False where the HTML parser would leave the root."""
    if ends:
        at = next((n for n in range(len(stack) - 1, 0, -1) if stack[n].name == name), 0)
        if at:
            del stack[at:]
        return True
    if name in _BREAKOUT and not any(one.name in _WITH_HTML for one in stack):
        return False
    child = Element(name, tag_patterns.parse_attributes(inner), [])
    stack[-1].content.append(child)
    if not inner.rstrip().endswith("/") and name not in ("br", "img", "hr", "wbr"):
        stack.append(child)
    return True


def escape_text(text: str) -> str:
    """Return text as it is written between tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_value(text: str) -> str:
    """Return text as it is written between double quotes."""
    return _REFUSED.sub("", escape_text(text).replace('"', "&quot;"))
