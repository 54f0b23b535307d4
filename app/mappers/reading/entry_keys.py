"""Keys of entries for streams: three ways to read them, all without bodies.

``walk_keys`` walks the covering index in the stream's order, ``find_window`` reads a short time window in no
order, and ``find_by_seqs`` fetches given numbers. ``walk_keys`` and ``find_by_seqs`` accept at most
:data:`CHUNK` feeds: MongoDB merges at most 200 index scans, and sorts in memory above that.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from pymongo.collection import Collection
from pymongo.database import Database

from app.clock import UTC
from app.mappers.mongo import raw_replies
from app.mappers.mongo.covered_rows import DATE, INT32, INT64, CoveredRows
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import BATCH, Doc
from app.models.reading.entry import EntryKey
from app.runtime import identity_map

CHUNK = 150
#: Feeds per query with numbers per feed: planning more costs more than another query (measured).
BRANCHES = 50
#: Unwanted numbers, per wanted one and in addition, up to which one range is used for all feeds.
IDLE_EACH, IDLE = 2, 500

#: A key in the order of the index: feed id, sort time in milliseconds, id, number.
Row = tuple[int, int, int, int]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
_MS = dt.timedelta(milliseconds=1)
_KEY = {"_id": 1, "feed_id": 1, "seq": 1, "at": 1}
_ROOT = {"_id": 1, "feed_id": 1, "seq": 1, "of": 1}


@dataclasses.dataclass(frozen=True, slots=True)
class TimeRange:
    """A range of sort times in milliseconds, both ends included; None: open-ended."""

    low: int | None = None
    high: int | None = None

    def to_query(self) -> Doc:
        bounds: Doc = {}
        if self.low is not None:
            bounds["$gte"] = from_millis(self.low)
        if self.high is not None:
            bounds["$lte"] = from_millis(self.high)
        return {"at": bounds} if bounds else {}


class EntryKeyMapper:
    """Index entry ↔ :class:`EntryKey`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._entries: Collection[Doc] = database["entries"]

    def walk_keys(
        self, feed_ids: Sequence[int], within: TimeRange, *, newest_first: bool, batch: int
    ) -> Iterator[EntryKey]:
        """Yield the keys of these feeds in the order (at, id), reading ``batch`` keys at a time."""
        step = -1 if newest_first else 1
        pages = self._pages({"feed_id": {"$in": list(feed_ids)}, **within.to_query()}, step, batch)
        for docs in pages:
            for doc in docs:
                yield _key(doc)

    def _pages(self, query: Doc, step: int, batch: int) -> Iterator[list[Doc]]:
        cursor = self._entries.find(query, _KEY, batch_size=batch).sort([("at", step), ("_id", step)])
        with cursor.hint("stream"):
            while docs := self._next(cursor):
                yield docs

    @translate_errors
    def _next(self, cursor: Iterator[Doc]) -> list[Doc]:
        taken: list[Doc] = []
        for doc in cursor:
            taken.append(doc)
            if len(taken) == 64:
                break
        return taken

    @translate_errors
    def find_window(self, feed_ids: Sequence[int], within: TimeRange, limit: int) -> Iterable[Row]:
        """Return up to ``limit`` keys of any number of feeds in no order, as plain tuples.

        Without an order MongoDB needs one pass over the index with one jump per feed. For a short time window
        and many feeds that is several times cheaper than merging scans. Most keys of a long window are
        unwanted, so no objects are created for them.
        """
        query = {"feed_id": {"$in": list(feed_ids)}, **within.to_query()}
        return _ROWS.unpack(raw_replies.fetch_reply(self._entries, query, _KEY, hint="stream", limit=limit))

    @translate_errors
    def find_by_seqs(self, seqs: Mapping[int, Sequence[int]]) -> list[EntryKey]:
        """Return the keys of these numbers (feed → numbers) in no order."""
        branches: list[Doc] = [{"feed_id": f, "seq": {"$in": list(s)}} for f, s in seqs.items() if s]
        if not branches:
            return []
        query = branches[0] if len(branches) == 1 else {"$or": branches}
        return [_key(d) for d in self._entries.find(query, _KEY)]

    def find_roots(self, seqs_by_feed: Mapping[int, Sequence[int]]) -> set[int]:
        """Return the ids of the roots of these entries (feed → ascending numbers): shared or own ids."""
        feeds = {f: seqs for f, seqs in seqs_by_feed.items() if seqs}
        if not feeds:
            return set()
        key = frozenset((f, tuple(seqs)) for f, seqs in feeds.items())
        return set(identity_map.find_once("entries", "roots", key, partial(self._fetch_roots, feeds)))

    def _fetch_roots(self, feeds: Mapping[int, Sequence[int]]) -> set[int]:
        count, low = sum(map(len, feeds.values())), min(seqs[0] for seqs in feeds.values())
        idle = sum(seqs[-1] - low + 1 for seqs in feeds.values()) - count
        if idle <= IDLE_EACH * count + IDLE:
            high = max(seqs[-1] for seqs in feeds.values())
            one = {"feed_id": {"$in": list(feeds)}, "seq": {"$gte": low, "$lte": high}}
            return self._roots(one, {f: set(seqs) for f, seqs in feeds.items()})
        branches = [{"feed_id": f, "seq": {"$in": list(seqs)}} for f, seqs in feeds.items()]
        found: set[int] = set()
        for start in range(0, len(branches), BRANCHES):
            found |= self._roots({"$or": branches[start : start + BRANCHES]}, {})
        return found

    @translate_errors
    def _roots(self, query: Doc, among: Mapping[int, set[int]]) -> set[int]:
        """Return the ids of roots; ``among``: only for these numbers, unless it is empty."""
        found = self._entries.find(query, _ROOT, batch_size=BATCH).hint("seq")
        return {
            d["of"] if "of" in d else d["_id"]
            for d in found
            if not among or d["seq"] in among.get(d["feed_id"], ())
        }

    @translate_errors
    def find_by_ids(self, entry_ids: Sequence[int], feed_ids: Sequence[int]) -> list[EntryKey]:
        """Return the keys of the entries that belong to one of these feeds."""

        def _fetch() -> list[EntryKey]:
            query = {"_id": {"$in": list(entry_ids)}, "feed_id": {"$in": list(feed_ids)}}
            return [_key(d) for d in self._entries.find(query, _KEY)]

        key = frozenset(entry_ids), frozenset(feed_ids)
        return list(identity_map.find_once("entries", "keys", key, _fetch))


def to_millis(at: dt.datetime) -> int:
    """Return milliseconds since the epoch."""
    return (at - _EPOCH) // _MS


def from_millis(ms: int) -> dt.datetime:
    """Return the UTC datetime, with a time zone, of milliseconds since the epoch."""
    return _EPOCH + ms * _MS


def _key(doc: Doc) -> EntryKey:
    return EntryKey(doc["_id"], doc["feed_id"], doc["seq"], to_millis(doc["at"]))


def _row(doc: Doc) -> Row:
    return doc["feed_id"], to_millis(doc["at"]), doc["_id"], doc["seq"]


_ROWS = CoveredRows((("feed_id", INT64), ("at", DATE), ("_id", INT64), ("seq", INT32)), _row)
