"""JSON Feed 1.0 and 1.1 (jsonfeed.org/version/1.1).

Strict where leniency would be dangerous (security.md X09): depth, string length, numbers and NaN have
limits; of duplicate keys the last one counts. Lenient with common mistakes: numbers as ids, missing
versions, strings instead of lists.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from app.errors import ParseError
from app.feeds.html.text import parse_language_tag
from app.feeds.parse import chain
from app.feeds.parse.draft import Context, EntryDraft, FeedDraft
from app.feeds.parse.markup import escape_text, is_html_document
from app.models.feeds.chain import JSON_NAME
from app.models.feeds.parsed import Format

_DEEPEST = 32
_LONGEST_STRING = 1 << 20
_LONGEST_FIGURE = 20
#: Names of the date in other formats, which some generators keep.
_OTHER_DATES = ("published", "pubDate", "date", "created")
_WEBSUB = ("", "websub", "pubsubhubbub")


def read_json(draft: FeedDraft, text: str) -> None:
    """Fill a draft from the text of a JSON Feed.

    Raises:
        ParseError: ``broken_feed`` (not JSON, or beyond the limits) or ``not_a_feed`` (other JSON).
    """
    document = _load(text, draft.ctx)
    if not isinstance(document, dict) or not _is_feed(document):
        raise ParseError("not_a_feed", "JSON, but not a JSON Feed")
    version = document.get("version")
    draft.format = Format.JSON10 if isinstance(version, str) and version.endswith("/1") else Format.JSON11
    draft.base = draft.ctx.base
    draft.self_url = _address(draft, document.get("feed_url"))
    draft.base = draft.base or draft.self_url or ""
    draft.offer_link(9, _text(document.get("home_page_url")))
    draft.offer_title(9, _text(document.get("title")))
    draft.offer_description(9, _text(document.get("description")))
    draft.language = parse_language_tag(_text(document.get("language")))
    draft.offer_icon(9, _text(document.get("favicon")))
    draft.offer_icon(8, _text(document.get("icon")))
    draft.author = _authors(draft.ctx, document)
    draft.hub = _hub(draft, document.get("hubs"))
    items = [item for item in _list(document.get("items")) if isinstance(item, dict)]
    for item in items[draft.count_skipped(items, lambda item: _entry(draft, item)) :]:
        if draft.is_full():
            break
        draft.entries.append(_entry(draft, item).finish())


def _is_feed(document: dict[str, Any]) -> bool:
    version = document.get("version")
    if isinstance(version, str) and "jsonfeed.org/version" in version:
        return True
    items = document.get("items")
    return isinstance(items, list) and any(key in document for key in ("feed_url", "home_page_url", "title"))


def _entry(feed: FeedDraft, item: dict[str, Any]) -> EntryDraft:
    entry = EntryDraft(feed.ctx, feed.base)
    entry.offer_guid(9, _text(item.get("id")))
    entry.offer_link(9, _text(item.get("url")))
    entry.offer_link(8, _text(item.get("external_url")))
    entry.offer_title(9, _text(item.get("title")), True)
    entry.offer_content(9, _text(item.get("content_html")))
    entry.offer_content(8, _html(item.get("content_text")))
    entry.offer_summary(9, _html(item.get("summary")))
    entry.offer_published(9, _text(item.get("date_published")))
    entry.offer_updated(9, _text(item.get("date_modified")))
    if not entry.published_rank:
        entry.offer_published(5, _text(next(filter(None, map(item.get, _OTHER_DATES)), None)))
    entry.offer_image(60, _text(item.get("image")))
    entry.offer_image(55, _text(item.get("banner_image")))
    entry.author = _authors(feed.ctx, item) or feed.author
    entry.reply_page = _text(item.get("comments_url"))
    for tag in _list(item.get("tags")):
        entry.add_category(_text(tag))
    for file in _list(item.get("attachments")):
        if isinstance(file, dict):
            size, seconds = file.get("size_in_bytes"), file.get("duration_in_seconds")
            entry.add_enclosure(
                _text(file.get("url")),
                _text(file.get("mime_type")),
                size if isinstance(size, (int, str)) else None,
                seconds if isinstance(seconds, (int, float, str)) else None,
            )
    if JSON_NAME in item:
        chain.read_json(entry, item[JSON_NAME])
    return entry


def _html(value: Any) -> str:
    """Return plain text as HTML; some generators write HTML there, which stays as it is."""
    text = _text(value)
    return text if is_html_document(text) else escape_text(text)


def _authors(ctx: Context, holder: dict[str, Any]) -> str:
    """Return the names of ``authors`` (1.1), else of ``author`` (1.0)."""
    authors = holder.get("authors")
    people = [p for p in (_list(authors) or [authors]) if isinstance(p, dict)]
    if not people and isinstance(holder.get("author"), dict):
        people = [holder["author"]]
    names = (ctx.clean_line(_text(p.get("name")) or _text(p.get("url"))) for p in people[:16])
    return ", ".join(dict.fromkeys(name for name in names if name))


def _hub(draft: FeedDraft, hubs: Any) -> str | None:
    """Return the first hub that speaks WebSub; we don't support rssCloud."""
    for hub in _list(hubs):
        if not isinstance(hub, dict) or _text(hub.get("type")).lower() not in _WEBSUB:
            continue
        if found := _address(draft, hub.get("url")):
            return found
    return None


def _address(draft: FeedDraft, value: Any) -> str | None:
    return draft.ctx.resolve_url(draft.base, _text(value))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    """Return a string that UTF-8 can encode, the digits of a whole number, or ""."""
    if isinstance(value, str):
        if not value.isascii():
            value = value.encode("utf-8", "replace").decode("utf-8")
        return str(value).replace("\0", "")
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _load(text: str, ctx: Context) -> Any:
    try:
        # Not strict: a raw line break inside a string is invalid but unambiguous.
        document = json.loads(text, strict=False, parse_constant=_refuse, parse_int=_whole, parse_float=_real)
    except (ValueError, RecursionError) as e:
        raise ParseError("broken_feed", f"JSON: {str(e)[:120]}") from e
    _check(document)
    return document


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} isn't valid JSON")


def _whole(digits: str) -> int:
    if len(digits) > _LONGEST_FIGURE:
        raise ValueError("a number is too long")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return value


def _check(document: Any) -> None:
    """Refuse a document that is nested too deep or contains a string that is too long.

    Raises:
        ParseError: ``too_large``.
    """
    level, depth = [document], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise ParseError("too_large", f"JSON nested deeper than {_DEEPEST}")
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, str) and len(value) > _LONGEST_STRING:
                raise ParseError("too_large", f"JSON string longer than {_LONGEST_STRING}")
        level = below
