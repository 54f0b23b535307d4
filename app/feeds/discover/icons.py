"""Icons that a page announces: which to try, best first. Pure, without the network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from lxml import etree

from app.feeds import safe_xml

#: Most links to icons that a page's order is made of.
LINKS_MAX = 24
#: Most icons of one page that are tried.
TRIES = 6
#: Width in pixels of the icons that Eventr shows; the nearest one needs the least.
WANTED = 64
#: Icons below this width look blurred.
LEAST = 32
SVG_MAX = 64 << 10
#: Most references inside an SVG; many of them can stand for billions of shapes.
SVG_USES = 32

_SIZE = re.compile(r"(\d{1,4})x(\d{1,4})", re.IGNORECASE)
_TOUCH = frozenset({"apple-touch-icon", "apple-touch-icon-precomposed"})
#: Relations of the links that are looked at.
RELATIONS = _TOUCH | {"icon"}
_SVG = "{http://www.w3.org/2000/svg}"
#: What an SVG may not contain: scripts, other documents, other pictures, and changes over time.
_FORBIDDEN = frozenset(
    (
        *("script", "foreignobject", "iframe", "embed", "object", "image", "feimage", "a", "handler"),
        *(
            "animate",
            "animatetransform",
            "animatemotion",
            "animatecolor",
            "set",
            "audio",
            "video",
            "listener",
        ),
    )
)
#: What names another file in a style or an attribute. A backslash can stand for any letter of these words.
_ELSEWHERE = re.compile(
    r"\\|@import|url\(\s*['\"]?(?!#)|image(?:-set)?\(|src\(|javascript:|expression\(", re.IGNORECASE
)


class IconLink(NamedTuple):
    """An icon as a page announces it; ``url`` is absolute."""

    url: str
    rel: frozenset[str]
    sizes: str = ""
    type: str = ""
    media: str = ""


def sort_icons(links: Iterable[IconLink]) -> list[str]:
    """Return the addresses of the icons to try, best first.

    First those from 32 pixels on, the nearest to 64 pixels first; then icons for the home screens of phones,
    drawings, icons without a size, small ones, and at last those for dark backgrounds. Masks of one color are
    left out.
    """
    ranked = sorted((rank, link.url) for link in links if (rank := _rank(link)) is not None)
    return list(dict.fromkeys(url for _, url in ranked))[:TRIES]


def list_default_icons(url: str) -> list[str]:
    """Return the address at which sites have an icon that no page announces; nothing for a broken address."""
    try:
        parts = urlsplit(url)
        return [urljoin(f"{parts.scheme}://{parts.netloc}/", "/favicon.ico")]
    except ValueError:
        return []


def _rank(link: IconLink) -> tuple[int, int] | None:
    is_touch = bool(link.rel & _TOUCH)
    if "mask-icon" in link.rel or not (is_touch or "icon" in link.rel):
        return None
    sizes = [min(int(w), int(h)) for w, h in _SIZE.findall(link.sizes[:200])]
    large = [abs(size - WANTED) for size in sizes if size >= LEAST]
    if "dark" in link.media.lower():
        return 9, 0
    if is_touch:
        return 1, min(large, default=0)
    if _is_svg(link):
        return 2, 0
    if large:
        return 0, min(large)
    return (4, -max(sizes)) if sizes else (3, 0)


def _is_svg(link: IconLink) -> bool:
    try:
        path = urlsplit(link.url).path
    except ValueError:
        return False
    return "svg" in link.type.lower() or path.lower().endswith(".svg")


def is_harmless_svg(body: bytes) -> bool:
    """Return whether an SVG may be kept as it is: small, complete, and without scripts or other files."""
    if len(body) > SVG_MAX or b"<!DOCTYPE" in body[:SVG_MAX] or b"<!ENTITY" in body or b"<?xml-s" in body:
        return False
    try:
        root = etree.fromstring(body, safe_xml.build_safe_parser())
    except (etree.XMLSyntaxError, ValueError):
        return False
    if root.tag != f"{_SVG}svg":
        return False
    uses = 0
    for element in _iterate(root):
        name = etree.QName(element).localname.lower()
        uses += name == "use"
        if name in _FORBIDDEN or uses > SVG_USES:
            return False
        if name == "style" and _ELSEWHERE.search("".join(map(str, element.itertext()))):
            return False
        if any(_is_dangerous(str(key), str(value)) for key, value in element.attrib.items()):
            return False
    return True


def _iterate(root: etree._Element) -> Iterator[etree._Element]:
    return (element for element in root.iter() if isinstance(element.tag, str))


def _is_dangerous(key: str, value: str) -> bool:
    name = key.rpartition("}")[2].lower()
    if name == "href":
        return not value.strip().startswith("#")
    return name.startswith("on") or name == "base" or _ELSEWHERE.search(value) is not None
