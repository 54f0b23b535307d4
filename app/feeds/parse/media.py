"""Media RSS inside entries: pictures, files and texts, which never replace the entry's own fields."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeAlias

from lxml.etree import _Element

from app.feeds.parse.draft import EntryDraft
from app.feeds.parse.markup import escape_text, get_text
from app.feeds.parse.names import HandlerTable
from app.models.feeds.parsed import looks_like_picture

Handler: TypeAlias = Callable[[EntryDraft, _Element], None]

#: Types of ``media:content`` that are a page or a plug-in, not a file.
_PLAYERS = {"text/html", "application/x-shockwave-flash"}
#: Pictures up to this size in pixels are faces and icons.
_FACE = 48


def add_keywords(draft: EntryDraft, el: _Element) -> None:
    """Add a comma-separated list of keywords as categories."""
    for word in (el.text or "").split(",", 64):
        draft.add_category(word)


def _media_credit(draft: EntryDraft, el: _Element) -> None:
    if el.get("role") == "author":
        draft.offer_author(2, el.text)


def _media_group(draft: EntryDraft, el: _Element) -> None:
    for child in el:
        handler = _TABLE[child.tag]
        if handler is not None:
            handler(draft, child)


def _media_content(draft: EntryDraft, el: _Element) -> None:
    add_content(draft, el, el.get("fileSize"), _in_group(el), functools.partial(_words, el))
    if len(el):
        _media_group(draft, el)


def add_content(
    draft: EntryDraft,
    attributes: _Element | dict[str, str],
    size: str | None,
    in_group: bool,
    caption: Callable[[], str],
) -> None:
    """Add a file or picture.

    Args:
        draft: the entry.
        attributes: of the element, except the size, whose name differs by parser.
        size: bytes, as written; None if not stated.
        in_group: whether the element is in a ``media:group``.
        caption: returns the caption of a picture.
    """
    url, kind = attributes.get("url") or "", attributes.get("type") or ""
    medium = attributes.get("medium") or kind.partition("/")[0]
    if medium == "image" or (not medium and looks_like_picture(url)):
        width = attributes.get("width")
        if is_avatar(url, width, attributes.get("height")):
            return
        draft.offer_image(50 + rank_width(width), url)
        # Pictures in one group, or with a width, are mostly sizes of the same picture.
        if width is None and not in_group:
            draft.add_picture(url, kind, size, caption)
    elif medium and kind not in _PLAYERS:
        draft.add_enclosure(url, kind, size, attributes.get("duration"))


def _words(el: _Element) -> str:
    return next((get_text(child) for child in el if _TABLE[child.tag] is _media_description), "")


def _in_group(el: _Element) -> bool:
    parent = el.getparent()
    return parent is not None and _TABLE[parent.tag] is _media_group


def is_avatar(url: str, width: str | None, height: str | None) -> bool:
    """Return whether a picture shows the author, as blogs and code hosts add to each entry."""
    return "gravatar.com/avatar/" in url or (_is_small(width) and _is_small(height))


def _is_small(size: str | None) -> bool:
    return size is not None and len(size) < 3 and size.isascii() and size.isdecimal() and int(size) <= _FACE


def _media_thumbnail(draft: EntryDraft, el: _Element) -> None:
    url = el.get("url") or el.text or ""
    if not is_avatar(url, el.get("width"), el.get("height")):
        draft.offer_image(45 + rank_width(el.get("width")), url)


def _media_category(draft: EntryDraft, el: _Element) -> None:
    draft.add_category(el.get("label") or el.text)


def _media_title(draft: EntryDraft, el: _Element) -> None:
    draft.offer_title(1, get_text(el))


def _media_description(draft: EntryDraft, el: _Element) -> None:
    offer_description(draft, get_text(el), el.get("type"))


def offer_description(draft: EntryDraft, text: str, kind: str | None) -> None:
    """Offer a file's description for an entry that has none, such as a YouTube video."""
    draft.offer_summary(1, text if kind == "html" or "</" in text else escape_text(text))


def rank_width(width: str | None) -> int:
    """Return 0–4, more for wider pictures: of several sizes the largest represents the entry."""
    width = width or ""
    return min(int(width) // 300, 4) if width.isascii() and width.isdecimal() and len(width) < 6 else 0


MEDIA: dict[str, Handler] = {
    "media:content": _media_content,
    "media:group": _media_group,
    "media:thumbnail": _media_thumbnail,
    "media:title": _media_title,
    "media:description": _media_description,
    "media:credit": _media_credit,
    "media:category": _media_category,
    "media:keywords": add_keywords,
}
_TABLE: HandlerTable[Handler] = HandlerTable(MEDIA, "media")
