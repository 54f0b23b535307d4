"""Subscribers of our own WebSub hub: the collection ``hubsubs``, and the field ``hub_at`` of shared feeds.

    {_id, user_id, feed_id, topic, callback, host, expires, secret?, since?, failures?, ask?, verify_at?,
     owed?, push_at?, heard?}

A share only writes ``hub_at``, and nothing here. The first push job marks the change as owed to all
subscribers of the stream, and then removes ``hub_at``. From then on each row records what its subscriber
lacks. So after a crash at any point a subscriber may get a push twice, but none misses it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence

from bson.int64 import Int64
from pymongo import ASCENDING, DeleteOne, UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.mappers.mongo import ids
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, is_duplicate
from app.models.feeds.websub import Mode
from app.models.sharing.hub import PendingIntent, Subscriber

_NAMES = ("user_id", "feed_id", "topic", "callback", "expires", "secret", "since", "owed")
_ALL = (*_NAMES, "failures", "heard")
#: Rows read per stream with pending deliveries.
_LOOK = 10


class HubMapper:
    """Document ↔ :class:`Subscriber`. Documents omit fields that are None."""

    def __init__(self, database: Database[Doc]) -> None:
        self._rows: Collection[Doc] = database["hubsubs"]
        self._feeds: Collection[Doc] = database["feeds"]

    # -- subscribing

    @translate_errors
    def find_by_callback(self, topic: str, callback: str) -> Subscriber | None:
        """Return the subscription of a callback to a topic, even an unconfirmed one."""
        return _read(self._rows.find_one({"topic": topic, "callback": callback}))

    @translate_errors
    def find(self, sub_id: int) -> Subscriber | None:
        """Return a subscription by id."""
        return _read(self._rows.find_one({"_id": sub_id}))

    @translate_errors
    def count(self, feed_id: int, host: str, limits: tuple[int, int]) -> tuple[int, int]:
        """Return how many subscriptions a stream has, and a host, each counted up to its limit."""
        of_feed = self._rows.count_documents({"feed_id": feed_id}, limit=limits[0], hint="feed_push")
        return of_feed, self._rows.count_documents({"host": host}, limit=limits[1], hint="host")

    @translate_errors
    def set_intent(self, new: Subscriber, host: str, intent: PendingIntent) -> int:
        """Store a request to verify with a callback, replacing an earlier request.

        Args:
            new: the values of a new subscription; an existing one keeps its other values.

        Returns:
            The id of the subscription.
        """
        begun: Doc = {"user_id": Int64(new.user_id), "feed_id": Int64(new.feed_id), "host": host}
        begun["expires"] = new.expires
        key = {"topic": new.topic, "callback": new.callback}
        change = {"ask": {**intent._asdict(), "mode": intent.mode.value}, "verify_at": intent.at}
        while True:
            fresh = {"_id": Int64(ids.reserve_ids()), **begun}
            try:
                doc = self._rows.find_one_and_update(
                    key, {"$set": change, "$setOnInsert": fresh}, upsert=True, return_document=True
                )
                return int((doc or fresh)["_id"])
            except DuplicateKeyError as e:
                if not is_duplicate(e, "_id") and not is_duplicate(e, "topic"):
                    raise

    @translate_errors
    def find_due(self, now: dt.datetime, limit: int) -> list[int]:
        """Return ids of subscriptions to verify, longest due first."""
        found = self._rows.find({"verify_at": {"$lte": now}}, {"_id": 1}).sort("verify_at", ASCENDING)
        return [d["_id"] for d in found.limit(limit)]

    @translate_errors
    def claim(self, sub_id: int, at: dt.datetime, now: dt.datetime, until: dt.datetime) -> bool:
        """Claim a due verification, due again at ``until``; return False if another job has claimed it."""
        query = {"_id": sub_id, "ask.at": at, "verify_at": {"$lte": now}}
        return self._rows.update_one(query, {"$set": {"verify_at": until}}).matched_count == 1

    @translate_errors
    def postpone_request(self, sub_id: int, at: dt.datetime, until: dt.datetime, failures: int) -> None:
        """Postpone the verification of the request made at ``at``."""
        change = {"verify_at": until, "ask.failures": failures}
        self._rows.update_one({"_id": sub_id, "ask.at": at}, {"$set": change})

    @translate_errors
    def confirm(
        self, sub_id: int, intent: PendingIntent, digest: bytes, now: dt.datetime, until: dt.datetime
    ) -> bool:
        """Record that a callback has confirmed a request; return False if there is a newer request.

        Args:
            digest: hash of the document that is served now.
        """
        change: Doc = {"$set": {"expires": until, "heard": digest}, "$min": {"since": now}}
        gone = {"ask": "", "verify_at": "", "failures": ""}
        if intent.secret:
            change["$set"]["secret"] = intent.secret
        else:
            gone["secret"] = ""
        done = self._rows.update_one({"_id": sub_id, "ask.at": intent.at}, {**change, "$unset": gone})
        return done.matched_count == 1

    @translate_errors
    def refuse(self, sub_id: int, at: dt.datetime) -> None:
        """Delete an unconfirmed request; a subscription confirmed earlier stays."""
        if not self._rows.delete_one({"_id": sub_id, "ask.at": at, "since": None}).deleted_count:
            self._rows.update_one({"_id": sub_id, "ask.at": at}, {"$unset": {"ask": "", "verify_at": ""}})

    @translate_errors
    def remove(self, sub_ids: Sequence[int]) -> None:
        """Delete subscriptions."""
        self._rows.delete_many({"_id": {"$in": list(sub_ids)}})

    # -- deliveries

    @translate_errors
    def has_subscribers(self, feed_id: int) -> bool:
        """Return whether a stream has any subscriptions."""
        return self._rows.find_one({"feed_id": feed_id}, {"_id": 1}) is not None

    @translate_errors
    def clear_changed(self, feed_id: int) -> None:
        """Clear the mark that a stream's change must be delivered."""
        self._feeds.update_one({"_id": feed_id}, {"$unset": {"hub_at": ""}})

    @translate_errors
    def find_owed_feeds(self, now: dt.datetime, limit: int) -> list[int]:
        """Return streams with pending deliveries, longest waiting first."""
        changed = self._feeds.find({"hub_at": {"$exists": True}}, {"_id": 1}).sort("hub_at", ASCENDING)
        found = [d["_id"] for d in changed.limit(limit)]
        waiting = self._rows.find({"push_at": {"$lte": now}}, {"feed_id": 1}).sort("push_at", ASCENDING)
        found += [d["feed_id"] for d in waiting.limit(_LOOK * limit)]
        return list(dict.fromkeys(found))[:limit]

    @translate_errors
    def mark_owed(self, feed_id: int, now: dt.datetime) -> None:
        """Mark a stream's change, if any, as owed to all its subscribers.

        Subscribers that wait for a retry keep its time.
        """
        feed = self._feeds.find_one({"_id": feed_id}, {"hub_at": 1}) or {}
        changed = feed.get("hub_at")
        if changed is None:
            return
        owed = {"owed": changed, "push_at": {"$ifNull": ["$push_at", now]}}
        self._rows.update_many({"feed_id": feed_id, "since": {"$ne": None}}, [{"$set": owed}])
        self._feeds.update_one({"_id": feed_id, "hub_at": changed}, {"$unset": {"hub_at": ""}})

    @translate_errors
    def claim_subscribers(
        self, feed_id: int, now: dt.datetime, until: dt.datetime, limit: int
    ) -> list[Subscriber]:
        """Claim subscribers of a stream whose deliveries are due; they are due again at ``until``.

        Subscribers with failures come last, because they may fail slowly and must not delay others.
        """
        query = {"feed_id": feed_id, "push_at": {"$lte": now}}
        self._rows.delete_many({**query, "expires": {"$lte": now}})
        taken: list[Subscriber] = []
        for failed in (False, True):
            if left := limit - len(taken):
                found = self._rows.find({**query, "failures": {"$exists": failed}})
                taken += [each for d in found.sort("push_at", ASCENDING).limit(left) if (each := _read(d))]
        if taken:
            self._rows.update_many({"_id": {"$in": [t.id for t in taken]}}, {"$set": {"push_at": until}})
        return taken

    @translate_errors
    def postpone_hosts(
        self, feed_id: int, hosts: Sequence[str], now: dt.datetime, until: dt.datetime
    ) -> None:
        """Postpone the due deliveries of a stream to callbacks on these hosts."""
        due = {"feed_id": feed_id, "push_at": {"$lte": now}, "host": {"$in": list(hosts)}}
        self._rows.update_many(due, {"$set": {"push_at": until}})

    @translate_errors
    def record_results(
        self,
        delivered: Iterable[tuple[Subscriber, bytes]],
        postponed: Mapping[int, tuple[int, dt.datetime]],
        removed: Iterable[int],
        now: dt.datetime,
    ) -> None:
        """Record the results of pushes.

        Args:
            delivered: the subscribers that got the push, with its hash. If a newer change is owed, it is due
                now.
            postponed: failures and time of the retry, by subscriber id.
            removed: ids of subscriptions to delete.
        """
        newer = {"failures": 0, "push_at": now}
        operations: list[UpdateOne | DeleteOne] = []
        for each, heard in delivered:
            done: Doc = {"$set": {"heard": heard}, "$unset": {"owed": "", "push_at": "", "failures": ""}}
            operations.append(UpdateOne({"_id": each.id, "owed": {"$ne": each.owed}}, {"$set": newer}))
            operations.append(UpdateOne({"_id": each.id, "owed": each.owed}, done))
        for sub_id, (failures, at) in postponed.items():
            operations.append(UpdateOne({"_id": sub_id}, {"$set": {"failures": failures, "push_at": at}}))
        operations += [DeleteOne({"_id": sub_id}) for sub_id in removed]
        if operations:
            self._rows.bulk_write(operations)


def _read(doc: Doc | None) -> Subscriber | None:
    if doc is None:
        return None
    ask = doc.get("ask")
    asked = PendingIntent(**{**ask, "mode": Mode(ask["mode"])}) if ask else None
    return Subscriber(id=doc["_id"], ask=asked, **{name: doc[name] for name in _ALL if name in doc})
