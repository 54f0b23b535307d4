"""Parse one feed document into one :class:`ParsedFeed`, by the cheapest parser that reads it correctly."""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Callable

from app.errors import ParseError
from app.feeds.parse import charset
from app.feeds.parse.channel import read_root
from app.feeds.parse.draft import Context, FeedDraft
from app.feeds.parse.entities import expand_entities
from app.feeds.parse.fallback import read_fallback
from app.feeds.parse.jsonfeed import read_json
from app.feeds.parse.limits import Limits
from app.feeds.parse.mojibake import choose_repair, has_odd_references, join_surrogates
from app.feeds.parse.repair import strip_prolog
from app.feeds.parse.tree import parse_tree
from app.models.feeds.parsed import ParsedFeed, ParserPath

_HEAD = 8192
_HTML = re.compile(rb"<!doctype\s{1,9}html|<html[\s>]|<head[\s>]|<body[\s>]", re.IGNORECASE)
_FEED = re.compile(rb"<(?:[a-z0-9]{1,20}:)?(?:rss|feed|rdf|channel|item|entry)[\s>]", re.IGNORECASE)
_ROOT = re.compile(rb"<(?:[a-z0-9]{1,20}:)?(?:rss|feed|rdf|channel|entry)[\s>/]", re.IGNORECASE)
_START = re.compile(
    rb"<\?xml\s|<(?:[a-z0-9]{1,20}:)?(?:rss|feed|rdf)\s[^<>]{0,2000}?(?:version|xmlns)", re.IGNORECASE
)
_DEFAULT = Limits()


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """A document that is ready to be parsed.

    Attributes:
        text: UTF-8; in XML, everything before the root element is removed.
        is_json: whether the text is JSON, not XML.
        repair_text: repairs each text of the XML; None for a clean document (:mod:`.mojibake`).
    """

    text: bytes
    is_json: bool
    repair_text: Callable[[str], str] | None = None


def parse(body: bytes, *, url: str, content_type: str | None = None, limits: Limits = _DEFAULT) -> ParsedFeed:
    """Parse a feed of any known format.

    Args:
        body: the document, without transfer encoding; a gzip file is decompressed.
        url: the address it came from; relative addresses are resolved against it.
        content_type: the HTTP header; only its charset counts.
        limits: how much is read.

    Raises:
        ParseError: ``empty``, ``html_page``, ``not_a_feed``, ``broken_feed`` or ``too_large``.
    """
    return parse_source(prepare_source(body, content_type, limits), url, limits)


def prepare_source(body: bytes, content_type: str | None, limits: Limits) -> Source:
    """Convert a body to UTF-8 text and detect its type; the arguments are those of :func:`parse`.

    Raises:
        ParseError: ``empty``, ``html_page``, ``not_a_feed`` or ``too_large``.
    """
    if body[:2] == b"\x1f\x8b":
        body = _unpack(body, limits)
    if len(body) > limits.body:
        raise ParseError("too_large", f"{len(body)} bytes")
    text, _ = charset.to_utf8(body, content_type)
    has_odd = has_odd_references(text)
    if has_odd:
        text = join_surrogates(text)
    if text[:1].isspace():
        text = text.lstrip()
    if not text[:64].strip(b"\0 \t\r\n") and not text.strip(b"\0 \t\r\n"):
        raise ParseError("empty")
    if text[:1] in b"{[":
        return Source(text, is_json=True)
    if b"<" not in text:
        raise ParseError("not_a_feed", "no markup found")
    if _HTML.match(text) and not _FEED.search(text, 0, _HEAD):
        raise ParseError("html_page")
    root = _from_root(strip_prolog(text))
    text = expand_entities(root, text[: len(text) - len(root)])
    return Source(text, is_json=False, repair_text=choose_repair(text, has_odd=has_odd))


def parse_source(source: Source, url: str, limits: Limits) -> ParsedFeed:
    """Parse the result of :func:`prepare_source`.

    Raises:
        ParseError: ``html_page``, ``not_a_feed``, ``broken_feed`` or ``too_large``.
    """
    draft = FeedDraft(Context(url, limits))
    text, ctx = source.text, draft.ctx
    if source.is_json:
        read_json(draft, text.decode("utf-8"))
        return draft.finish(ParserPath.JSON)
    ctx.has_bases = b"xml:base" in text  # no other prefix can stand for that namespace
    ctx.repair_text = source.repair_text
    tree = parse_tree(text, limits)
    if tree is not None:
        read_root(draft, tree.root)
        if tree.is_truncated:
            ctx.truncated = ctx.cut = True
            del draft.entries[len(draft.entries) - tree.ends_in_entry :]
        return draft.finish(tree.path)
    if not _FEED.search(text):
        raise ParseError("html_page" if _HTML.search(text, 0, _HEAD) else "not_a_feed")
    read_fallback(draft, text)
    return draft.finish(ParserPath.FEEDPARSER)


def _from_root(text: bytes) -> bytes:
    """Return the document without warnings that a server wrote, as markup, before it."""
    if _ROOT.match(text):
        return text
    start = _START.search(text, 0, _HEAD)
    inner = strip_prolog(text[start.start() :]) if start else b""
    return inner if _ROOT.match(inner) else text


def _unpack(body: bytes, limits: Limits) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(body, limits.body + 1)
    except zlib.error as e:
        raise ParseError("broken_feed", f"gzip: {e}") from e
    if len(text) > limits.body:
        raise ParseError("too_large", "larger than the limit after decompression")
    return text
