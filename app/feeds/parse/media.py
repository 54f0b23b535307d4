"""Media RSS inside entries: pictures, files and texts, never in the place of what the entry itself says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lxml.etree import _Element

from app.feeds.parse.draft import EntryDraft
from app.feeds.parse.markup import escape, text_of
from app.feeds.parse.names import Table

Handler: TypeAlias = Callable[[EntryDraft, _Element], None]

#: "content" that is a page or a plug-in, no file.
_PLAYERS = {"text/html", "application/x-shockwave-flash"}


def keywords(draft: EntryDraft, el: _Element) -> None:
    """Read a list of words with commas as categories."""
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
    url, kind = el.get("url"), el.get("type") or ""
    medium = el.get("medium") or kind.partition("/")[0]
    if medium == "image" or (not medium and _looks_like_image(url)):
        draft.offer_image(50 + _width(el), url)
    elif medium and kind not in _PLAYERS:
        draft.add_enclosure(url, kind, el.get("fileSize"))
    if len(el):
        _media_group(draft, el)


def _media_thumbnail(draft: EntryDraft, el: _Element) -> None:
    draft.offer_image(45 + _width(el), el.get("url") or el.text)


def _media_category(draft: EntryDraft, el: _Element) -> None:
    draft.add_category(el.get("label") or el.text)


def _media_title(draft: EntryDraft, el: _Element) -> None:
    draft.offer_title(1, text_of(el))


def _media_description(draft: EntryDraft, el: _Element) -> None:
    text = text_of(el)
    draft.offer_summary(1, text if el.get("type") == "html" or "</" in text else escape(text))


def _width(el: _Element) -> int:
    """Return 0–4, more for wider pictures: of several sizes the largest stands for the entry."""
    width = el.get("width") or ""
    return min(int(width) // 300, 4) if width.isascii() and width.isdecimal() and len(width) < 6 else 0


def _looks_like_image(url: str | None) -> bool:
    path = (url or "").partition("?")[0].lower()
    return path.endswith((".jpg", ".jpeg", ".png", ".gif", ".webp", ".avif"))


MEDIA: dict[str, Handler] = {
    "media:content": _media_content,
    "media:group": _media_group,
    "media:thumbnail": _media_thumbnail,
    "media:title": _media_title,
    "media:description": _media_description,
    "media:credit": _media_credit,
    "media:category": _media_category,
    "media:keywords": keywords,
}
_TABLE: Table[Handler] = Table(MEDIA, "media")
