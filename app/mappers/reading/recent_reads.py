"""Entries that users read recently: the collection ``recentreads``, one document per user.

    {user_id, reads: [{entry_id, at}, …]}, the latest first

One document, because its list has a limit: each write adds entries at its front and cuts its end, so nothing
has to be counted or cleaned up.
"""

from __future__ import annotations

from collections.abc import Sequence

from bson.int64 import Int64
from pymongo import WriteConcern

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.models.reading.recent import RecentRead


class RecentReadMapper:
    """Document ↔ :class:`RecentRead`. Every query contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._reads = cells.get_table("recentreads")
        # Reading must not become slower, and losing one of these costs little: nobody waits for the server.
        self._unawaited = self._reads.with_options(write_concern=WriteConcern(w=0))

    @translate_errors
    def add(self, user_id: int, reads: Sequence[RecentRead], limit: int) -> None:
        """Put entries at the front of a user's list, the latest first, without waiting; keep ``limit``."""
        new = [{"entry_id": Int64(read.entry_id), "at": read.at} for read in reads]
        known = {"$ifNull": ["$reads", []]}
        again = {"$in": ["$$this.entry_id", [row["entry_id"] for row in new]]}
        others = {"$filter": {"input": known, "cond": {"$not": [again]}}}
        joined = {"$concatArrays": [{"$literal": new}, others]}
        self._unawaited.get(user_id).update_one(
            {"user_id": user_id}, [{"$set": {"reads": {"$slice": [joined, limit]}}}], upsert=True
        )

    @translate_errors
    def list_latest(self, user_id: int) -> list[RecentRead]:
        """Return a user's list, the latest first."""
        doc = self._reads.get(user_id).find_one({"user_id": user_id}, {"_id": 0, "reads": 1}) or {}
        return [RecentRead(row["entry_id"], row["at"]) for row in doc.get("reads", ())]
