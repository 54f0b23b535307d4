"""Subscriptions at hubs: the collection ``websubs``, and the one field of feeds that follows from it.

A feed has one document with ``current``: true; those of hubs that it has left go on without, until the
hub has confirmed that, and leave by a TTL index on ``gone_at``. Token and secret stand here in the open:
both are sent to the hub again at each renewal, and open nothing but this callback.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from typing import Any

from bson.int64 import Int64
from pymongo import ASCENDING, ReturnDocument
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.mappers.mongo import ids
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, is_duplicate
from app.models.feeds.websub import HubState, HubSubscription, Mode

_NAMES = tuple(f.name for f in dataclasses.fields(HubSubscription) if f.name not in ("id", "state", "asked"))
_AFTER = ReturnDocument.AFTER


class WebsubMapper:
    """Document ↔ :class:`HubSubscription`. Fields that are None are not there."""

    def __init__(self, database: Database[Doc]) -> None:
        self._rows: Collection[Doc] = database["websubs"]
        self._feeds: Collection[Doc] = database["feeds"]

    # -- one subscription

    @translate_errors
    def add(self, feed_id: int, hub: str, topic: str, *, token: str, secret: str, now: dt.datetime) -> bool:
        """Want a subscription that is to be tended at once; False: the feed has one already."""
        while True:
            doc: Doc = {
                "_id": Int64(ids.reserve_ids()),
                "feed_id": Int64(feed_id),
                "current": True,
                "hub": hub,
                "topic": topic,
                "token": token,
                "secret": secret,
                "state": HubState.PENDING.value,
                "created": now,
                "tend_at": now,
            }
            try:
                self._rows.insert_one(doc)
                return True
            except DuplicateKeyError as e:
                if not is_duplicate(e, "_id"):
                    return False

    @translate_errors
    def find(self, sub_id: int) -> HubSubscription | None:
        """Return a subscription by id."""
        return _read(self._rows.find_one({"_id": sub_id}))

    @translate_errors
    def find_by_token(self, token: str) -> HubSubscription | None:
        """Return the subscription of a callback."""
        return _read(self._rows.find_one({"token": token}))

    @translate_errors
    def find_current(self, feed_ids: Sequence[int]) -> dict[int, HubSubscription]:
        """Return the subscriptions of these feeds, by feed."""
        found = self._rows.find({"feed_id": {"$in": list(feed_ids)}, "current": True})
        return {d["feed_id"]: sub for d in found if (sub := _read(d))}

    @translate_errors
    def find_due(self, now: dt.datetime, limit: int) -> list[int]:
        """Return ids of subscriptions to be tended, the longest due first."""
        found = self._rows.find({"tend_at": {"$lte": now}}, {"_id": 1}).sort("tend_at", ASCENDING)
        return [d["_id"] for d in found.limit(limit)]

    @translate_errors
    def find_due_pulls(self, now: dt.datetime, limit: int) -> list[int]:
        """Return feeds whose pushes wait, the longest first."""
        found = self._rows.find({"pull_at": {"$lte": now}}, {"feed_id": 1}).sort("pull_at", ASCENDING)
        return [d["feed_id"] for d in found.limit(limit)]

    @translate_errors
    def mark_leaving(self, feed_id: int, now: dt.datetime) -> bool:
        """End a feed's subscription, to be told to the hub; False: it has none."""
        left = {"state": HubState.LEAVING.value, "tend_at": now, "failures": 0}
        gone = dict.fromkeys(("current", "pull_at", "asked", "asked_at", "verified_at"), "")
        query = {"feed_id": feed_id, "current": True}
        return self._rows.update_one(query, {"$set": left, "$unset": gone}).modified_count == 1

    @translate_errors
    def remove(self, sub_id: int) -> None:
        """Remove a subscription that the hub knows nothing of, or need not."""
        self._rows.delete_one({"_id": sub_id})

    # -- asking the hub

    @translate_errors
    def record_request(
        self, sub_id: int, mode: Mode, now: dt.datetime, until: dt.datetime, failures: int
    ) -> None:
        """Note that the hub is being asked, before it is: it may confirm while we wait for its answer."""
        change = {"asked": mode.value, "asked_at": now, "tend_at": until, "failures": failures, "reason": ""}
        self._rows.update_one({"_id": sub_id}, {"$set": change})

    @translate_errors
    def record_request_result(
        self, sub_id: int, at: dt.datetime, tend_at: dt.datetime, failures: int, reason: str
    ) -> HubSubscription | None:
        """Note how the request of that moment ended, unless the hub has confirmed it meanwhile."""
        query = {"_id": sub_id, "asked_at": at, "verified_at": {"$not": {"$gte": at}}, "gone_at": None}
        change = {"tend_at": tend_at, "failures": failures, "reason": reason}
        return _read(self._rows.find_one_and_update(query, {"$set": change}, return_document=_AFTER))

    @translate_errors
    def mark_lapsed(self, sub_id: int) -> None:
        """Note that the lease ran out."""
        query = {"_id": sub_id, "state": HubState.ACTIVE.value}
        gone = {"lease_until": "", "since": ""}
        self._rows.update_one(query, {"$set": {"state": HubState.PENDING.value}, "$unset": gone})

    # -- what the hub says

    @translate_errors
    def mark_verified(
        self, sub_id: int, now: dt.datetime, lease_until: dt.datetime, tend_at: dt.datetime
    ) -> HubSubscription | None:
        """Note that the hub has confirmed; None: the subscription is being left."""
        query = {"_id": sub_id, "state": {"$ne": HubState.LEAVING.value}}
        change = {
            "state": HubState.ACTIVE.value,
            "verified_at": now,
            "lease_until": lease_until,
            "tend_at": tend_at,
            "failures": 0,
        }
        update = {"$set": change, "$min": {"since": now}, "$unset": {"reason": ""}}
        return _read(self._rows.find_one_and_update(query, update, return_document=_AFTER))

    @translate_errors
    def mark_denied(self, sub_id: int, tend_at: dt.datetime, reason: str) -> None:
        """Note that the hub does not want the subscription, or no longer."""
        change = {"state": HubState.DENIED.value, "tend_at": tend_at, "reason": reason}
        gone = dict.fromkeys(("lease_until", "since", "asked", "asked_at"), "")
        query = {"_id": sub_id, "state": {"$ne": HubState.LEAVING.value}}
        self._rows.update_one(query, {"$set": change, "$unset": gone})

    @translate_errors
    def mark_ended(self, sub_id: int, now: dt.datetime) -> None:
        """Note that the hub has ended the subscription; the row stays a day, in case it asks again."""
        gone = dict.fromkeys(("tend_at", "lease_until"), "")
        query = {"_id": sub_id, "state": HubState.LEAVING.value}
        self._rows.update_one(query, {"$set": {"gone_at": now, "verified_at": now}, "$unset": gone})

    # -- pushes

    @translate_errors
    def record_push(
        self, sub_id: int, now: dt.datetime, interval: dt.timedelta, late: dt.timedelta
    ) -> HubSubscription | None:
        """Count a push and plan its pull, at most one per ``interval``; None: nobody reads the feed.

        A poll that found the entries at most ``late`` before is no miss.
        """
        free = {"$max": [now, {"$add": ["$pulled_at", _ms(interval)]}]}  # missing + x is null, and no maximum
        change = {
            "pushes": {"$add": [{"$ifNull": ["$pushes", 0]}, 1]},
            "last_push_at": now,
            "looks": 0,
            "pull_at": {"$min": ["$pull_at", free]},
            "missed_at": {"$cond": [{"$gte": ["$missed_at", now - late]}, "$$REMOVE", "$missed_at"]},
        }
        query = {"_id": sub_id, "current": True}
        return _read(self._rows.find_one_and_update(query, [{"$set": change}], return_document=_AFTER))

    @translate_errors
    def count_forged_push(self, sub_id: int) -> None:
        """Count a push whose signature does not fit."""
        self._rows.update_one({"_id": sub_id}, {"$inc": {"forged": 1}})

    @translate_errors
    def begin_pull(self, feed_id: int, now: dt.datetime, until: dt.datetime | None) -> HubSubscription | None:
        """Begin the pull that pushes wait for; None: none does.

        Args:
            until: when it is due again in case this one is never ended; None: not at all.
        """
        update: Doc = {"$set": {"pulled_at": now}}
        if until is None:
            update["$unset"] = {"pull_at": ""}
        else:
            update["$set"]["pull_at"] = until
        query = {"feed_id": feed_id, "current": True, "pull_at": {"$exists": True}}
        return _read(self._rows.find_one_and_update(query, update, return_document=_AFTER))

    @translate_errors
    def end_pull(
        self,
        sub_id: int,
        began: dt.datetime,
        after_push: dt.datetime,
        retry_at: dt.datetime | None,
        attempts: int,
    ) -> None:
        """End a pull. A push that came since it began is pulled for at ``after_push``, so none is lost.

        Args:
            again: when to look once more though no push came; None: not.
        """
        newer = {"$gt": ["$last_push_at", began]}
        rest: Any = "$$REMOVE" if retry_at is None else retry_at
        change = {
            "pull_at": {"$cond": [newer, after_push, rest]},
            "looks": {"$cond": [newer, 0, attempts]},
        }
        self._rows.update_one({"_id": sub_id, "pulled_at": began, "current": True}, [{"$set": change}])

    @translate_errors
    def count_proof(self, sub_id: int) -> HubSubscription | None:
        """Count that pushes were first to tell of entries; after a miss the count begins anew."""
        begun = {"$add": [{"$ifNull": ["$proofs", 0]}, 1]}
        missed = {"$ne": [{"$type": "$missed_at"}, "missing"]}
        change = {"proofs": {"$cond": [missed, 1, begun]}, "missed_at": "$$REMOVE"}
        return _read(
            self._rows.find_one_and_update({"_id": sub_id}, [{"$set": change}], return_document=_AFTER)
        )

    @translate_errors
    def record_miss(self, sub_id: int, now: dt.datetime) -> None:
        """Note that a poll found entries that no push had announced; the first one in a row counts."""
        self._rows.update_one({"_id": sub_id, "missed_at": None}, {"$set": {"missed_at": now}})

    # -- the feed

    @translate_errors
    def count_readers(self, feed_id: int) -> int:
        """Return how many subscribers a feed has."""
        doc = self._feeds.find_one({"_id": feed_id}, {"subscribers": 1})
        return int(doc["subscribers"]) if doc else 0

    @translate_errors
    def find_feed_url(self, feed_id: int) -> str | None:
        """Return a feed's own address."""
        doc = self._feeds.find_one({"_id": feed_id}, {"url": 1})
        return str(doc["url"]) if doc else None

    @translate_errors
    def is_crashing(self, feed_id: int, now: dt.datetime) -> bool:
        """Return whether a feed rests because reading it crashed workers."""
        query = {"_id": feed_id, "error": "crashed", "next_check_at": {"$gt": now}}
        return self._feeds.find_one(query, {"_id": 1}) is not None

    @translate_errors
    def trust_pushes(self, feed_id: int, until: dt.datetime) -> None:
        """Let pushes stand in for polls of a feed until then."""
        self._feeds.update_one({"_id": feed_id}, {"$set": {"push_until": until}})

    @translate_errors
    def distrust_pushes(self, feed_id: int, check_at: dt.datetime) -> bool:
        """Let a feed be polled as before, ``check_at`` at the latest; False: it was anyway."""
        query = {"_id": feed_id, "push_until": {"$ne": None}}
        update = {"$unset": {"push_until": ""}, "$min": {"next_check_at": check_at}}
        return self._feeds.update_one(query, update).modified_count == 1


def _ms(span: dt.timedelta) -> int:
    return round(span.total_seconds() * 1000)


def _read(doc: Doc | None) -> HubSubscription | None:
    if doc is None:
        return None
    plain = {name: doc[name] for name in _NAMES if name in doc}
    asked = Mode(doc["asked"]) if doc.get("asked") else None
    return HubSubscription(id=doc["_id"], state=HubState(doc["state"]), asked=asked, **plain)
