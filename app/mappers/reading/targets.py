"""Services that entries are sent to, and what is sent: the collections ``targets`` and ``deliveries``.

    targets     {_id, user_id, kind, name, address, secret?, on: [occasion], enabled, tried_at?, error?,
                 dropped?, rests_until?}
    deliveries  {user_id, target_id, entry_id, cause, at?, state, due?, claimed?, tries, error?, expires}

A delivery is unique for its target, entry and cause, and stays until it expires. So an entry that a rule
matches twice, because a job is repeated, is sent once. ``due`` is there as long as it waits, ``claimed`` as
long as a worker sends it: until then it is the worker's alone. What isn't sent, because it is too much for
a day, has no ``at``: it is in no list and doesn't count for the day.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from typing import Any

from bson.binary import Binary
from bson.int64 import Int64
from pymongo import ReturnDocument, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, DuplicateKeyError

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, is_duplicate
from app.models.reading.targets import Delivery, DeliveryState, Occasion, Target, TargetKind, Wanted


class TargetMapper:
    """Document ↔ :class:`Target` and :class:`Delivery`. Every query for a user contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._targets = cells.get_table("targets")
        self._deliveries = cells.get_table("deliveries")

    # -- targets
    @translate_errors
    def find_by_user(self, user_id: int) -> list[Target]:
        """Return a user's targets, the oldest first."""
        return list(map(_read, self._targets.get(user_id).find({"user_id": user_id}).sort("_id", 1)))

    @translate_errors
    def find(self, user_id: int, target_id: int) -> Target | None:
        """Return a target."""
        doc = self._targets.get(user_id).find_one({"_id": target_id, "user_id": user_id})
        return _read(doc) if doc else None

    @translate_errors
    def add(self, new: Target) -> Target:
        """Store a target; its id is assigned here."""
        while True:
            doc: Doc = {
                "_id": Int64(self._targets.reserve_id()),
                "user_id": Int64(new.user_id),
                "kind": new.kind.value,
                "name": new.name,
                "address": new.address,
                "on": [one.value for one in new.on],
                "enabled": new.enabled,
                **({"secret": Binary(new.sealed)} if new.sealed else {}),
            }
            try:
                self._targets.get(new.user_id).insert_one(doc)
                return dataclasses.replace(new, id=doc["_id"])
            except DuplicateKeyError as e:
                if not is_duplicate(e, "_id"):
                    raise

    @translate_errors
    def set_enabled(self, user_id: int, target_id: int, enabled: bool) -> bool:
        """Switch a target on or off, and forget how much was dropped; return whether there is one."""
        query = {"_id": target_id, "user_id": user_id}
        change = {"$set": {"enabled": enabled}, "$unset": {"dropped": ""}}
        return bool(self._targets.get(user_id).update_one(query, change).matched_count)

    @translate_errors
    def store_access(self, before: Target, after: Target, now: dt.datetime) -> bool:
        """Replace address, name and encrypted secret of a target at once; return whether they were as before.

        A secret belongs to an address, so neither is stored beside another one than it was checked with.
        What waits is due now, because what was replaced may be why it failed. What a worker is sending stays
        the worker's.
        """
        user_id = before.user_id
        query: Doc = {
            "_id": before.id,
            "user_id": user_id,
            "address": before.address,
            "secret": Binary(before.sealed) if before.sealed else {"$exists": False},
        }
        change: Doc = {"$set": {"address": after.address, "name": after.name}, "$unset": {"rests_until": ""}}
        if after.sealed is None:
            change["$unset"]["secret"] = ""
        else:
            change["$set"]["secret"] = Binary(after.sealed)
        if not self._targets.get(user_id).update_one(query, change).matched_count:
            return False
        waiting = {
            "user_id": user_id,
            "target_id": before.id,
            "due": {"$gt": now},
            "claimed": {"$not": {"$gt": now}},
        }
        self._deliveries.get(user_id).update_many(waiting, {"$set": {"due": now}}, hint="user_due")
        return True

    @translate_errors
    def retry(self, user_id: int, target_id: int, now: dt.datetime, since: dt.datetime, limit: int) -> int:
        """Let a target rest no longer, and what waits for it be due; return how much of it is due now.

        Of the entries that were given up since ``since``, the latest ``limit`` are due, too: each once, and
        none that the target has got or that waits for it, whatever the causes are. What a worker is sending
        stays the worker's.
        """
        self._targets.get(user_id).update_one(
            {"_id": target_id, "user_id": user_id}, {"$unset": {"rests_until": ""}}
        )
        deliveries = self._deliveries.get(user_id)
        mine: Doc = {"user_id": user_id, "target_id": target_id}
        if ids := self._find_given_up({**mine, "at": {"$gt": since}}, limit):
            failed = {**mine, "_id": {"$in": ids}, "state": DeliveryState.FAILED.value}
            again: Doc = {"state": DeliveryState.WAITING.value, "due": now, "tries": 0}
            deliveries.update_many(failed, {"$set": again})
        waiting = {**mine, "due": {"$gt": now}, "claimed": {"$not": {"$gt": now}}}
        deliveries.update_many(waiting, {"$set": {"due": now}}, hint="user_due")
        return deliveries.count_documents({**mine, "due": {"$lte": now}}, hint="user_due")

    def _find_given_up(self, query: Doc, limit: int) -> list[Any]:
        """Return the latest failed delivery of each entry that wasn't sent and isn't waiting, by time."""
        failed = {"state": DeliveryState.FAILED.value, "error": {"$nin": FINAL_ERRORS}}
        stages: list[Doc] = [
            {"$match": {**query, "entry_id": {"$ne": 0}}},
            {"$sort": {"at": -1}},
            {
                "$group": {
                    "_id": "$entry_id",
                    "states": {"$addToSet": "$state"},
                    "latest": {"$first": "$$ROOT"},
                }
            },
            {"$match": {"states": [DeliveryState.FAILED.value]}},
            {"$replaceRoot": {"newRoot": "$latest"}},
            {"$match": failed},
            {"$sort": {"at": -1}},
            {"$limit": limit},
            {"$project": {"_id": 1}},
        ]
        return [
            row["_id"] for row in self._deliveries.get(query["user_id"]).aggregate(stages, hint="user_at")
        ]

    @translate_errors
    def remove(self, user_id: int, target_id: int) -> bool:
        """Delete a target and what is sent to it; return whether there was one."""
        query = {"_id": target_id, "user_id": user_id}
        is_gone = bool(self._targets.get(user_id).delete_one(query).deleted_count)
        self._deliveries.get(user_id).delete_many({"user_id": user_id, "target_id": target_id})
        return is_gone

    @translate_errors
    def record_result(self, user_id: int, target_id: int, error: str, now: dt.datetime) -> None:
        """Record the result of an attempt; an empty ``error``: it succeeded, and the rest ends."""
        change: Doc = {"$set": {"tried_at": now, "error": error}}
        if not error:
            change["$unset"] = {"rests_until": ""}
        self._targets.get(user_id).update_one({"_id": target_id, "user_id": user_id}, change)

    @translate_errors
    def count_dropped(self, user_id: int, target_id: int, count: int) -> None:
        """Count entries that aren't sent, because they are too many for a day."""
        query, change = {"_id": target_id, "user_id": user_id}, {"$inc": {"dropped": count}}
        self._targets.get(user_id).update_one(query, change)

    # -- deliveries
    @translate_errors
    def add_deliveries(
        self, user_id: int, wanted: Sequence[Wanted], now: dt.datetime, expires: dt.datetime
    ) -> int:
        """Store what is to be sent, unless it was stored before; return how much is new."""
        fields = {"at": now, "state": DeliveryState.WAITING.value, "due": now, "tries": 0, "expires": expires}
        return len(self._insert(user_id, wanted, fields))

    @translate_errors
    def add_dropped(self, user_id: int, wanted: Sequence[Wanted], expires: dt.datetime) -> list[Wanted]:
        """Store what isn't sent, because it is too much for a day; return what is new."""
        fields = {"state": DeliveryState.FAILED.value, "error": "too_many", "tries": 0, "expires": expires}
        return self._insert(user_id, wanted, fields)

    def _insert(self, user_id: int, wanted: Sequence[Wanted], fields: Doc) -> list[Wanted]:
        """Store deliveries, unless they were stored before; return those that are new."""
        writes = [
            UpdateOne(
                {
                    "user_id": user_id,
                    "target_id": Int64(one.target_id),
                    "entry_id": Int64(one.entry_id),
                    "cause": one.cause,
                },
                {"$setOnInsert": fields},
                upsert=True,
            )
            for one in wanted
        ]
        try:
            new = self._deliveries.get(user_id).bulk_write(writes, ordered=False).upserted_ids or {}
            return [wanted[number] for number in new]
        except BulkWriteError as e:
            if any(error["code"] != _DUPLICATE for error in e.details["writeErrors"]):
                raise
            # Another process was faster with the others.
            return [wanted[one["index"]] for one in e.details["upserted"]]

    @translate_errors
    def find_known(self, user_id: int, wanted: Sequence[Wanted]) -> set[Wanted]:
        """Return which of these were stored before."""
        ids = sorted({one.entry_id for one in wanted})
        found = self._deliveries.get(user_id).find(
            {
                "user_id": user_id,
                "target_id": {"$in": sorted({one.target_id for one in wanted})},
                "entry_id": {"$in": ids},
            },
            {"target_id": 1, "entry_id": 1, "cause": 1},
        )
        return {Wanted(d["target_id"], d["entry_id"], d["cause"]) for d in found}

    @translate_errors
    def count_since(self, user_id: int, since: dt.datetime, limit: int) -> int:
        """Return how many deliveries of a user were requested since a time, up to a limit."""
        query = {"user_id": user_id, "at": {"$gt": since}}
        return self._deliveries.get(user_id).count_documents(query, limit=limit, hint="user_at")

    @translate_errors
    def find_due(self, now: dt.datetime, limit: int) -> list[int]:
        """Return users with deliveries that are due, at most ``limit`` of each store."""

        def _read_cell(deliveries: Collection[Doc]) -> list[int]:
            found = deliveries.find({"due": {"$lte": now}}, {"user_id": 1}, hint="due").sort("due", 1)
            return [doc["user_id"] for doc in found.limit(limit)]

        return list(dict.fromkeys(i for ids in self._deliveries.read_each(_read_cell) for i in ids))

    @translate_errors
    def claim(self, user_id: int, now: dt.datetime, until: dt.datetime) -> Delivery | None:
        """Return a delivery of a user that was due, and is postponed now; None: there is none.

        Of those that are due since the same time, the one with the fewest attempts comes first.
        """
        doc = self._deliveries.get(user_id).find_one_and_update(
            {"user_id": user_id, "due": {"$lte": now}},
            {"$set": {"due": until, "claimed": until}, "$inc": {"tries": 1}},
            sort=[("due", 1), ("tries", 1)],
            hint="user_due",
            return_document=ReturnDocument.AFTER,
        )
        return _read_delivery(doc) if doc else None

    @translate_errors
    def store_state(
        self,
        one: Delivery,
        state: DeliveryState,
        error: str = "",
        due: dt.datetime | None = None,
        tries: int | None = None,
    ) -> None:
        """Store how an attempt ended, unless another worker has the delivery meanwhile.

        Args:
            one: as :meth:`claim` returned it.
            due: when it is tried next; None: it is over.
            tries: attempts that count so far; None: as claimed.
        """
        change: Doc = {
            "$set": {"state": state.value, "error": error, "tries": one.tries if tries is None else tries},
            "$unset": {"claimed": ""},
        }
        if due is None:
            change["$unset"]["due"] = ""
        else:
            change["$set"]["due"] = due
        query = {
            "user_id": one.user_id,
            "target_id": one.target_id,
            "entry_id": one.entry_id,
            "cause": one.cause,
            "claimed": one.due,
        }
        self._deliveries.get(one.user_id).update_one(query, change)

    @translate_errors
    def postpone_target(self, user_id: int, target_id: int, due: dt.datetime, now: dt.datetime) -> None:
        """Let all entries that are due for a target wait until a time, but not what a worker is sending."""
        query = {"user_id": user_id, "target_id": target_id, "due": {"$lte": now}, "entry_id": {"$ne": 0}}
        self._deliveries.get(user_id).update_many(query, {"$set": {"due": due}}, hint="user_due")

    @translate_errors
    def store_rest(self, user_id: int, target_id: int, until: dt.datetime) -> None:
        """Let a target rest until a time; new deliveries wait, too."""
        query, change = {"_id": target_id, "user_id": user_id}, {"$set": {"rests_until": until}}
        self._targets.get(user_id).update_one(query, change)

    @translate_errors
    def release_target(self, user_id: int, target_id: int, now: dt.datetime) -> None:
        """Let everything be due for a target that wasn't tried yet."""
        query = {"user_id": user_id, "target_id": target_id, "due": {"$gt": now}, "tries": 0}
        self._deliveries.get(user_id).update_many(query, {"$set": {"due": now}}, hint="user_due")

    @translate_errors
    def postpone_user(self, user_id: int, due: dt.datetime, now: dt.datetime) -> None:
        """Let everything that is due for a user wait until a time."""
        query = {"user_id": user_id, "due": {"$lte": now}}
        self._deliveries.get(user_id).update_many(query, {"$set": {"due": due}}, hint="user_due")

    @translate_errors
    def list_latest(self, user_id: int, limit: int, entry_id: int | None = None) -> list[Delivery]:
        """Return a user's deliveries, the latest first; of one entry, if it is given.

        Args:
            limit: 0: all that haven't expired.
        """
        query: dict[str, Any] = {"user_id": user_id, "at": {"$type": "date"}}
        if entry_id is not None:
            query["entry_id"] = entry_id
        found = self._deliveries.get(user_id).find(query).sort("at", -1).limit(limit)
        return list(map(_read_delivery, found))


_DUPLICATE = 11000
#: Errors after which no later attempt can succeed.
FINAL_ERRORS = ["entry_gone", "gone", "no_page", "too_many"]


def _read(doc: Doc) -> Target:
    return Target(
        doc["_id"],
        doc["user_id"],
        TargetKind(doc["kind"]),
        doc["name"],
        doc["address"],
        bytes(doc["secret"]) if "secret" in doc else None,
        tuple(map(Occasion, doc["on"])),
        doc["enabled"],
        doc.get("tried_at"),
        doc.get("error", ""),
        doc.get("dropped", 0),
        doc.get("rests_until"),
    )


def _read_delivery(doc: Doc) -> Delivery:
    return Delivery(
        doc["user_id"],
        doc["target_id"],
        doc["entry_id"],
        doc["cause"],
        doc["at"],
        DeliveryState(doc["state"]),
        doc.get("due"),
        doc["tries"],
        doc.get("error", ""),
    )
