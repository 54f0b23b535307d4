"""The index queue: fields of the collection ``feeds`` that record what the search has indexed.

The update that makes new entries visible also sets ``index_at``, the time of the latest news.
"""

from __future__ import annotations

import datetime as dt

import pymongo
from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.indexes import BUILD_SECONDS
from app.mappers.mongo.store import Doc
from app.models.feeds.feed import UnindexedFeed

_UNINDEXED = {"first_seq": 1, "last_seq": 1, "index_at": 1, "indexed_upto": 1, "indexed_at": 1}


class IndexQueueMapper:
    """Fields of a feed ↔ :class:`UnindexedFeed`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._feeds: Collection[Doc] = database["feeds"]

    @translate_errors
    def find_unindexed(self, now: dt.datetime, limit: int) -> list[UnindexedFeed]:
        """Return feeds with entries that are not indexed yet, longest waiting first."""
        found = self._feeds.find({"index_at": {"$lte": now}}, _UNINDEXED).sort("index_at").limit(limit)
        return [_unindexed(d) for d in found]

    @translate_errors
    def mark_indexed(self, feed: UnindexedFeed) -> None:
        """Record that a feed's entries are indexed, unless there is more news."""
        done = {"$set": {"indexed_upto": Int64(feed.last_seq), "indexed_at": feed.index_at}}
        query = {"_id": feed.id, "index_at": feed.index_at}
        self._feeds.update_one(query, {**done, "$unset": {"index_at": ""}})

    @translate_errors
    def postpone_indexing(self, feed: UnindexedFeed, at: dt.datetime) -> None:
        """Postpone the indexing of a feed, unless there is more news."""
        self._feeds.update_one({"_id": feed.id, "index_at": feed.index_at}, {"$set": {"index_at": at}})

    @translate_errors
    def unindex_all(self, now: dt.datetime) -> int:
        """Schedule a new index of all feeds; return their number."""
        update = {"$set": {"index_at": now}, "$unset": {"indexed_upto": "", "indexed_at": ""}}
        with pymongo.timeout(BUILD_SECONDS):  # all feeds of the server, in one statement
            done = self._feeds.update_many({"_id": {"$gt": 0}, "last_seq": {"$gt": 0}}, update)
        return done.modified_count


def _unindexed(doc: Doc) -> UnindexedFeed:
    upto, since = doc.get("indexed_upto", 0), doc.get("indexed_at")
    return UnindexedFeed(doc["_id"], doc["first_seq"], doc["last_seq"], upto, since, doc["index_at"])
