"""Feeds whose shares may have to be closed or opened: the field ``secrecy_at`` of feeds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc


class SecrecyMarkMapper:
    """A mark stays until all shares of the feed are as they should be, whatever process dies meanwhile."""

    def __init__(self, database: Database[Doc]) -> None:
        self._feeds: Collection[Doc] = database["feeds"]

    @translate_errors
    def add(self, feed_id: int, now: dt.datetime) -> bool:
        """Mark a feed; return whether it had no mark. An earlier mark is replaced, so its owner leaves it."""
        doc = self._feeds.find_one_and_update(
            {"_id": feed_id}, {"$set": {"secrecy_at": now}}, projection={"secrecy_at": 1}
        )
        return doc is not None and doc.get("secrecy_at") is None

    @translate_errors
    def find_until(self, until: dt.datetime, limit: int) -> list[tuple[int, dt.datetime]]:
        """Return the feeds that were marked until then, with that time, longest waiting first."""
        query = {"secrecy_at": {"$lte": until}}
        found = self._feeds.find(query, {"secrecy_at": 1}).sort("secrecy_at").limit(limit)
        return [(doc["_id"], doc["secrecy_at"]) for doc in found]

    @translate_errors
    def remove(self, feed_ids: Sequence[int], marked_at: dt.datetime) -> None:
        """Remove the marks of feeds that weren't marked again."""
        query = {"_id": {"$in": list(feed_ids)}, "secrecy_at": marked_at}
        self._feeds.update_many(query, {"$unset": {"secrecy_at": ""}})
