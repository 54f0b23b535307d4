"""Keys of entries in the order of their arrival, which is the order of their ids.

Sync apps request the entries that arrived since their last request, regardless of the entries' own dates.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo import raw_replies
from app.mappers.mongo.covered_rows import INT32, INT64, CoveredRows
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.mappers.reading.entry_keys import CHUNK, to_millis
from app.models.reading.entry import EntryKey

_KEY = {"_id": 1, "feed_id": 1, "seq": 1, "at": 1}
_ROW = {"_id": 1, "feed_id": 1, "seq": 1}
INDEX, REVISED = "arrival", "revised"
#: Feed id, id, number.
ArrivalRow = tuple[int, int, int]


class ArrivalMapper:
    """Index entry → :class:`EntryKey`. Every query contains ``feed_id``."""

    def __init__(self, database: Database[Doc]) -> None:
        self._entries: Collection[Doc] = database["entries"]

    @translate_errors
    def find_between(
        self, feed_ids: Sequence[int], above: int, below: int, limit: int, *, newest_first: bool = False
    ) -> list[EntryKey]:
        """Return the first keys of these feeds with ids between ``above`` and ``below``, sorted by id."""
        found: list[EntryKey] = []
        step = -1 if newest_first else 1
        for start in range(0, len(feed_ids), CHUNK):
            query = {"feed_id": {"$in": list(feed_ids[start : start + CHUNK])}, "_id": _between(above, below)}
            some = self._entries.find(query, _KEY).sort("_id", step).limit(limit).hint(INDEX)
            found = sorted([*found, *map(_key, some)], key=_id, reverse=newest_first)[:limit]
            if len(found) == limit:  # later keys must precede the last of these
                above, below = (found[-1].id, below) if newest_first else (above, found[-1].id)
        return found

    @translate_errors
    def find_rows(self, feed_ids: Sequence[int], low: int, limit: int = 0) -> Iterable[ArrivalRow]:
        """Return up to ``limit`` rows of entries with ids from ``low`` on, sorted by feed and id; 0: all.

        Without a common order MongoDB needs one pass over the index with one jump per feed.
        """
        query: Doc = {"feed_id": {"$in": sorted(feed_ids)}}
        if low:
            query["_id"] = {"$gte": low}
        return _ROWS.unpack(raw_replies.fetch_reply(self._entries, query, _ROW, hint=INDEX, limit=limit))

    @translate_errors
    def find_since(self, feed_ids: Sequence[int], entry_id: int, limit: int) -> list[EntryKey]:
        """Return up to ``limit`` keys with ids from ``entry_id`` on, in no order."""
        query = {"feed_id": {"$in": list(feed_ids)}, "_id": {"$gte": entry_id}}
        return [_key(doc) for doc in self._entries.find(query, _KEY).hint(INDEX).limit(limit)]

    @translate_errors
    def find_first_seqs(self, feed_ids: Sequence[int], entry_id: int) -> dict[int, int]:
        """Return the first number above an id by feed, for the feeds with entries above it."""
        match = {"$match": {"feed_id": {"$in": list(feed_ids)}, "_id": {"$gt": entry_id}}}
        first = {"$group": {"_id": "$feed_id", "seq": {"$min": "$seq"}}}
        return {d["_id"]: d["seq"] for d in self._entries.aggregate([match, first], hint=INDEX)}

    @translate_errors
    def find_last_ids(self, feed_ids: Sequence[int], below: int) -> dict[int, int]:
        """Return the largest id below another one by feed, for the feeds with such entries.

        The sort lets MongoDB jump from feed to feed in the index, and read one key of each.
        """
        match = {"$match": {"feed_id": {"$in": list(feed_ids)}, "_id": {"$lt": below}}}
        sort = {"$sort": {"feed_id": -1, "_id": -1}}
        last = {"$group": {"_id": "$feed_id", "last": {"$first": "$_id"}}}
        return {d["_id"]: d["last"] for d in self._entries.aggregate([match, sort, last], hint=INDEX)}

    @translate_errors
    def find_revised(self, feed_ids: Sequence[int], since: dt.datetime, limit: int) -> list[EntryKey]:
        """Return up to ``limit`` keys of entries that changed since a time, in no order."""
        query = {"feed_id": {"$in": list(feed_ids)}, "revised": {"$gte": since}}
        return [_key(doc) for doc in self._entries.find(query, _KEY).hint(REVISED).limit(limit)]

    @translate_errors
    def find_last_revised(self, feed_id: int) -> dt.datetime | None:
        """Return the time of the last change to a feed's entries, or None."""
        query = {"feed_id": feed_id, "revised": {"$type": "date"}}
        doc = self._entries.find_one(query, {"_id": 0, "revised": 1}, sort=[("revised", -1)], hint=REVISED)
        return doc["revised"] if doc else None


def _between(above: int, below: int) -> Doc:
    return {"$gt": above, "$lt": below}


def _id(key: EntryKey) -> int:
    return key.id


def _key(doc: Doc) -> EntryKey:
    return EntryKey(doc["_id"], doc["feed_id"], doc["seq"], to_millis(doc["at"]))


def _row(doc: Doc) -> ArrivalRow:
    return doc["feed_id"], doc["_id"], doc["seq"]


_ROWS = CoveredRows((("feed_id", INT64), ("_id", INT64), ("seq", INT32)), _row)
