"""Changes that users made to their entries: the collection ``changes``.

    {_id, user_id, at, feeds: [feed, …], seqs: [[seq, …], …], ids: [entry, …], expires}

Read states show which entries are read, but not since when, which apps need to sync incrementally. Changes
are stored only for users who read with such apps, and only for some weeks.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping

from bson.int64 import Int64
from pymongo import DESCENDING, WriteConcern
from pymongo.errors import DuplicateKeyError

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc


class ChangeMapper:
    """Document ↔ numbers and ids. Every query contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._changes = cells.get_table("changes")
        self._unawaited = self._changes.with_options(write_concern=WriteConcern(w=1))

    @translate_errors
    def add(
        self,
        user_id: int,
        seqs: Mapping[int, Collection[int]],
        entry_ids: Collection[int],
        now: dt.datetime,
        expires: dt.datetime,
        *,
        awaited: bool = True,
    ) -> None:
        """Record changes at a time, by number (feed → numbers) and by id.

        Args:
            awaited: wait until the record survives a crash.
        """
        collection = self._changes.get(user_id) if awaited else self._unawaited.get(user_id)
        doc: Doc = {
            "_id": Int64(self._changes.reserve_id()),
            "user_id": user_id,
            "at": now,
            "feeds": [Int64(f) for f in seqs],
            "seqs": [list(numbers) for numbers in seqs.values()],
            "ids": [Int64(i) for i in entry_ids],
            "expires": expires,
        }
        while True:
            try:
                collection.insert_one(doc)
                return
            except DuplicateKeyError:
                doc["_id"] = Int64(self._changes.reserve_id())  # only _id is unique here

    @translate_errors
    def find_since(
        self, user_id: int, since: dt.datetime, limit: int
    ) -> tuple[dict[int, set[int]], set[int]]:
        """Return the numbers and ids of entries changed since a time, from at most ``limit`` last changes."""
        query = {"user_id": user_id, "at": {"$gte": since}}
        found = self._changes.get(user_id).find(query).sort("at", DESCENDING).limit(limit)
        numbers: dict[int, set[int]] = {}
        entry_ids: set[int] = set()
        for doc in found:
            entry_ids.update(doc["ids"])
            for feed_id, seqs in zip(doc["feeds"], doc["seqs"], strict=True):
                numbers.setdefault(feed_id, set()).update(seqs)
        return numbers, entry_ids

    @translate_errors
    def find_last_id(self, user_id: int) -> int:
        """Return the id of the user's last change; 0: none is known."""
        query = {"user_id": user_id}
        doc = self._changes.get(user_id).find_one(
            query, {"_id": 1}, sort=[("at", DESCENDING), ("_id", DESCENDING)]
        )
        return int(doc["_id"]) if doc else 0
