"""Orphan feeds, which nobody reads: the field ``orphan_at`` of feeds, and the collection ``orphans``.

A feed without subscribers gets ``orphan_at``, the time since when its deletion waits; a new subscriber
removes it. ``orphans`` holds the ids of deleted feeds whose entries are still being deleted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from bson.int64 import Int64
from pymongo.collection import Collection

from app.mappers.mongo.cells import Cells, get_own_session
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session
from app.mappers.reading.index_queue import OLD_INDEX
from app.models.feeds.feed import FeedKind

#: Feeds of web sites that nobody reads: the condition of the index ``orphan``.
_UNREAD: Doc = {"subscribers": 0, "kind": FeedKind.WEB.value}
_FORGOTTEN: Doc = {**_UNREAD, "private_to": {"$gt": 0}, "sealed": {"$exists": True}}
#: Likes of a feed's entries that are looked at. More of entries that are all gone would be unusual.
_LIKES = 1000


class OrphanMapper:
    """Finds and deletes feeds that nobody reads."""

    def __init__(self, cells: Cells) -> None:
        database = cells.home.database
        self._feeds: Collection[Doc] = database["feeds"]
        self._entries: Collection[Doc] = database["entries"]
        self._subscriptions = cells.get_table("subscriptions")
        self._shares: Collection[Doc] = database["shares"]
        self._marks = cells.get_table("marks")
        self._websubs: Collection[Doc] = database["websubs"]
        self._orphans: Collection[Doc] = database["orphans"]
        self._old_index: Collection[Doc] = database[OLD_INDEX]

    @translate_errors
    def count(self) -> int:
        """Return how many feeds nobody reads."""
        return self._feeds.count_documents(_UNREAD, hint="orphan")

    @translate_errors
    def has_new(self) -> bool:
        """Return whether there is a feed that nobody reads and that doesn't wait yet."""
        found = self._feeds.find({**_UNREAD, "orphan_at": None}, {"_id": 1}).hint("orphan").limit(1)
        return next(iter(found), None) is not None

    @translate_errors
    def mark_new(self, now: dt.datetime, limit: int) -> int:
        """Let feeds that nobody reads anymore wait from ``now`` on; return how many there were."""
        found = self._feeds.find({**_UNREAD, "orphan_at": None}, {"_id": 1}).hint("orphan").limit(limit)
        feed_ids = [doc["_id"] for doc in found]
        if feed_ids:
            self._feeds.update_many({"_id": {"$in": feed_ids}, **_UNREAD}, {"$set": {"orphan_at": now}})
        return len(feed_ids)

    @translate_errors
    def forget_secrets(self, before: dt.datetime) -> None:
        """Delete the logins of own copies that have had no reader since ``before``."""
        gone = {**_FORGOTTEN, "orphan_at": {"$lte": before}}
        unset = {"$unset": {"sealed": "", "min_minutes": "", "max_minutes": ""}}
        self._feeds.update_many(gone, unset, hint="private")

    @translate_errors
    def has_secrets(self, before: dt.datetime) -> bool:
        """Return whether :meth:`forget_secrets` has something to delete."""
        gone = {**_FORGOTTEN, "orphan_at": {"$lte": before}}
        return next(iter(self._feeds.find(gone, {"_id": 1}).hint("private").limit(1)), None) is not None

    @translate_errors
    def find_waiting(self, before: dt.datetime, limit: int) -> list[int]:
        """Return feeds that have waited since ``before`` or longer, the longest first."""
        found = self._feeds.find({**_UNREAD, "orphan_at": {"$lte": before}}, {"_id": 1}).hint("orphan")
        return [doc["_id"] for doc in found.sort("orphan_at").limit(limit)]

    @translate_errors
    def has_references(self, feed_id: int, session: Session | None = None) -> bool:
        """Return whether someone or something still needs a feed or one of its entries.

        That is a subscription, paused ones too; a star, tag or share, which entries count as ``stars``; a
        like; a share in a chain; a subscription at a hub, which ends first; or a feed merged into it.
        """
        needed: tuple[tuple[Collection[Doc], Doc], ...] = (
            (self._shares, {"of_feed": feed_id, "live": True}),
            (self._websubs, {"feed_id": feed_id, "current": True}),
            (self._feeds, {"merged_into": feed_id}),
            (self._entries, {"feed_id": feed_id, "stars": {"$gt": 0}}),
        )
        for subscriptions in self._subscriptions.iterate_tables():
            mine = get_own_session(subscriptions.database, session)
            if subscriptions.find_one({"feed_id": feed_id}, {"_id": 1}, session=mine):
                return True
        if any(table.find_one(query, {"_id": 1}, session=session) for table, query in needed):
            return True
        return self._has_liked_entry(feed_id, session)

    def _has_liked_entry(self, feed_id: int, session: Session | None) -> bool:
        """Return whether someone likes an entry of a feed; likes of entries that are gone don't count."""
        query = {"feed_id": feed_id, "liked_at": {"$type": "date"}}
        liked: set[int] = set()
        for marks in self._marks.iterate_tables():
            mine = get_own_session(marks.database, session)
            found = marks.find(query, {"_id": 0, "entry_id": 1}, session=mine).hint("liked_feed")
            liked |= {doc["entry_id"] for doc in found.limit(_LIKES)}
        entry_ids = list(liked)
        kept = {"feed_id": feed_id, "_id": {"$in": entry_ids}}
        return bool(entry_ids) and self._entries.find_one(kept, {"_id": 1}, session=session) is not None

    @translate_errors
    def postpone_deletion(self, feed_id: int, now: dt.datetime) -> None:
        """Let a feed that is needed wait anew."""
        self._feeds.update_one({"_id": feed_id, **_UNREAD}, {"$set": {"orphan_at": now}})

    @translate_errors
    def remove(
        self, feed_id: int, before: dt.datetime, unclaimed_since: dt.datetime, session: Session
    ) -> bool:
        """Delete a feed inside a transaction, and record that its entries must follow.

        Args:
            before: the feed must have waited since then. A subscriber who comes meanwhile ends its waiting:
                both change the same document, so one of the two transactions sees the other.
            unclaimed_since: no pull may have had a claim since then.

        Returns:
            False if the feed stays.
        """
        query = {
            "_id": feed_id,
            **_UNREAD,
            "orphan_at": {"$lte": before},
            "claimed_until": {"$not": {"$gt": unclaimed_since}},
        }
        if not self._feeds.delete_one(query, session=session).deleted_count:
            return False
        self._orphans.insert_one({"_id": Int64(feed_id)}, session=session)
        return True

    @translate_errors
    def find_removed(self, limit: int) -> list[int]:
        """Return deleted feeds that may still have entries."""
        return [doc["_id"] for doc in self._orphans.find().sort("_id").limit(limit)]

    @translate_errors
    def delete_entries(self, feed_id: int, limit: int) -> int:
        """Delete at most ``limit`` entries of a deleted feed; return how many. Starred ones stay."""
        query: Doc = {"feed_id": feed_id, "stars": {"$not": {"$gt": 0}}}
        found = self._entries.find(query, {"_id": 1}).hint("seq").limit(limit)
        entry_ids = [doc["_id"] for doc in found]
        if not entry_ids:
            return 0
        # Again with the condition: someone may star an entry of which they have the page open.
        return self._entries.delete_many({**query, "_id": {"$in": entry_ids}}).deleted_count

    @translate_errors
    def forget(self, feed_ids: Sequence[int]) -> None:
        """Forget deleted feeds whose entries are deleted too."""
        self._old_index.delete_many({"feed_id": {"$in": list(feed_ids)}})
        self._orphans.delete_many({"_id": {"$in": list(feed_ids)}})
