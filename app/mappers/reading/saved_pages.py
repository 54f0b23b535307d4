"""Feeds of kind ``saved`` and their entries: the pages that a person saved.

Their numbers rise without gaps. A removed page leaves its number behind in ``gone``, as in shared feeds
(:mod:`app.mappers.sharing.shared_feeds`). Feeds without ``private_to`` hold the pages behind shares: one
entry per page, however many people saved it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from bson.binary import Binary
from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.mappers.mongo import ids
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import BATCH, Doc, Session, find_and_update, is_duplicate
from app.models.feeds.feed import FeedKind
from app.models.reading.saved import SavedPage
from app.models.subscriptions.read_state import build_word_masks

_SAVED = FeedKind.SAVED.value


class SavedPageMapper:
    """Creates and numbers feeds of kind ``saved``, and finds their pages."""

    def __init__(self, database: Database[Doc]) -> None:
        self._feeds: Collection[Doc] = database["feeds"]
        self._entries: Collection[Doc] = database["entries"]

    @translate_errors
    def find_feed(self, key: str) -> int | None:
        """Return the id of the feed with an address key; None: there is none."""
        doc = self._feeds.find_one({"url_key": key}, {"_id": 1})
        return int(doc["_id"]) if doc else None

    @translate_errors
    def get_or_create_feed(
        self, key: str, url: str, title: str, now: dt.datetime, *, private_to: int | None
    ) -> int:
        """Return the id of the feed with an address key, creating the feed if needed.

        Args:
            private_to: the person whose pages these are; None: the pages behind shares.
        """
        while True:
            doc: Doc = {
                "_id": Int64(ids.reserve_ids()),
                "kind": _SAVED,
                "url": url,
                "url_key": key,
                "site_url": url,
                "title": title,
                "first_seq": Int64(1),
                "last_seq": Int64(0),
                "errors": 0,
                "subscribers": 0,
                "created": now,
            }
            if private_to is not None:
                doc["private_to"] = Int64(private_to)
            try:
                self._feeds.insert_one(doc)
                return int(doc["_id"])
            except DuplicateKeyError as e:
                if not is_duplicate(e, "_id") and (found := self.find_feed(key)) is not None:
                    return found

    @translate_errors
    def take_numbers(
        self, feed_id: int, count: int, newest: dt.datetime, now: dt.datetime, session: Session
    ) -> int | None:
        """Reserve numbers for entries up to the time ``newest``; return the first; None: no such feed."""
        update = {
            "$inc": {"last_seq": Int64(count)},
            "$max": {"last_entry_at": newest},
            "$set": {"index_at": now, "news_at": now, "changed_at": now},
        }
        query = {"_id": feed_id, "kind": _SAVED}
        doc = find_and_update(self._feeds, query, update, session, projection={"last_seq": 1}, after=True)
        return int(doc["last_seq"]) - count + 1 if doc else None

    @translate_errors
    def mark_changed(self, feed_id: int, now: dt.datetime, session: Session) -> None:
        """Record that the content of an entry in this feed has changed."""
        update = {"$set": {"index_at": now, "news_at": now, "changed_at": now}}
        self._feeds.update_one({"_id": feed_id}, update, session=session)

    @translate_errors
    def find_pages(self, feed_id: int, guids: Sequence[bytes]) -> dict[bytes, SavedPage]:
        """Return the saved pages among these, by guid hash."""
        found: dict[bytes, SavedPage] = {}
        for start in range(0, len(guids), BATCH):
            some = [Binary(guid) for guid in guids[start : start + BATCH]]
            query = {"feed_id": feed_id, "guid_hash": {"$in": some}}
            for doc in self._entries.find(query, {"guid_hash": 1, "seq": 1}):
                found[bytes(doc["guid_hash"])] = SavedPage(doc["_id"], feed_id, doc["seq"], existed=True)
        return found

    @translate_errors
    def find(self, feed_id: int, entry_id: int, session: Session | None = None) -> Doc | None:
        """Return a page as stored; None: it is gone."""
        doc = self._entries.find_one({"feed_id": feed_id, "_id": entry_id}, session=session)
        return dict(doc) if doc else None

    @translate_errors
    def remove(self, feed_id: int, entry_id: int, session: Session) -> Doc | None:
        """Delete a page, and leave its number behind; return it as stored; None: it is gone already."""
        doc = self._entries.find_one_and_delete({"feed_id": feed_id, "_id": entry_id}, session=session)
        if doc is None:
            return None
        ((word, mask),) = build_word_masks([doc["seq"]]).items()
        update = {"$bit": {f"gone.{word}": {"or": Int64(mask)}}, "$currentDate": {"changed_at": True}}
        self._feeds.update_one({"_id": feed_id}, update, session=session)
        return dict(doc)

    @translate_errors
    def restore(self, feed_id: int, doc: Doc, now: dt.datetime, session: Session) -> bool:
        """Store a removed page again under its number; return False if it was saved again meanwhile."""
        ((word, mask),) = build_word_masks([doc["seq"]]).items()
        # By bit position: a mask with the sign bit would be refused.
        query = {"_id": feed_id, f"gone.{word}": {"$bitsAllSet": [doc["seq"] & 63]}}
        update = {
            "$bit": {f"gone.{word}": {"and": Int64(~mask)}},
            "$set": {"index_at": now, "news_at": now, "changed_at": now},
        }
        if not self._feeds.update_one(query, update, session=session).matched_count:
            return False
        same = {"feed_id": feed_id, "guid_hash": doc["guid_hash"]}
        if self._entries.find_one(same, {"_id": 1}, session=session):
            return False
        self._entries.insert_one({**doc, "revised": now}, session=session)
        return True
