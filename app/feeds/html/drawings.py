"""Drawings: inline SVG by an allow-list, as a picture with a ``data:`` address.

Browsers show such a picture in a document of its own, without scripts and requests (SVG 2 §2.3, "secure
animated mode"), so its names and styles can't reach the page. The drawing is written anew from its tree
nevertheless: apps and other sites get the same HTML.
"""

from __future__ import annotations

import base64
import binascii
import functools
import html
import re

from app.feeds.html.element_tree import Element, escape_text, escape_value, list_names, parse_element

PREFIX = "data:image/svg+xml;base64,"
#: In bytes; a larger drawing becomes a link to its page.
MAX_DRAWING = 96 << 10
#: Most elements that references draw again, so that small markup stays cheap to draw.
MAX_REPEATED = 20_000
#: Pixels up to which a drawing without a name is an icon of its page.
ICON = 32
_LABEL = 300

_SHAPES = list_names("circle ellipse image line path polygon polyline rect text tspan use")
#: Shapes that show something without another element.
_DRAWN = _SHAPES - {"tspan", "use"}
#: Elements whose content is only drawn where something refers to it. It may not refer to others.
_HOLDERS = list_names("clipPath defs marker symbol")
_ELEMENTS = {
    name.lower(): name
    for name in (
        *_SHAPES, *_HOLDERS, "a", "desc", "g", "linearGradient", "radialGradient", "stop", "style", "svg",
        "switch", "textPath", "title",
    )
}  # fmt: skip
#: Elements that take colors or a path from another, which isn't drawn again.
_BORROWERS = frozenset(["lineargradient", "radialgradient", "textpath"])
#: Elements that lose only their tags.
_UNWRAPPED = frozenset(["a", "switch"])
#: Attributes that CSS may set too (SVG 2 §6.6).
_PROPERTIES = list_names(
    "clip-path clip-rule color display dominant-baseline fill fill-opacity fill-rule font-family font-size "
    "font-style font-weight letter-spacing marker-end marker-mid marker-start opacity overflow paint-order "
    "shape-rendering stop-color stop-opacity stroke stroke-dasharray stroke-dashoffset stroke-linecap "
    "stroke-linejoin stroke-miterlimit stroke-opacity stroke-width text-anchor text-decoration "
    "text-rendering transform vector-effect visibility word-spacing writing-mode"
)
_ATTRIBUTES = {
    name.lower(): name
    for name in sorted(
        list_names(
            "class clipPathUnits cx cy d dx dy fx fy gradientTransform gradientUnits height href id "
            "lengthAdjust markerHeight markerUnits markerWidth offset orient pathLength points "
            "preserveAspectRatio r refX refY rotate rx ry spreadMethod startOffset textLength viewBox width "
            "x x1 x2 xml:space y y1 y2"
        )
        | _PROPERTIES
    )
}
_VALUE = re.compile(r"""[A-Za-z0-9 \t\r\n.,#%()+/_'"!*-]{0,1048576}""")
_ID = re.compile(r"[^\s\"'<>&()\\]{1,128}")
_REFERENCE = re.compile(r"url\(\s*+[\"']?#([^\s\"'<>&()\\]{1,128})[\"']?\s*+\)")
#: Style sheets that load nothing and escape nothing.
_SHEET = re.compile(r"[^@\\<&]{0,16384}")
_AT_RULE = re.compile(r"@[^{}@;]{0,400}(?:;|\{(?:[^{}@]{0,2000}\{[^{}@]{0,2000}\})*[^{}@]{0,2000}\})")
_UNSEEN = re.compile(r"display\s*+:\s*+none", re.IGNORECASE)
_DATA_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/\s]*={0,2}", re.ASCII)
_PIXELS = re.compile(r"(\d{1,5})(?:\.\d{0,20})?(px|em|ex|)", re.ASCII)
_PER_UNIT = {"": 1, "px": 1, "em": 16, "ex": 8}
_NUMBER = re.compile(r"-?\d{1,6}(?:\.\d{0,20})?", re.ASCII)


def render_drawing(inner: str, inside: str, page: str) -> str:
    """Return a picture of a drawing, given the insides of its start tag and of the element.

    Returns:
        An <img>; a link to the page if the drawing is too large; "" if it shows nothing, or only an icon.
    """
    root = parse_element("svg", inner, inside)
    if root is None:
        return ""
    label = _find_label(root)
    if "hidden" in root.given or _UNSEEN.search(root.given.get("style", "")) or _is_empty(root):
        return ""
    if not _is_visible(root, _References(root)):
        return html.escape(label, quote=False)
    if not label and _is_decoration(root):
        return ""
    drawing = _write(root)
    if drawing is None:
        return _link(label or "SVG", page) if page else html.escape(label, quote=False)
    size = "".join(f' {name}="{px}"' for name, px in zip(("width", "height"), _size(root), strict=True) if px)
    return f'<img src="{drawing}" alt="{escape_value(label)}"{size}>'


@functools.lru_cache(8)
def is_drawing(address: str) -> bool:
    """Return whether a ``data:`` address holds a drawing as :func:`render_drawing` writes it."""
    try:
        text = base64.b64decode(address.removeprefix(PREFIX), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    found = re.fullmatch(r"<svg( [^<>]*)>(.*)</svg>", text, re.DOTALL)
    root = parse_element("svg", found[1], found[2]) if found else None
    return root is not None and _write(root) == address


def _write(root: Element) -> str | None:
    """Return the address of a drawing; None if nothing in it is visible, or if it is too large."""
    _settle(root)
    references = _References(root)
    if not _is_visible(root, references):
        return None
    drawing = _render(root, references, held=False).encode()
    return PREFIX + base64.b64encode(drawing).decode() if len(drawing) <= MAX_DRAWING else None


def _is_visible(one: Element, references: _References) -> bool:
    """Return whether anything is drawn, besides what waits for a reference."""
    if one.name == "use":
        return references.can_repeat(_get_href(one))
    if one.name == "image":
        return bool(_DATA_IMAGE.fullmatch(_get_href(one)))
    if _ELEMENTS.get(one.name) in _HOLDERS:
        return False
    return one.name in _DRAWN or any(_is_visible(part, references) for part in one.elements)


def _get_href(one: Element) -> str:
    return one.given.get("href") or one.given.get("xlink:href") or ""


def _settle(root: Element) -> None:
    """Give the root what a picture needs: its vocabulary, and a view box so that it can be scaled."""
    if "viewbox" not in root.given and all(size := _size(root)):
        root.given["viewbox"] = f"0 0 {size[0]} {size[1]}"


class _References:
    """The elements of a drawing that may be drawn again."""

    def __init__(self, root: Element) -> None:
        self._sizes: dict[str, int] = {}
        self._measure(root, held=False)
        uses = [_get_href(one) for one in root.walk_elements() if one.name == "use"]
        self.are_few = sum(self._sizes.get(href[1:], 0) for href in uses) <= MAX_REPEATED

    def _measure(self, one: Element, *, held: bool) -> int:
        inside = held or _ELEMENTS.get(one.name) in _HOLDERS
        size = 1 + sum(self._measure(part, held=inside) for part in one.elements)
        if inside and (name := one.given.get("id")):
            self._sizes.setdefault(name, size)
        return size

    def can_repeat(self, href: str) -> bool:
        """Return whether an element may be drawn again by ``<use>``."""
        return self.are_few and href[:1] == "#" and href[1:] in self._sizes


def _render(one: Element, references: _References, *, held: bool) -> str:
    name = _ELEMENTS.get(one.name)
    if one.name == "foreignobject":
        return _label_of(one)
    if name is None:
        return ""
    if name == "style":
        return _render_sheet(one)
    if name in ("title", "desc"):
        return f"<{name}>{escape_text(one.join_text())}</{name}>"
    attributes = _attributes(one, references, held=held)
    if name in ("use", "image") and " href=" not in attributes:
        return ""
    held = held or name in _HOLDERS
    keeps_text = name in ("text", "tspan", "textPath")
    inside = "".join(
        _render(part, references, held=held)
        if isinstance(part, Element)
        else escape_text(part)
        if keeps_text or one.name == "a"
        else ""
        for part in one.content
    )
    if name in _UNWRAPPED:
        return inside
    start = ' xmlns="http://www.w3.org/2000/svg"' if name == "svg" else ""
    return f"<{name}{start}{attributes}>{inside}</{name}>"


def _render_sheet(one: Element) -> str:
    sheet = _AT_RULE.sub("", one.join_text()).strip()
    loads = "url(" in _REFERENCE.sub("", sheet.lower())
    return f"<style>{escape_text(sheet)}</style>" if _SHEET.fullmatch(sheet) and not loads else ""


def _label_of(one: Element) -> str:
    """Return the text of HTML inside a drawing, in the middle of its place."""
    words = " ".join(one.join_text().split())[:_LABEL]
    place = [one.given.get(name, "0") for name in ("x", "y", "width", "height")]
    if not words or not all(map(_NUMBER.fullmatch, place)):
        return ""
    x, y, width, height = map(float, place)
    return (
        f'<text dominant-baseline="middle" text-anchor="middle" x="{x + width / 2:g}" y="{y + height / 2:g}">'
        f"{escape_text(words)}</text>"
    )


def _attributes(one: Element, references: _References, *, held: bool) -> str:
    given = dict(one.given)
    for declaration in given.pop("style", "").split(";"):
        name, _, declared = declaration.partition(":")
        if (name := name.strip().lower()) in _PROPERTIES:
            given[name] = declared.replace("!important", "").strip()
    if "xlink:href" in given:
        given.setdefault("href", given["xlink:href"])
    kept = []
    for name, written in _ATTRIBUTES.items():
        value = given.get(name)
        if value is not None and _is_allowed(one.name, name, value, references, held=held):
            kept.append(f' {written}="{escape_value(value)}"')
    return "".join(kept)


def _is_allowed(element: str, name: str, value: str, references: _References, *, held: bool) -> bool:
    if name == "href":
        if element == "image":
            return bool(_DATA_IMAGE.fullmatch(value))
        if element in _BORROWERS:
            return value[:1] == "#" and bool(_ID.fullmatch(value[1:]))
        return element == "use" and not held and references.can_repeat(value)
    if name in ("id", "class"):
        return all(map(_ID.fullmatch, value.split())) and bool(value.strip())
    plain = _REFERENCE.sub("", value)
    if plain != value and held and name not in ("fill", "stroke"):
        return False
    return bool(_VALUE.fullmatch(plain)) and "url(" not in plain.lower()


def _find_label(root: Element) -> str:
    label = root.given.get("aria-label") or next(
        (one.join_text() for name in ("title", "desc") for one in root.elements if one.name == name), ""
    )
    return " ".join(label.split())[:_LABEL]


def _is_decoration(root: Element) -> bool:
    """Return whether an unnamed drawing only decorates its page."""
    return root.given.get("aria-hidden") == "true" or 0 < max(_size(root)) <= ICON


def _is_empty(root: Element) -> bool:
    """Return whether a drawing takes no room: it only holds symbols for others."""
    return "0" in (root.given.get("width"), root.given.get("height"))


def _size(root: Element) -> tuple[int, int]:
    """Return the width and height in pixels, 0 if unknown."""
    width, height = (_PIXELS.fullmatch(root.given.get(name, "").strip()) for name in ("width", "height"))
    if width and height:
        return int(width[1]) * _PER_UNIT[width[2]], int(height[1]) * _PER_UNIT[height[2]]
    box = root.given.get("viewbox", "").replace(",", " ").split()
    if len(box) != 4 or not all(map(_NUMBER.fullmatch, box)):
        return 0, 0
    return int(float(box[2])), int(float(box[3]))


def _link(label: str, page: str) -> str:
    return f'<a href="{html.escape(page)}">{html.escape(label, quote=False)}</a>'
