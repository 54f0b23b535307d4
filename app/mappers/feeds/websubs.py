"""Subscriptions at WebSub hubs: the collection ``websubs``, and the field ``push_until`` of feeds.

A feed has one document with ``current``: true. Subscriptions at hubs that the feed has left stay without it
until the hub confirms, and a TTL index on ``gone_at`` removes them. Token and secret are stored in plain
text: both are sent to the hub again at each renewal, and only open this callback.
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
    """Document ↔ :class:`HubSubscription`. Documents omit fields that are None."""

    def __init__(self, database: Database[Doc]) -> None:
        self._rows: Collection[Doc] = database["websubs"]
        self._feeds: Collection[Doc] = database["feeds"]

    # -- one subscription

    @translate_errors
    def add(self, feed_id: int, hub: str, topic: str, *, token: str, secret: str, now: dt.datetime) -> bool:
        """Store a new subscription that is due now; return False if the feed already has one."""
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
        """Return ids of subscriptions that need a request, longest due first."""
        found = self._rows.find({"tend_at": {"$lte": now}}, {"_id": 1}).sort("tend_at", ASCENDING)
        return [d["_id"] for d in found.limit(limit)]

    @translate_errors
    def find_due_pulls(self, now: dt.datetime, limit: int) -> list[int]:
        """Return feeds with waiting pushes, longest waiting first."""
        found = self._rows.find({"pull_at": {"$lte": now}}, {"feed_id": 1}).sort("pull_at", ASCENDING)
        return [d["feed_id"] for d in found.limit(limit)]

    @translate_errors
    def mark_leaving(self, feed_id: int, now: dt.datetime) -> bool:
        """Mark a feed's subscription as ending, due for a request; return False if there is none."""
        left = {"state": HubState.LEAVING.value, "tend_at": now, "failures": 0}
        gone = dict.fromkeys(("current", "pull_at", "asked", "asked_at", "verified_at"), "")
        query = {"feed_id": feed_id, "current": True}
        return self._rows.update_one(query, {"$set": left, "$unset": gone}).modified_count == 1

    @translate_errors
    def remove(self, sub_id: int) -> None:
        """Remove a subscription that the hub doesn't know, or need not know."""
        self._rows.delete_one({"_id": sub_id})

    # -- requests to the hub

    @translate_errors
    def record_request(
        self, sub_id: int, mode: Mode, now: dt.datetime, until: dt.datetime, failures: int
    ) -> None:
        """Record a request before it is sent, since the hub may confirm before it answers."""
        change = {"asked": mode.value, "asked_at": now, "tend_at": until, "failures": failures, "reason": ""}
        self._rows.update_one({"_id": sub_id}, {"$set": change})

    @translate_errors
    def record_request_result(
        self, sub_id: int, at: dt.datetime, tend_at: dt.datetime, failures: int, reason: str
    ) -> HubSubscription | None:
        """Record the result of the request sent at ``at``, unless the hub has confirmed it meanwhile."""
        query = {"_id": sub_id, "asked_at": at, "verified_at": {"$not": {"$gte": at}}, "gone_at": None}
        change = {"tend_at": tend_at, "failures": failures, "reason": reason}
        return _read(self._rows.find_one_and_update(query, {"$set": change}, return_document=_AFTER))

    @translate_errors
    def mark_lapsed(self, sub_id: int) -> None:
        """Record that the lease has expired."""
        query = {"_id": sub_id, "state": HubState.ACTIVE.value}
        gone = {"lease_until": "", "since": ""}
        self._rows.update_one(query, {"$set": {"state": HubState.PENDING.value}, "$unset": gone})

    # -- requests from the hub

    @translate_errors
    def mark_verified(
        self, sub_id: int, now: dt.datetime, lease_until: dt.datetime, tend_at: dt.datetime
    ) -> HubSubscription | None:
        """Record the hub's confirmation; return None if the subscription is ending."""
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
        """Record that the hub denied or ended the subscription."""
        change = {"state": HubState.DENIED.value, "tend_at": tend_at, "reason": reason}
        gone = dict.fromkeys(("lease_until", "since", "asked", "asked_at"), "")
        query = {"_id": sub_id, "state": {"$ne": HubState.LEAVING.value}}
        self._rows.update_one(query, {"$set": change, "$unset": gone})

    @translate_errors
    def mark_ended(self, sub_id: int, now: dt.datetime) -> None:
        """Record that the hub confirmed the end; the row stays for a day, in case the hub verifies again."""
        gone = dict.fromkeys(("tend_at", "lease_until"), "")
        query = {"_id": sub_id, "state": HubState.LEAVING.value}
        self._rows.update_one(query, {"$set": {"gone_at": now, "verified_at": now}, "$unset": gone})

    # -- pushes

    @translate_errors
    def record_push(
        self, sub_id: int, now: dt.datetime, interval: dt.timedelta, late: dt.timedelta
    ) -> HubSubscription | None:
        """Count a push and plan its pull, at most one per ``interval``; None: the subscription isn't current.

        A poll that found the entries at most ``late`` before the push isn't a miss.
        """
        free = {"$max": [now, {"$add": ["$pulled_at", _ms(interval)]}]}  # missing + x is null: no maximum
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
        """Count a push with a wrong signature."""
        self._rows.update_one({"_id": sub_id}, {"$inc": {"forged": 1}})

    @translate_errors
    def begin_pull(self, feed_id: int, now: dt.datetime, until: dt.datetime | None) -> HubSubscription | None:
        """Begin the pull that pushes wait for; return None if no push waits.

        Args:
            until: when the pull is due again if it never ends; None: no retry.
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
        """End a pull. If a push came since the pull began, the next pull is at ``after_push``, so no push is
        lost.

        Args:
            retry_at: when to pull again even without a push; None: never.
            attempts: the number of such pulls so far.
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
        """Count that a push announced entries before a poll found them; a miss restarts the count."""
        begun = {"$add": [{"$ifNull": ["$proofs", 0]}, 1]}
        missed = {"$ne": [{"$type": "$missed_at"}, "missing"]}
        change = {"proofs": {"$cond": [missed, 1, begun]}, "missed_at": "$$REMOVE"}
        return _read(
            self._rows.find_one_and_update({"_id": sub_id}, [{"$set": change}], return_document=_AFTER)
        )

    @translate_errors
    def record_miss(self, sub_id: int, now: dt.datetime) -> None:
        """Record that a poll found unannounced entries; only the first such poll in a row counts."""
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
        """Return whether a feed is suspended because reading it crashed workers."""
        query = {"_id": feed_id, "error": "crashed", "next_check_at": {"$gt": now}}
        return self._feeds.find_one(query, {"_id": 1}) is not None

    @translate_errors
    def trust_pushes(self, feed_id: int, until: dt.datetime) -> None:
        """Let pushes replace polls of a feed until a time."""
        self._feeds.update_one({"_id": feed_id}, {"$set": {"push_until": until}})

    @translate_errors
    def distrust_pushes(self, feed_id: int, check_at: dt.datetime) -> bool:
        """Resume polling a feed, by ``check_at`` at the latest; return False if they hadn't stopped."""
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
