"""feedparser as the last resort, for documents that no strict parser can read.

It is slow and some of its expressions are quadratic, so that its input is small and scanned first
(:mod:`app.feeds.parse.guard`). It neither sanitises nor resolves addresses here: both are done for all
paths in one place, and a resolved guid would differ from the raw one of the other paths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import unescape

import feedparser

from app.errors import ParseError
from app.feeds.parse.draft import EntryDraft, FeedDraft
from app.feeds.parse.guard import guard
from app.feeds.parse.markup import escape, lines_kept
from app.feeds.parse.media import is_face
from app.feeds.parse.repair import repair, without_prolog
from app.feeds.text import language
from app.models.parsed import Format

_FORMATS = {
    "rss090": Format.RSS09X,
    "rss091n": Format.RSS09X,
    "rss091u": Format.RSS09X,
    "rss092": Format.RSS09X,
    "rss093": Format.RSS09X,
    "rss094": Format.RSS09X,
    "rss10": Format.RSS10,
    "rss20": Format.RSS20,
    "rss": Format.RSS20,
    "atom01": Format.ATOM03,
    "atom02": Format.ATOM03,
    "atom03": Format.ATOM03,
    "atom10": Format.ATOM10,
    "atom": Format.ATOM10,
}


def read_fallback(draft: FeedDraft, body: bytes) -> None:
    """Fill a draft by feedparser.

    Args:
        body: UTF-8.

    Raises:
        ParseError: ``too_large`` (for this parser), ``broken_feed`` or ``not_a_feed``.
    """
    # bare "&" would reach guids as "&name;", a stale declaration would name the wrong charset
    body = repair(body) or without_prolog(body)
    found = _parse(guard(body, draft.ctx.limits))
    version = _FORMATS.get(found.get("version") or "")
    if version is None and not found.entries:
        raise ParseError("not_a_feed", "no parser finds a feed in it")
    draft.format = version or Format.RSS20
    draft.base = draft.ctx.base
    _feed(draft, found.feed)
    raw = _unescaped if found.bozo else _as_it_is
    for item in found.entries[draft.left_out(found.entries, lambda item: _entry(draft, item, raw)) :]:
        if draft.full():
            break
        draft.entries.append(_entry(draft, item, raw).finish())


def _parse(body: bytes) -> Any:
    headers = {"content-type": "application/xml; charset=utf-8"}
    try:
        return feedparser.parse(body, response_headers={}, sanitize_html=False, resolve_relative_uris=False)
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError, AssertionError) as e:
        # what its handlers let out on input that none of its tests foresaw
        raise ParseError("broken_feed", f"{type(e).__name__}: {str(e)[:120]}", headers=headers) from e


def _feed(draft: FeedDraft, feed: Any) -> None:
    draft.offer_title(9, _text(feed, "title") or "")
    draft.offer_link(9, _text(feed, "link"))
    draft.offer_description(9, _text(feed, "subtitle") or "")
    draft.language = language(_text(feed, "language") or "")
    draft.author = draft.ctx.person(_text(feed, "author") or "")
    for link in _parts(feed, "links"):
        if link.get("rel") == "self":
            draft.self_url = draft.self_url or draft.ctx.join(draft.base, link.get("href"))
        elif link.get("rel") == "hub":
            draft.hub = draft.hub or draft.ctx.join(draft.base, link.get("href"))
    draft.offer_icon(9, _text(feed, "icon"))
    for image in _parts(feed, "image"):
        draft.offer_icon(6, image.get("href") or image.get("url"))
    draft.offer_icon(5, _text(feed, "logo"))
    ttl = _text(feed, "ttl") or ""
    draft.ttl = int(ttl) if ttl.isascii() and ttl.isdecimal() and len(ttl) < 7 else None


def _text(holder: Any, name: str) -> str | None:
    """Return a text; elements that feedparser does not know come as their attributes when they have any."""
    # its own get() gives "published" for "updated", with a warning
    value = dict.get(holder, name) if name == "updated" else holder.get(name)
    return value if isinstance(value, str) else None


def _parts(holder: Any, name: str) -> list[Any]:
    """Return the dicts under a name, whether one stands there, a list, or something else."""
    value = holder.get(name)
    return [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, dict)]


def _as_it_is(text: str | None) -> str | None:
    return text


def _unescaped(text: str | None) -> str | None:
    """Undo the escapes that the loose parser leaves in plain elements (the strict one does not)."""
    return unescape(text, {"&quot;": '"', "&apos;": "'"}) if text else text


def _entry(feed: FeedDraft, item: Any, raw: Callable[[str | None], str | None]) -> EntryDraft:
    entry = EntryDraft(feed.ctx, feed.base)
    entry.offer_guid(9, raw(_text(item, "id")))
    entry.offer_link(9, _text(item, "link"))
    entry.original = raw(_text(item, "feedburner_origlink"))
    detail: dict[str, Any] = next(iter(_parts(item, "title_detail")), {})
    entry.offer_title(9, _text(item, "title") or "", detail.get("type") == "text/plain")
    entry.offer_author(9, _text(item, "author"))
    entry.offer_author(1, feed.author)
    entry.offer_published(9, _text(item, "published"))
    entry.offer_published(8, _text(item, "created"))
    entry.offer_updated(9, _text(item, "updated"))
    for content in _parts(item, "content"):
        _content(entry, content)
    summary = next(iter(_parts(item, "summary_detail")), {"value": _text(item, "summary")})
    value = summary.get("value") or ""
    entry.offer_summary(9, escape(value) if summary.get("type") == "text/plain" else lines_kept(value))
    for tag in _parts(item, "tags"):
        entry.add_category(tag.get("label") or tag.get("term"))
    # its own "enclosures" expects links as it makes them, and an element may be called so
    for file in (link for link in _parts(item, "links") if link.get("rel") == "enclosure"):
        entry.add_enclosure(file.get("href") or file.get("url"), file.get("type"), file.get("length"))
    entry.duration = _text(item, "itunes_duration")
    _images(entry, item)
    return entry


def _content(entry: EntryDraft, content: Any) -> None:
    value = content.get("value") or ""
    base = entry.ctx.join(entry.base, content.get("base")) or entry.base
    if content.get("type") == "text/plain":
        entry.offer_content(6, escape(value), base)
    else:
        entry.offer_content(8, value, base)


def _images(entry: EntryDraft, item: Any) -> None:
    for picture in _pictures(item, "media_content"):
        if (picture.get("medium") or picture.get("type") or "").startswith("image"):
            entry.offer_image(50, picture.get("url"))
            if "width" not in picture:
                url, kind = picture.get("url") or "", picture.get("type") or ""
                entry.add_picture(url, kind, picture.get("filesize"))
    for picture in _pictures(item, "media_thumbnail"):
        entry.offer_image(45, picture.get("url"))
    for image in _parts(item, "image"):
        entry.offer_image(40, image.get("href") or image.get("url"))


def _pictures(item: Any, name: str) -> list[Any]:
    found = _parts(item, name)
    return [p for p in found if not is_face(p.get("url") or "", p.get("width"), p.get("height"))]
