"""Shared feeds: documents of ``feeds`` that are not polled.

Their numbers rise without gaps, as in all feeds. A removed entry leaves its number behind. ``gone`` is a
bitmap of such numbers, with the layout of subscriptions' bitmaps. They count as read for everyone. So
removing a share is one write, however many people follow. So is restoring it under its old number, by which
its readers have read it.

Every change of a shared feed's content also sets ``hub_at``, which :mod:`app.mappers.sharing.hubs` removes.
So no crash can lose a push that our hub owes its subscribers.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.mappers.mongo import ids
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session, find_and_update, is_duplicate
from app.models.feeds.feed import FeedKind
from app.models.subscriptions.read_state import build_word_masks


class SharedFeedMapper:
    """Creates, numbers and hides feeds of kind ``shared``."""

    def __init__(self, database: Database[Doc]) -> None:
        self._feeds: Collection[Doc] = database["feeds"]

    @translate_errors
    def get_or_create(
        self, owner: int, key: str, url: str, title: str, now: dt.datetime, *, avatar: str
    ) -> int:
        """Return the id of the owner's feed with this key, creating the feed if needed.

        Args:
            avatar: the version of the owner's picture, empty without one.
        """
        while True:
            doc: Doc = {
                "_id": Int64(ids.reserve_ids()),
                "kind": FeedKind.SHARED.value,
                "url": url,
                "url_key": f"{key}/{owner}",
                "title": title,
                "owner": Int64(owner),
                "first_seq": Int64(1),
                "last_seq": Int64(0),
                "errors": 0,
                "subscribers": 0,
                "created": now,
            }
            if avatar:
                doc["avatar"] = avatar
            try:
                self._feeds.insert_one(doc)
                return int(doc["_id"])
            except DuplicateKeyError as e:
                if not is_duplicate(e, "_id"):
                    found = self._feeds.find_one({"url_key": doc["url_key"]}, {"_id": 1}) or doc
                    return int(found["_id"])

    @translate_errors
    def take_number(self, feed_id: int, at: dt.datetime, now: dt.datetime, session: Session) -> int | None:
        """Reserve the next number of a feed for an entry with this sort time; None: no such feed."""
        update = {
            "$inc": {"last_seq": Int64(1)},
            "$max": {"last_entry_at": at},
            "$set": {"index_at": now, "news_at": now, "changed_at": now, "hub_at": now},
        }
        query = {"_id": feed_id, "kind": FeedKind.SHARED.value}
        doc = find_and_update(self._feeds, query, update, session, projection={"last_seq": 1}, after=True)
        return int(doc["last_seq"]) if doc else None

    @translate_errors
    def restore_number(
        self, feed_id: int, seq: int, at: dt.datetime, now: dt.datetime, session: Session
    ) -> bool:
        """Restore the number of a removed entry; return False if the number doesn't exist anymore."""
        ((word, mask),) = build_word_masks([seq]).items()
        query = {
            "_id": feed_id,
            "first_seq": {"$lte": seq},
            # By bit position: a mask with the sign bit would be refused.
            f"gone.{word}": {"$bitsAllSet": [seq & 63]},
        }
        update = {
            "$bit": {f"gone.{word}": {"and": Int64(~mask)}},
            "$max": {"last_entry_at": at},
            "$set": {"index_at": now, "news_at": now, "changed_at": now, "hub_at": now},
        }
        return bool(self._feeds.update_one(query, update, session=session).matched_count)

    @translate_errors
    def mark_changed(self, feed_id: int, now: dt.datetime, session: Session) -> None:
        """Record that the content of an entry in this feed has changed."""
        update = {"$set": {"index_at": now, "news_at": now, "changed_at": now, "hub_at": now}}
        self._feeds.update_one({"_id": feed_id}, update, session=session)

    @translate_errors
    def restart_orphan_wait(self, feed_id: int, now: dt.datetime, session: Session) -> None:
        """Let a feed without readers wait anew for its deletion: an undo may restore a share of it."""
        query = {"_id": feed_id, "orphan_at": {"$type": "date"}}
        self._feeds.update_one(query, {"$max": {"orphan_at": now}}, session=session)

    @translate_errors
    def remove_number(self, feed_id: int, seq: int, session: Session) -> None:
        """Record that the entry with this number was removed."""
        ((word, mask),) = build_word_masks([seq]).items()
        update = {
            "$bit": {f"gone.{word}": {"or": Int64(mask)}},
            "$currentDate": {"changed_at": True, "hub_at": True},
        }
        self._feeds.update_one({"_id": feed_id}, update, session=session)

    @translate_errors
    def rename(self, feed_ids: Sequence[int], url: str, title: str, session: Session | None = None) -> None:
        """Set the new address and name of a person's feeds."""
        query = {"_id": {"$in": list(feed_ids)}, "kind": FeedKind.SHARED.value}
        update = {"$set": {"url": url, "title": title}, "$currentDate": {"hub_at": True}}
        self._feeds.update_many(query, update, session=session)

    @translate_errors
    def set_avatar(self, owner: int, avatar: str, session: Session) -> None:
        """Set the version of the picture with which lists show a person's feeds; empty: a letter."""
        change = {"$set": {"avatar": avatar}} if avatar else {"$unset": {"avatar": ""}}
        query = {"owner": owner, "kind": FeedKind.SHARED.value}
        self._feeds.update_many(query, change, session=session)

    @translate_errors
    def set_hidden(self, feed_id: int, hidden: bool, now: dt.datetime, session: Session) -> None:
        """Hide a feed's entries from everyone except the owner, or show them again."""
        if hidden:
            update: Doc = {"$set": {"hidden": True, "hub_at": now}}
        else:
            shown = {"$set": {"shown_at": now}, "$unset": {"hidden": ""}}
            self._feeds.update_one({"_id": feed_id, "hidden": True}, shown, session=session)
            update = {"$set": {"hub_at": now}}
        self._feeds.update_one({"_id": feed_id}, update, session=session)
