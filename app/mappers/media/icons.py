"""Icons of feeds: the fields ``icon_blob``, ``icon_source``, ``icon_next`` and ``icon_uploaded`` of feeds.

Lists read ``icon_blob`` with a feed's card, so that icons cost no query of their own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from bson.binary import Binary
from pymongo import UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session
from app.models.feeds.feed import FeedKind
from app.models.media.icon import SMALL, IconFeed

#: Condition of feeds whose icon may come from their site.
_FREE: Doc = {"kind": FeedKind.WEB.value, "icon_uploaded": {"$ne": True}}
_FIELDS = dict.fromkeys(("url", "site_url", "icon", "icon_next", "icon_source", "icon_blob"), 1)


class IconMapper:
    """Finds feeds whose icon should be looked for, and stores which icon they have."""

    def __init__(self, database: Database[Doc]) -> None:
        self._feeds: Collection[Doc] = database["feeds"]
        self._blobs: Collection[Doc] = database["blobs"]

    @translate_errors
    def find_blobs(self, digits: Sequence[str]) -> dict[str, bytes]:
        """Return the ids of icons by the hexadecimal digits that they begin with; leave out others."""
        if not digits:
            return {}
        begins = [{"_id": _build_range(bytes.fromhex(name))} for name in digits]
        # Another picture may begin with the same digits.
        query = {"$or": begins, f"names.{SMALL}": {"$exists": True}}
        found = [bytes(doc["_id"]) for doc in self._blobs.find(query, {"_id": 1})]
        return {blob_id.hex()[: len(digits[0])]: blob_id for blob_id in found}

    @translate_errors
    def find_due(self, now: dt.datetime, limit: int) -> list[int]:
        """Return feeds with readers whose icon should be looked for, the longest waiting first.

        A feed waits until it has entries, because by then it was read and may state its icon.
        """
        # $not: feeds for which nobody has looked yet have no time.
        query = {
            **_FREE,
            "subscribers": {"$gt": 0},
            "icon_next": {"$not": {"$gt": now}},
            "last_seq": {"$gt": 0},
        }
        found = self._feeds.find(query, {"_id": 1}).hint("icon").sort("icon_next", 1).limit(limit)
        return [doc["_id"] for doc in found]

    @translate_errors
    def claim(self, feed_ids: Sequence[int], now: dt.datetime, until: dt.datetime) -> list[IconFeed]:
        """Return those feeds whose icon should be looked for, and postpone them so that nobody else looks."""
        query: Doc = {"_id": {"$in": list(feed_ids)}, **_FREE}
        query["icon_next"] = {"$not": {"$gt": now}}
        feeds = [_feed(doc) for doc in self._feeds.find(query, _FIELDS)]
        claimed = []
        for feed in feeds:
            mine = {"_id": feed.id, "icon_next": feed.next_at}
            if self._feeds.update_one(mine, {"$set": {"icon_next": until}}).matched_count:
                claimed.append(feed)
        return claimed

    @translate_errors
    def set_icons(self, feeds: Sequence[IconFeed]) -> None:
        """Store the sources, icons and next looks of feeds; what hasn't changed isn't written.

        An icon that someone has uploaded meanwhile stays.
        """
        if feeds:
            changes = [UpdateOne({"_id": f.id, **_FREE}, _build_change(f)) for f in feeds]
            self._feeds.bulk_write(changes, ordered=False)

    @translate_errors
    def look_again(self, source_id: bytes, now: dt.datetime) -> None:
        """Let feeds without an icon that wait for this source look for another one at once."""
        query = {"icon_source": Binary(source_id), "icon_blob": None}
        self._feeds.update_many(query, {"$set": {"icon_next": now}})

    @translate_errors
    def make_due(self, feed_id: int, now: dt.datetime) -> IconFeed | None:
        """Let a feed's icon be looked for at once; return the feed, None if it has no icon of a site."""
        query = {"_id": feed_id, **_FREE}
        doc = self._feeds.find_one_and_update(query, {"$set": {"icon_next": now}}, projection=_FIELDS)
        return _feed(doc) if doc else None

    @translate_errors
    def set_blob(self, session: Session, source_id: bytes, blob_id: bytes) -> None:
        """Let the feeds that wait for this source show its picture."""
        query = self._find_users(source_id, session)
        self._feeds.update_many(query, {"$set": {"icon_blob": Binary(blob_id)}}, session=session)

    @translate_errors
    def set_uploaded(self, feed_id: int, blob_id: bytes, session: Session) -> bool:
        """Let a feed show an uploaded icon; return False if there is no such feed of the web."""
        query = {"_id": feed_id, "kind": FeedKind.WEB.value, "merged_into": None}
        change = {
            "$set": {"icon_blob": Binary(blob_id), "icon_uploaded": True},
            "$unset": {"icon_source": ""},
        }
        return bool(self._feeds.update_one(query, change, session=session).matched_count)

    @translate_errors
    def move_uploaded(self, feed_id: int, into: int, session: Session) -> bool:
        """Let another feed show a feed's uploaded icon, unless it has one too; return whether it does now."""
        doc = self._feeds.find_one({"_id": feed_id, "icon_uploaded": True}, {"icon_blob": 1}, session=session)
        target = self._feeds.find_one({"_id": into, **_FREE}, {"_id": 1}, session=session)
        if doc is None or target is None:
            return False
        gone = {"$unset": {"icon_uploaded": "", "icon_blob": ""}}
        self._feeds.update_one({"_id": feed_id}, gone, session=session)
        return self.set_uploaded(into, bytes(doc["icon_blob"]), session)

    @translate_errors
    def remove_uploaded(self, feed_id: int, now: dt.datetime, session: Session) -> bool:
        """Let the icon of a feed's site be looked for at once; return whether it had an uploaded one."""
        query = {"_id": feed_id, "icon_uploaded": True}
        change = {"$set": {"icon_next": now}, "$unset": {"icon_uploaded": "", "icon_blob": ""}}
        return bool(self._feeds.update_one(query, change, session=session).matched_count)

    @translate_errors
    def forget(self, session: Session, source_id: bytes) -> None:
        """Let the feeds with this source look for an icon again."""
        gone = {"icon_source": "", "icon_blob": "", "icon_next": ""}
        self._feeds.update_many(self._find_users(source_id, session), {"$unset": gone}, session=session)

    def _find_users(self, source_id: bytes, session: Session) -> Doc:
        """Return a query for the feeds with this source, which names them for the change log."""
        query: Doc = {"icon_source": Binary(source_id)}
        ids = [doc["_id"] for doc in self._feeds.find(query, {"_id": 1}, session=session)]
        return {"_id": {"$in": ids}, **query}


def _build_range(start: bytes) -> Doc:
    """Return the condition of ids that begin with these bytes."""
    rest = 32 - len(start)
    return {"$gte": Binary(start + b"\x00" * rest), "$lte": Binary(start + b"\xff" * rest)}


def _build_change(feed: IconFeed) -> Doc:
    change: Doc = {"$set": {"icon_next": feed.next_at}}
    for name, value in (("icon_source", feed.source), ("icon_blob", feed.blob)):
        if value is None:
            change.setdefault("$unset", {})[name] = ""
        else:
            change["$set"][name] = Binary(value)
    return change


def _feed(doc: Doc) -> IconFeed:
    return IconFeed(
        doc["_id"],
        doc["url"],
        doc.get("site_url"),
        doc.get("icon"),
        doc.get("icon_next"),
        doc.get("icon_source"),
        doc.get("icon_blob"),
    )
