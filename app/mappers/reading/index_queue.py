"""The index queue: what the search index doesn't have yet.

- Fields of the collection ``feeds``: the update that makes new entries visible also sets ``index_at``, the
  time of the latest news.
- ``index_removals``: entries and feeds to remove, written in the transaction that deletes them.
- ``news_at``: the same time, which stays; standby indexes find their news by it.
- ``index_state``: one document with the progress of a rebuild, and the request for one. Each standby index
  has a document of its own, with its place in the news.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pymongo
from bson.int64 import Int64
from pymongo import UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app import clock
from app.mappers.mongo import ids
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.indexes import BUILD_SECONDS
from app.mappers.mongo.store import Doc, Session
from app.models.feeds.feed import FeedKind, IndexRemoval, IndexState, StandbyState, UnindexedFeed

_UNINDEXED = {
    **{"first_seq": 1, "last_seq": 1, "index_at": 1, "indexed_upto": 1, "indexed_at": 1},
    **{"language": 1, "kind": 1, "private_to": 1},
}
_WEB, _SHARED = FeedKind.WEB.value, FeedKind.SHARED.value
_STATE, _STANDBY = "state", "standby:"
#: Time for which removals are kept for a standby index that doesn't run.
STANDBY_FOR = dt.timedelta(days=7)
#: The index of words of earlier versions, which answers until the new index is complete.
OLD_INDEX = "searchables"


class IndexQueueMapper:
    """Fields of a feed ↔ :class:`UnindexedFeed`, and the collections of the index."""

    def __init__(self, database: Database[Doc]) -> None:
        self._database = database
        self._feeds: Collection[Doc] = database["feeds"]
        self._removals: Collection[Doc] = database["index_removals"]
        self._states: Collection[Doc] = database["index_state"]
        self._stored: Collection[Doc] = database["entries"]
        self._state_id = _STATE

    @translate_errors
    def find_unindexed(self, now: dt.datetime, limit: int) -> list[UnindexedFeed]:
        """Return feeds with entries that are not indexed yet, longest waiting first."""
        found = self._feeds.find({"index_at": {"$lte": now}}, _UNINDEXED).sort("index_at").limit(limit)
        return [_unindexed(d) for d in found]

    @translate_errors
    def find_feeds(self, after: int, limit: int) -> list[UnindexedFeed]:
        """Return feeds with entries by id, as if nothing of them were indexed."""
        query = {"_id": {"$gt": after}, "last_seq": {"$gt": 0}}
        found = self._feeds.find(query, _UNINDEXED).sort("_id").limit(limit)
        return [_unindexed(d)._replace(upto=0, since=None) for d in found]

    @translate_errors
    def find_indexed(self, after: int, limit: int) -> list[UnindexedFeed]:
        """Return feeds by id that claim to be indexed completely; those whose numbers have gaps aren't."""
        query = {"_id": {"$gt": after}, "indexed_upto": {"$gt": 0}, "index_at": None, "kind": _WEB}
        found = self._feeds.find(query, _UNINDEXED).sort("_id").limit(limit)
        return [_unindexed(d) for d in found]

    @translate_errors
    def find_indexed_numbers(self, feed_ids: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return the first and last number that the index has, of those of these feeds without news."""
        query = {"_id": {"$in": list(feed_ids)}, "indexed_upto": {"$gt": 0}, "index_at": None}
        found = self._feeds.find(query, {"first_seq": 1, "indexed_upto": 1})
        return {d["_id"]: (d["first_seq"], d["indexed_upto"]) for d in found}

    @translate_errors
    def count_feeds(self, upto: int | None = None) -> int:
        """Return the number of feeds with entries, of all or of those with ids up to ``upto``."""
        ids_ = {"$gt": 0} if upto is None else {"$gt": 0, "$lte": upto}
        with pymongo.timeout(BUILD_SECONDS):
            return self._feeds.count_documents({"_id": ids_, "last_seq": {"$gt": 0}})

    @translate_errors
    def mark_indexed(self, *feeds: UnindexedFeed) -> None:
        """Record that these feeds' entries are indexed, unless there is more news."""
        writes = [
            UpdateOne(
                {"_id": feed.id, "index_at": feed.index_at},
                {
                    "$set": {"indexed_upto": Int64(feed.last_seq), "indexed_at": feed.index_at},
                    "$unset": {"index_at": ""},
                },
            )
            for feed in feeds
        ]
        if writes:
            self._feeds.bulk_write(writes, ordered=False)

    @translate_errors
    def postpone_indexing(self, feed: UnindexedFeed, at: dt.datetime) -> None:
        """Postpone the indexing of a feed, unless there is more news."""
        self._feeds.update_one({"_id": feed.id, "index_at": feed.index_at}, {"$set": {"index_at": at}})

    @translate_errors
    def unindex_feeds(self, feed_ids: Sequence[int], at: dt.datetime) -> None:
        """Schedule a new index of all entries of these feeds."""
        update = {"$set": {"index_at": at}, "$unset": {"indexed_upto": "", "indexed_at": ""}}
        self._feeds.update_many({"_id": {"$in": list(feed_ids)}}, update)

    # -- entries, to compare them with the index
    @translate_errors
    def find_entry_ids(self, after: int, limit: int) -> list[int]:
        """Return the ids above ``after`` of entries of all feeds, ascending."""
        found = self._stored.find({"_id": {"$gt": after}}, {"_id": 1}).sort("_id").limit(limit)
        return [d["_id"] for d in found]

    @translate_errors
    def find_entry_numbers(self, entry_ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return feed and number of these entries."""
        found = self._stored.find({"_id": {"$in": list(entry_ids)}}, {"_id": 0, "feed_id": 1, "seq": 1})
        return [(d["feed_id"], d["seq"]) for d in found]

    # -- removals
    @translate_errors
    def add_removals(self, rows: Sequence[tuple[int, int | None]], session: Session | None = None) -> None:
        """Record entries to remove: pairs of feed and entry, or None for all entries of a feed."""
        first = ids.reserve_ids(len(rows))
        docs = [
            {
                "_id": Int64(first + n),
                "feed_id": Int64(feed),
                "entry_id": None if entry is None else Int64(entry),
            }
            for n, (feed, entry) in enumerate(rows)
        ]
        if docs:
            self._removals.insert_many(docs, session=session)

    @translate_errors
    def cancel_removal(self, feed_id: int, entry_id: int, session: Session) -> None:
        """Delete the record of an entry that is back."""
        self._removals.delete_many({"feed_id": feed_id, "entry_id": entry_id}, session=session)

    @translate_errors
    def find_removals(self, limit: int) -> list[IndexRemoval]:
        """Return entries to remove, oldest first."""
        found = self._removals.find({"done_at": None}).sort("_id").limit(limit)
        return [IndexRemoval(d["_id"], d["feed_id"], d["entry_id"]) for d in found]

    @translate_errors
    def forget_removals(self, removals: Sequence[IndexRemoval]) -> None:
        """Delete the records of entries that the index doesn't have anymore, unless a standby needs them."""
        if not removals:
            return
        now, these = clock.now(), {"_id": {"$in": [removal.id for removal in removals]}}
        if self._states.find_one({"_id": {"$regex": f"^{_STANDBY}"}, "held_at": {"$gt": now - STANDBY_FOR}}):
            self._removals.update_many(these, {"$set": {"done_at": now}})
            self._removals.delete_many({"done_at": {"$lt": now - STANDBY_FOR}})
        else:
            self._removals.delete_many(these)

    # -- standby indexes
    def use_standby_state(self, identity: str) -> None:
        """Keep the state of the standby index of this server from now on."""
        self._state_id = f"{_STANDBY}{identity}"

    @translate_errors
    def find_news(self, since: dt.datetime, limit: int) -> list[tuple[UnindexedFeed, dt.datetime]]:
        """Return feeds with news at or after a time, as if nothing of them were indexed, and that time."""
        query = {"news_at": {"$gte": since}, "last_seq": {"$gt": 0}}
        found = (
            self._feeds.find(query, {**_UNINDEXED, "news_at": 1})
            .sort([("news_at", 1), ("_id", 1)])
            .limit(limit)
        )
        return [(_unindexed(d)._replace(upto=0, since=None), d["news_at"]) for d in found]

    @translate_errors
    def find_all_removals(self, after: int, limit: int) -> list[IndexRemoval]:
        """Return entries to remove, also those that the index itself has removed, by id."""
        found = self._removals.find({"_id": {"$gt": after}}).sort("_id").limit(limit)
        return [IndexRemoval(d["_id"], d["feed_id"], d["entry_id"]) for d in found]

    @translate_errors
    def record_place(
        self,
        *,
        news_at: dt.datetime | None = None,
        complete_at: dt.datetime | None = None,
        removed: int | None = None,
    ) -> None:
        """Record a standby index's place in the news and removals, and when it last had all of them."""
        number = None if removed is None else Int64(removed)
        fields = {"news_at": news_at, "complete_at": complete_at, "removed": number}
        update = {"$max": {name: value for name, value in fields.items() if value is not None}}
        self._states.update_one({"_id": self._state_id}, update, upsert=True)

    @translate_errors
    def get_place(self) -> tuple[dt.datetime | None, dt.datetime | None, int]:
        """Return what :meth:`record_place` has recorded: news_at, complete_at and removed."""
        doc = self._states.find_one({"_id": self._state_id}) or {}
        return doc.get("news_at"), doc.get("complete_at"), doc.get("removed", 0)

    @translate_errors
    def find_standby_states(self, now: dt.datetime) -> list[StandbyState]:
        """Return the states of standby indexes; one that hasn't run for :data:`STANDBY_FOR` is given up."""
        query = {"_id": {"$regex": f"^{_STANDBY}"}, "held_at": {"$gt": now - STANDBY_FOR}}
        docs = list(self._states.find(query).sort("_id"))
        if not docs:
            return []
        newest = self._feeds.find_one({"news_at": {"$ne": None}}, {"news_at": 1}, sort=[("news_at", -1)])
        return [
            StandbyState(
                holder=doc["holder"],
                held_at=doc["held_at"],
                complete_at=(complete_at := doc.get("complete_at")),
                is_behind=newest is not None and (complete_at is None or complete_at < newest["news_at"]),
                is_building=bool(doc.get("total")) or doc.get("wanted_at") is not None,
            )
            for doc in docs
            if doc.get("holder")
        ]

    # -- state
    @translate_errors
    def get_state(self) -> IndexState:
        """Return the state of the index."""
        doc = self._states.find_one({"_id": self._state_id})
        if doc is None:
            return IndexState(is_new=True)
        return IndexState(
            done=doc.get("done", 0),
            total=doc.get("total", 0),
            wanted_at=doc.get("wanted_at"),
            checked_at=doc.get("checked_at"),
            holder=doc.get("holder", ""),
            held_at=doc.get("held_at"),
            compared=doc.get("compared", 0),
            swept=doc.get("swept", 0),
        )

    @translate_errors
    def claim_index(self, holder: str, now: dt.datetime, before: dt.datetime) -> bool:
        """Let a server have the index, unless another one has said that it has it since ``before``."""
        free = [{"holder": holder}, {"holder": None}, {"held_at": {"$lt": before}}]
        update = {"$set": {"holder": holder, "held_at": now}}
        try:
            self._states.update_one({"_id": self._state_id, "$or": free}, update, upsert=True)
        except DuplicateKeyError:
            return False
        return True

    @translate_errors
    def request_rebuild(self, now: dt.datetime) -> None:
        """Request a new index, which any server may have."""
        update = {"$set": {"wanted_at": now}, "$unset": {"holder": ""}}
        self._states.update_one({"_id": self._state_id}, update, upsert=True)

    @translate_errors
    def request_standby_rebuilds(self, now: dt.datetime) -> None:
        """Request new indexes on all standby servers."""
        self._states.update_many({"_id": {"$regex": f"^{_STANDBY}"}}, {"$set": {"wanted_at": now}})

    @translate_errors
    def request_check(self) -> None:
        """Request that the writer checks the index now."""
        self._states.update_one({"_id": _STATE}, {"$unset": {"checked_at": ""}})

    @translate_errors
    def record_progress(self, done: int, total: int) -> None:
        """Record how much of a new index is built; the request for it is fulfilled."""
        fields = {"done": done, "total": total}
        unset = {"checked_at": "", "wanted_at": ""}
        self._states.update_one({"_id": self._state_id}, {"$set": fields, "$unset": unset}, upsert=True)

    @translate_errors
    def record_check(self, now: dt.datetime, compared: int, swept: int) -> None:
        """Record that the index is open and complete, and the last feed and entry that were compared."""
        fields = {"checked_at": now, "compared": Int64(compared), "swept": Int64(swept)}
        done = {"$set": fields, "$unset": {"done": "", "total": ""}}
        self._states.update_one({"_id": self._state_id}, done, upsert=True)

    # -- the old index
    @translate_errors
    def has_old_index(self) -> bool:
        """Return whether the index of words of an earlier version is still there."""
        return OLD_INDEX in self._database.list_collection_names(filter={"name": OLD_INDEX})

    @translate_errors
    def drop_old_index(self) -> None:
        """Drop the index of words of an earlier version."""
        with pymongo.timeout(BUILD_SECONDS):
            self._database.drop_collection(OLD_INDEX)


def _unindexed(doc: Doc) -> UnindexedFeed:
    upto, since, language = doc.get("indexed_upto", 0), doc.get("indexed_at"), doc.get("language") or ""
    return UnindexedFeed(
        doc["_id"],
        doc["first_seq"],
        doc["last_seq"],
        upto,
        since,
        doc.get("index_at"),
        language,
        is_owned=doc.get("kind") == _SHARED or doc.get("private_to") is not None,
    )
