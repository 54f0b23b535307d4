"""Incremental parsing: find the changes in a fetched document by parsing as little of it as possible.

Besides ``seen`` a feed keeps the hashes of its entries' bytes (``chunks``): 8 bytes of the setting in
which they were parsed (``ParsedFeed.setting``), then 8 for each listed row of ``seen``, in the same order. An
entry with known bytes and setting is the same as its row in ``seen``. So only the head, the tail
and the entries with other bytes are parsed. The result is the same as if everything had been parsed.

``chunks`` is empty, and everything is parsed, where that isn't certain: XML that isn't strictly well-formed,
entries with equal bytes, shared guids. A feed that changes its guids is always parsed as a whole, and
``chunks`` holds those guids (``Diff.guids``).
"""

from __future__ import annotations

import dataclasses
import datetime as dt

from app.errors import ParseError
from app.feeds import identity
from app.feeds.identity import Diff
from app.feeds.known_entries import count_listed, has_enough_known, split_rows
from app.feeds.parse import Limits, Source, parse_source, prepare_source
from app.feeds.parse.chunks import HASH, SplitDocument, split
from app.models.feeds.parsed import ParsedFeed, ParserPath


@dataclasses.dataclass(frozen=True, slots=True)
class LastFetch:
    """The state after the last fetch: see :class:`app.models.feeds.feed.Feed`; ``since`` is its time."""

    seen: bytes = b""
    volatile: bool = False
    chunks: bytes = b""
    since: dt.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class FeedChanges:
    """The changes in a document.

    Attributes:
        parsed: the feed, with at least its new and changed entries.
        diff: the new and changed entries.
        chunks: to be stored with ``diff.seen``.
    """

    parsed: ParsedFeed
    diff: Diff
    chunks: bytes = b""


def find_changes(
    body: bytes, last: LastFetch, *, url: str, content_type: str | None, limits: Limits
) -> FeedChanges:
    """Compare a document with the state after the last fetch.

    Args:
        body, url, content_type, limits: as for :func:`app.feeds.parse.parse`.
        last: the state after the last fetch.

    Raises:
        ParseError: as :func:`app.feeds.parse.parse` does.
    """
    source = prepare_source(body, content_type, limits)
    pieces = None if source.is_json else split(source.text, limits.items)
    if pieces and last.chunks and not last.volatile and _has_all_chunks(last):
        found = _of_unseen(source, pieces, last, url, limits)
        if found:
            return found
    parsed = parse_source(source, url, limits)
    found = compare(parsed, last)
    return found if found.chunks else FeedChanges(parsed, found.diff, _learnt(parsed, found.diff, pieces))


def compare(parsed: ParsedFeed, last: LastFetch) -> FeedChanges:
    """Compare a feed that was parsed as a whole; the result has no hashes of bytes."""
    guids = last.chunks if last.volatile else b""
    diff = identity.diff_feed(parsed, last.seen, volatile=last.volatile, guids=guids, since=last.since)
    return FeedChanges(parsed, diff, diff.guids)


def _of_unseen(
    source: Source, pieces: SplitDocument, known: LastFetch, url: str, limits: Limits
) -> FeedChanges | None:
    """Parse only the entries with other bytes; None when everything must be parsed."""
    hashes = pieces.hash_chunks()
    rows = _rows(known)
    items = [rows.get(chunk) for chunk in hashes]
    unseen = [chunk for chunk, row in zip(pieces.chunks, items, strict=True) if row is None]
    if not has_enough_known(len(items) - len(unseen), len(items)) or not pieces.has_whole_chunks(unseen):
        return None
    try:
        parsed = parse_source(
            Source(pieces.join_chunks(unseen), is_json=False, repair_text=source.repair_text), url, limits
        )
    except ParseError:
        return None
    # The empty entry in front gives the setting even if all entries are known.
    entries = parsed.entries[1:]
    if not _is_sure(parsed) or parsed.setting != known.chunks[:HASH] or len(entries) != len(unseen):
        return None
    diff = identity.diff_partial(items, entries, known.seen, since=known.since)
    if diff is None:
        return None
    return FeedChanges(parsed, diff, parsed.setting + b"".join(hashes) if diff.is_aligned else b"")


def _has_all_chunks(last: LastFetch) -> bool:
    return len(last.chunks) == HASH + count_listed(last.seen) * HASH


def _rows(known: LastFetch) -> dict[bytes, bytes]:
    """Return the hash of each known entry's bytes → its row in ``seen``."""
    chunks = known.chunks
    hashes = (chunks[at : at + HASH] for at in range(HASH, len(chunks), HASH))
    return dict(zip(hashes, split_rows(known.seen), strict=False))  # rows of entries that left may follow


def _learnt(parsed: ParsedFeed, diff: Diff, pieces: SplitDocument | None) -> bytes:
    """Return the chunks for the next fetch; empty if it must parse everything."""
    if pieces is None or not diff.is_aligned or not _is_sure(parsed):
        return b""
    if len(pieces.chunks) != len(parsed.entries) or not pieces.has_whole_chunks(pieces.chunks):
        return b""
    return parsed.setting + b"".join(pieces.hash_chunks())


def _is_sure(parsed: ParsedFeed) -> bool:
    return parsed.parser is ParserPath.STRICT
