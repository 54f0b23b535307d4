"""Pictures in sanitized HTML: which there are, and the HTML with other tags in their place. Pure.

Stored HTML keeps the addresses of the sites. This is the one place where pages, programs and feeds of shares
get other ones.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

#: Most pictures of one entry that are fetched; further ones become links (security.md U13).
PICTURES_MAX = 50
#: Pixels of the smallest picture that stands for an entry in lists, and how many times its height it is wide.
_LEAD_LEAST, _LEAD_WIDEST = 100, 4
#: Pictures at the beginning of a text of which one may stand for its entry.
_LEAD_AMONG = 5
#: Parts of the addresses of small pictures that state no size.
_SMALL = re.compile(r"emoji|smil(?:ey|ies)|spacer|pixel|avatar|button|badge|icon|logo", re.I)
#: Width in pixels of the largest size that is drawn; from a set, the smallest picture that is wide enough.
_WIDEST = 1280

_TAG = re.compile(r"<(?:(img|source)((?: [^>]*)?)|(/?a)(?: [^>]*)?)>")
_ATTRIBUTE = re.compile(r'([a-z-]+)="([^"]*)"')
_CANDIDATE = re.compile(r"(\S+?)(?:\s+(\d{1,6}(?:\.\d{1,4})?)([wx]))?(?:,\s+|\s*\Z)")
_LENGTH = re.compile(r"[1-9][0-9]{0,4}")
#: Attributes of the stored tag that the new tag keeps.
_KEPT = ("alt", "title", "lang", "dir", "align")


class PictureTag(NamedTuple):
    """A picture in HTML.

    Attributes:
        url: its address, from its set of sizes or its source.
        attributes: of the tag as stored, unescaped.
        is_linked: whether it is inside of a link, so that no other link may be inside of it.
        is_variant: whether it only replaces the next picture under a condition, such as a dark color theme.
    """

    url: str
    attributes: Mapping[str, str]
    is_linked: bool
    is_variant: bool = False

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height as the HTML states them, None unless it states both in pixels."""
        width, height = self.attributes.get("width", ""), self.attributes.get("height", "")
        return (int(width), int(height)) if _LENGTH.fullmatch(width) and _LENGTH.fullmatch(height) else None


def list_pictures(markup: str) -> list[str]:
    """Return the addresses of the pictures in sanitized HTML, each once, at most :data:`PICTURES_MAX`."""
    if "<img" not in markup:
        return []
    tags = ((tag[1], _read_attributes(tag[2])) for tag in _TAG.finditer(markup) if tag[1])
    found = (_choose_address(given) for name, given in tags if name == "img" or "media" in given)
    return list(dict.fromkeys(url for url in found if url))[:PICTURES_MAX]


def find_lead_picture(markup: str) -> str | None:
    """Return the address of the picture in sanitized HTML that stands for an entry in lists, or None.

    It is the first one that isn't a button, a badge, a smiley or a ruler.
    """
    if "<img" not in markup:
        return None
    tags = [_read_attributes(tag[2]) for tag in _TAG.finditer(markup) if tag[1] == "img"]
    for attributes in tags[:_LEAD_AMONG]:
        url = _choose_address(attributes)
        if url and _is_lead(PictureTag(url, attributes, is_linked=False)):
            return url
    return None


def _is_lead(tag: PictureTag) -> bool:
    if tag.size:
        return min(tag.size) >= _LEAD_LEAST and tag.size[0] <= _LEAD_WIDEST * tag.size[1]
    stated = [
        tag.attributes[name]
        for name in ("width", "height")
        if _LENGTH.fullmatch(tag.attributes.get(name, ""))
    ]
    return all(int(length) >= _LEAD_LEAST for length in stated) and not _SMALL.search(
        tag.url.partition("//")[2]
    )


def rewrite_pictures(markup: str, render: Callable[[PictureTag], str]) -> str:
    """Return sanitized HTML with other tags for its pictures.

    Pictures without a web address, such as those inside of the HTML itself, stay. Sources of other formats
    are left out, since there is only one.

    Args:
        render: returns the HTML for a picture.
    """
    if "<img" not in markup:
        return markup
    depth = 0

    def replace_tag(tag: re.Match[str]) -> str:
        nonlocal depth
        if tag[3]:
            depth = max(0, depth + (1 if tag[3] == "a" else -1))
            return tag[0]
        attributes = _read_attributes(tag[2])
        is_variant = tag[1] == "source"
        url = _choose_address(attributes)
        if is_variant and not (url and "media" in attributes):
            return ""
        return render(PictureTag(url, attributes, depth > 0, is_variant)) if url else tag[0]

    return _TAG.sub(replace_tag, markup)


def extend_pictures(
    markup: str, describe: Callable[[PictureTag], Mapping[str, str | int | None] | None]
) -> str:
    """Return sanitized HTML in which the tags of pictures from the web have further attributes.

    Args:
        describe: returns attributes that the stored tag doesn't have.
    """

    def extend_tag(tag: re.Match[str]) -> str:
        if tag[1] != "img":
            return tag[0]
        attributes = _read_attributes(tag[2])
        url = _choose_address(attributes)
        added = describe(PictureTag(url, attributes, is_linked=False)) if url else None
        given = {name: value for name, value in (added or {}).items() if value is not None}
        return "<img" + _write_attributes(given) + tag[0][len("<img") :] if given else tag[0]

    return _TAG.sub(extend_tag, markup) if "<img" in markup else markup


def write_picture(tag: PictureTag, attributes: Mapping[str, str | int | None]) -> str:
    """Return an ``<img>`` with these attributes, and the alternative text and title of the stored one."""
    kept = {name: tag.attributes[name] for name in _KEPT if name in tag.attributes}
    given = {"alt": "", **kept, **{name: v for name, v in attributes.items() if v is not None}}
    return "<img" + _write_attributes(given) + ">"


def write_link(tag: PictureTag) -> str:
    """Return a link to a picture that isn't shown; only its text inside of another link."""
    if tag.is_variant:
        return ""
    text = html.escape(tag.attributes.get("alt") or tag.url)
    return text if tag.is_linked else f'<a href="{html.escape(tag.url)}">{text}</a>'


def _write_attributes(given: Mapping[str, str | int]) -> str:
    return "".join(f' {name}="{html.escape(str(value))}"' for name, value in given.items())


def _read_attributes(text: str) -> dict[str, str]:
    return {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(text)}


def _choose_address(attributes: Mapping[str, str]) -> str | None:
    """Return the address of the smallest picture in the set that is wide enough, else of the largest one."""
    source = attributes.get("src", "")
    widths = {}
    for found in _CANDIDATE.finditer(attributes.get("srcset", "")):
        if found[3] == "w" and _is_web(found[1]):
            widths[float(found[2])] = found[1]
    if widths:
        wide = [width for width in widths if width >= _WIDEST]
        return widths[min(wide) if wide else max(widths)]
    if _is_web(source):
        return source
    first = next((c[1] for c in _CANDIDATE.finditer(attributes.get("srcset", "")) if _is_web(c[1])), None)
    return None if source.startswith("data:") else first


def _is_web(url: str) -> bool:
    return url.startswith(("https://", "http://"))
