"""Feeds of what people share: documents of ``feeds`` that nobody polls.

Their numbers rise without gaps like those of all feeds. What is taken back leaves its number behind:
``gone`` is a bitmap of such numbers, laid out as that of a subscription, and counts as read for everybody.
So taking a share back is one write, however many people follow; and so is bringing it back, under its number,
by which those who have read it have.

Whatever changes what such a feed says sets ``hub_at`` with it, so that no crash can lose that our hub owes
its subscribers a push (:mod:`app.mappers.sharing.hubs` takes it away).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from bson.int64 import Int64
from pymongo import ReturnDocument
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.mappers.mongo import ids
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session, is_duplicate
from app.models.feeds.feed import FeedKind
from app.models.subscriptions.read_state import build_word_masks


class SharedFeedMapper:
    """Makes, numbers and hides feeds of kind ``shared``."""

    def __init__(self, database: Database[Doc]) -> None:
        self._feeds: Collection[Doc] = database["feeds"]

    @translate_errors
    def get_or_create(self, owner: int, key: str, url: str, title: str, now: dt.datetime) -> int:
        """Return the feed of this owner with this key, which is made where there is none yet."""
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
            try:
                self._feeds.insert_one(doc)
                return int(doc["_id"])
            except DuplicateKeyError as e:
                if not is_duplicate(e, "_id"):
                    found = self._feeds.find_one({"url_key": doc["url_key"]}, {"_id": 1}) or doc
                    return int(found["_id"])

    @translate_errors
    def take_number(self, feed_id: int, at: dt.datetime, now: dt.datetime, session: Session) -> int | None:
        """Take the next number of a feed for an entry of this sort time; None: there is no such feed."""
        update = {
            "$inc": {"last_seq": Int64(1)},
            "$max": {"last_entry_at": at},
            "$set": {"index_at": now, "changed_at": now, "hub_at": now},
        }
        doc = self._feeds.find_one_and_update(
            {"_id": feed_id, "kind": FeedKind.SHARED.value},
            update,
            projection={"last_seq": 1},
            return_document=ReturnDocument.AFTER,
            session=session,
        )
        return int(doc["last_seq"]) if doc else None

    @translate_errors
    def restore_number(
        self, feed_id: int, seq: int, at: dt.datetime, now: dt.datetime, session: Session
    ) -> bool:
        """Let the number that an entry left behind be its again; False: there is no such number any more."""
        ((word, mask),) = build_word_masks([seq]).items()
        query = {
            "_id": feed_id,
            "first_seq": {"$lte": seq},
            # By its place: a mask with the sign's bit would be refused.
            f"gone.{word}": {"$bitsAllSet": [seq & 63]},
        }
        update = {
            "$bit": {f"gone.{word}": {"and": Int64(~mask)}},
            "$max": {"last_entry_at": at},
            "$set": {"index_at": now, "changed_at": now, "hub_at": now},
        }
        return bool(self._feeds.update_one(query, update, session=session).matched_count)

    @translate_errors
    def mark_changed(self, feed_id: int, now: dt.datetime, session: Session) -> None:
        """Note that an entry of this feed says something else now."""
        update = {"$set": {"index_at": now, "changed_at": now, "hub_at": now}}
        self._feeds.update_one({"_id": feed_id}, update, session=session)

    @translate_errors
    def remove_number(self, feed_id: int, seq: int, session: Session) -> None:
        """Note that the entry with this number was taken back."""
        ((word, mask),) = build_word_masks([seq]).items()
        update = {
            "$bit": {f"gone.{word}": {"or": Int64(mask)}},
            "$currentDate": {"changed_at": True, "hub_at": True},
        }
        self._feeds.update_one({"_id": feed_id}, update, session=session)

    @translate_errors
    def rename(self, feed_ids: Sequence[int], url: str, title: str, session: Session | None = None) -> None:
        """Give a person's feeds his new address and name."""
        query = {"_id": {"$in": list(feed_ids)}, "kind": FeedKind.SHARED.value}
        update = {"$set": {"url": url, "title": title}, "$currentDate": {"hub_at": True}}
        self._feeds.update_many(query, update, session=session)

    @translate_errors
    def set_hidden(self, feed_id: int, hidden: bool, now: dt.datetime, session: Session) -> None:
        """Let nobody but the owner see what is in a feed, or everybody again who may."""
        if hidden:
            update: Doc = {"$set": {"hidden": True, "hub_at": now}}
        else:
            shown = {"$set": {"shown_at": now}, "$unset": {"hidden": ""}}
            self._feeds.update_one({"_id": feed_id, "hidden": True}, shown, session=session)
            update = {"$set": {"hub_at": now}}
        self._feeds.update_one({"_id": feed_id}, update, session=session)
