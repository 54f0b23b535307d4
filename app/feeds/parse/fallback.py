"""Fallback parser: feedparser, for documents that no strict parser can read.

feedparser is slow and some of its expressions are quadratic. So its input is limited and scanned first
(:mod:`app.feeds.parse.guard`), and elements it would confuse are kept apart
(:mod:`app.feeds.parse.feedparser_input`).
It neither sanitizes nor resolves addresses here. That happens in one place for all parsers, and a resolved
guid would differ from the raw one of the other parsers.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from xml.sax.saxutils import unescape

import feedparser

from app.errors import ParseError
from app.feeds.html.text import parse_language_tag
from app.feeds.parse import feedparser_input
from app.feeds.parse.draft import EntryDraft, FeedDraft
from app.feeds.parse.guard import guard_document
from app.feeds.parse.markup import escape_text, interpret_text, keep_line_breaks
from app.feeds.parse.media import add_content, is_avatar, offer_description, rank_width
from app.feeds.parse.repair import repair, strip_prolog
from app.models.feeds.parsed import Format

Raw: TypeAlias = Callable[[str], str]

_ENTRY = re.compile(rb"<(?:[\w.-]{1,40}:)?(?:item|entry)[\s>/]", re.IGNORECASE)
_BLOCK = re.compile(rb"<[\w.-]{1,40}:block\s{0,9}>\s{0,9}yes\s{0,9}</", re.IGNORECASE)
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
    """Fill a draft with feedparser.

    Args:
        body: UTF-8.

    Raises:
        ParseError: ``too_large`` (for this parser), ``broken_feed`` or ``not_a_feed``.
    """
    # a bare "&" would reach guids as "&name;", an outdated declaration would name the wrong charset
    body = repair(body) or strip_prolog(body)
    found = _parse(feedparser_input.prepare_for_feedparser(guard_document(body, draft.ctx.limits)))
    version = _FORMATS.get(found.get("version") or "")
    if version is None and not found.entries:
        raise ParseError("not_a_feed", "no parser found a feed")
    draft.format = version or Format.RSS20
    draft.base = draft.ctx.base
    raw = _unescaped if found.bozo else _as_it_is
    _feed(draft, found.feed, raw)
    draft.unlisted = _is_unlisted(body)
    if not draft.title and not found.entries:
        raise ParseError("broken_feed", "neither a title nor an entry")
    for item in found.entries[draft.count_skipped(found.entries, lambda item: _entry(draft, item, raw)) :]:
        if draft.is_full():
            break
        draft.entries.append(_entry(draft, item, raw).finish())


def _is_unlisted(body: bytes) -> bool:
    """Return whether the head of a feed has an ``itunes:block``, of which feedparser knows one spelling."""
    first = _ENTRY.search(body)
    return _BLOCK.search(body, 0, first.start() if first else len(body)) is not None


def _parse(body: bytes) -> Any:
    headers = {"content-type": "application/xml; charset=utf-8"}
    try:
        return feedparser.parse(body, response_headers={}, sanitize_html=False, resolve_relative_uris=False)
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError, AssertionError) as e:
        # exceptions that feedparser's handlers raise on unforeseen input
        raise ParseError("broken_feed", f"{type(e).__name__}: {str(e)[:120]}", headers=headers) from e


def _feed(draft: FeedDraft, feed: Any, raw: Raw) -> None:
    draft.offer_title(9, _text(feed, "title") or "")
    draft.offer_link(9, _text(feed, "link"))
    draft.offer_description(9, _text(feed, "subtitle") or "")
    draft.language = parse_language_tag(_text(feed, "language") or "")
    kept = [(kind, text) for kind, text, _ in _kept(feed, raw)]
    for kind, text in kept:
        if kind in feedparser_input.SUMMARIES:
            draft.offer_description(5, text)
    is_atom = _is_atom(draft)
    names = _people(feed, is_atom) + [text for kind, text in kept if kind in feedparser_input.AUTHORS]
    for name in names if is_atom else names[:1]:
        draft.author = draft.ctx.append_name(draft.author, draft.ctx.clean_person(name))
    for link in _parts(feed, "links"):
        if link.get("rel") == "self":
            draft.self_url = draft.self_url or draft.ctx.resolve_url(draft.base, link.get("href"))
        elif link.get("rel") == "hub":
            draft.hub = draft.hub or draft.ctx.resolve_url(draft.base, link.get("href"))
        elif link.get("rel") == "alternate":
            draft.offer_link(6, link.get("href"))
    draft.offer_icon(9, _text(feed, "icon"))
    for image in _parts(feed, "image"):
        draft.offer_icon(6, image.get("href") or image.get("url"))
    draft.offer_icon(5, _text(feed, "logo"))
    draft.offer_new_url(_text(feed, "itunes_new-feed-url"))
    ttl = _text(feed, "ttl") or ""
    draft.ttl = int(ttl) if ttl.isascii() and ttl.isdecimal() and len(ttl) < 7 else None


def _text(holder: Any, name: str) -> str | None:
    """Return a text; elements that feedparser doesn't know are dicts if they have attributes."""
    # its own get() returns "published" for "updated", with a warning
    value = dict.get(holder, name) if name == "updated" else holder.get(name)
    return value if isinstance(value, str) else None


def _parts(holder: Any, name: str) -> list[Any]:
    """Return the dicts under a name, whether the value is one dict, a list, or something else."""
    value = holder.get(name)
    return [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, dict)]


def _as_it_is(text: str) -> str:
    return text


def _unescaped(text: str) -> str:
    """Undo the escapes that the loose parser leaves in plain elements (the strict one doesn't)."""
    return unescape(text, {"&quot;": '"', "&apos;": "'"})


def _kept(holder: Any, raw: Raw) -> Iterator[tuple[str, str, Any]]:
    """Yield the elements kept apart: kind, text and attributes."""
    for part in _parts(holder, feedparser_input.KEPT):
        text = part.get("content")
        if isinstance(text, str):
            yield part.get(feedparser_input.KIND) or "", raw(text), part


def _people(holder: Any, is_atom: bool) -> list[str]:
    """Return the names of authors; a single one in RSS as written."""
    authors = _parts(holder, "authors")
    if len(authors) < (1 if is_atom else 2):
        return list(filter(None, [_text(holder, "author")]))
    names = [str(author.get("name") or author.get("email") or "") for author in authors]
    # feedparser removes the last bracket of "Foo (Bar)", as if an e-mail address came before it
    return [f"{name})" if name.count("(") > name.count(")") else name for name in names]


def _is_atom(draft: FeedDraft) -> bool:
    return draft.format in (Format.ATOM03, Format.ATOM10)


def _entry(feed: FeedDraft, item: Any, raw: Raw) -> EntryDraft:
    entry = EntryDraft(feed.ctx, feed.base)
    captions: dict[str, str] = {}
    for kind, text, told in _kept(item, raw):
        _set_apart(entry, kind, text, told)
        if kind == feedparser_input.CAPTION and (url := told.get(feedparser_input.PICTURE)):
            captions.setdefault(url, text)
    entry.offer_guid(3, raw(_text(item, "id") or ""))
    entry.offer_link(9, _text(item, "link"))
    entry.original_link = raw(_text(item, "feedburner_origlink") or "")
    detail: dict[str, Any] = next(iter(_parts(item, "title_detail")), {})
    entry.offer_title(9, _text(item, "title") or "", detail.get("type") == "text/plain")
    is_atom = _is_atom(feed)
    for name in _people(item, is_atom):
        entry.offer_author(7 if is_atom else 5, name)
    if not entry.author_rank:
        entry.author = feed.author
    entry.offer_published(9, _text(item, "published"))
    entry.offer_published(5, _text(item, "created"))
    entry.offer_updated(9, _text(item, "updated"))
    for content in _parts(item, "content"):
        _content(entry, content)
    # without a detail, the summary is a copy of the content
    for summary in _parts(item, "summary_detail"):
        value, is_html = _construct(summary)
        entry.offer_summary(9, keep_line_breaks(value) if is_html else escape_text(value))
    for tag in _parts(item, "tags"):
        entry.add_category(tag.get("label") or tag.get("term"))
    _links(entry, item)
    entry.duration = _text(item, "itunes_duration")
    _files(entry, item, captions)
    entry.reply_page = raw(_text(item, "comments") or "")
    entry.reply_feed = raw(_text(item, "wfw_commentrss") or "")
    entry.reply_count = _text(item, "slash_comments") or _text(item, "thr_total")
    return entry


def _set_apart(entry: EntryDraft, kind: str, text: str, told: Any) -> None:
    less = 3 if feedparser_input.INSIDE in told else 0
    if kind in feedparser_input.GUIDS:
        entry.offer_guid(feedparser_input.GUIDS[kind] - less, text)
        if "ispermalink" in told:
            entry.permalink = told["ispermalink"].strip().lower() == "true"
    elif kind in feedparser_input.AUTHORS:
        entry.offer_author(feedparser_input.AUTHORS[kind] - less, text)
    elif kind in feedparser_input.SUMMARIES:
        text = keep_line_breaks(text) if kind == "itunes:summary" else text
        entry.offer_summary(feedparser_input.SUMMARIES[kind] - less, text)
    elif kind == feedparser_input.DATE:
        entry.offer_published(7 - less, text)
    elif kind == feedparser_input.CAPTION:
        offer_description(entry, text, told.get("type"))


def _links(entry: EntryDraft, item: Any) -> None:
    # its "enclosures" requires links in its own form, and an element may have that name
    for link in _parts(item, "links"):
        if link.get("rel") == "enclosure":
            entry.add_enclosure(link.get("href") or link.get("url"), link.get("type"), link.get("length"))
        elif link.get("rel") == "alternate":  # its own "link" points to HTML
            entry.offer_link(6, link.get("href"))


def _content(entry: EntryDraft, content: Any) -> None:
    value, is_html = _construct(content)
    base = entry.ctx.resolve_url(entry.base, content.get("base")) or entry.base
    entry.offer_content(8 if is_html else 6, value if is_html else escape_text(value), base)


def _construct(part: Any) -> tuple[str, bool]:
    """Return a text and whether it is HTML; feedparser leaves out a type that it knows is HTML."""
    return interpret_text(part.get("value") or "", part.get("type") or "text/html")


def _files(entry: EntryDraft, item: Any, captions: dict[str, str]) -> None:
    """Read the files and pictures of Media RSS; ``captions`` maps picture addresses to captions."""
    for told in _parts(item, "media_content"):
        caption = captions.get(told.get("url") or "", "")
        add_content(
            entry,
            told,
            told.get("filesize"),
            feedparser_input.GROUPED in told,
            functools.partial(str, caption),
        )
    for told in _parts(item, "media_thumbnail"):
        url, width = told.get("url") or "", told.get("width")
        if not is_avatar(url, width, told.get("height")):
            entry.offer_image(45 + rank_width(width), url)
    for image in _parts(item, "image"):
        entry.offer_image(40, image.get("href") or image.get("url"))
