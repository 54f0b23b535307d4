"""How far the cleaner has come: the collection ``media_cleaning``, one document per kind of walk.

{_id, at, next?, counts?, last?, ended?}
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc

#: The walk over all stores, the measurement of the cache, and the recount of users' storage.
DISK_WALK, CACHE_WALK, USAGE_WALK = "disk", "cache", "usage"
#: The walks over blobs that are being deleted, and over those with old generations.
SWEEP_WALK, OLD_WALK = "sweep", "old"


class CleaningMapper:
    """Positions of walks that take several runs, and the counts of the last finished one."""

    def __init__(self, database: Database[Doc]) -> None:
        self._walks: Collection[Doc] = database["media_cleaning"]

    @translate_errors
    def find_position(self, walk: str) -> tuple[int, tuple[int, ...], dt.datetime | None]:
        """Return where a walk continues, its counts so far, and when the last one ended."""
        doc = self._walks.find_one({"_id": walk}) or {}
        return doc.get("next", 0), tuple(doc.get("counts", ())), doc.get("ended")

    @translate_errors
    def set_position(self, walk: str, position: int, counts: Sequence[int]) -> None:
        """Record where a walk continues, and its counts so far."""
        change = {"next": position, "counts": [int(n) for n in counts]}
        self._walks.update_one({"_id": walk}, {"$set": change}, upsert=True)

    @translate_errors
    def finish(self, walk: str, counts: Sequence[int], now: dt.datetime) -> None:
        """Record that a walk has ended; the next one begins anew."""
        change = {"next": 0, "counts": [], "last": [int(n) for n in counts], "ended": now}
        self._walks.update_one({"_id": walk}, {"$set": change}, upsert=True)

    @translate_errors
    def find_last(self, walk: str) -> tuple[tuple[int, ...], dt.datetime] | None:
        """Return the counts of the last finished walk and its end; None: there was none."""
        doc = self._walks.find_one({"_id": walk, "ended": {"$exists": True}})
        return (tuple(doc["last"]), doc["ended"]) if doc else None
