"""Subscriptions with their read states: the collection ``subscriptions``.

``rev`` rises with every write of a read state, so that a whole state is only replaced when nobody
marked anything since it was read; ``mass`` names the last mass action, which alone can be undone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bson.int64 import Int64
from pymongo import UpdateMany, UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.errors import ExistsError
from app.mappers import ids
from app.mappers.errors import translated
from app.mappers.store import Doc, Session, is_duplicate
from app.models.subscription import ReadState, Subscription, mask_of

_STATE = {"feed_id": 1, "upto": 1, "words": 1, "unread": 1, "rev": 1, "mass": 1}


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """A read state as it was read, with what guards its replacement."""

    feed_id: int
    state: ReadState
    rev: int
    mass: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Replace:
    """A read state to put in place of ``kept``."""

    kept: Kept
    state: ReadState
    mass: str | None


class SubscriptionMapper:
    """Document ↔ :class:`Subscription`. Every query of a user's carries ``user_id``."""

    def __init__(self, database: Database[Doc]) -> None:
        self._subscriptions: Collection[Doc] = database["subscriptions"]

    @translated
    def add(self, subscription: Subscription, *, pending: bool, session: Session) -> Subscription:
        """Store a new subscription; its id is made here.

        Args:
            pending: the feed has no entries yet, its first pull sets where reading begins.

        Raises:
            ExistsError: the user has it already; the transaction is over.
        """
        doc: Doc = {
            "_id": ids.take(),
            "user_id": subscription.user_id,
            "feed_id": subscription.feed_id,
            "title": subscription.title,
            "folder_ids": list(subscription.folder_ids),
            "order": subscription.order,
            "rev": 0,
            **_state(subscription.state),
        }
        if pending:
            doc["pending"] = True
        try:
            self._subscriptions.insert_one(doc, session=session)
        except DuplicateKeyError as e:
            if is_duplicate(e, "_id"):
                return self.add(subscription, pending=pending, session=session)
            raise ExistsError("You are subscribed to this feed already.", feed_id=doc["feed_id"]) from e
        return dataclasses.replace(subscription, id=doc["_id"])

    @translated
    def get(self, user_id: int, feed_id: int) -> Subscription | None:
        """Return a user's subscription to a feed."""
        doc = self._subscriptions.find_one({"user_id": user_id, "feed_id": feed_id})
        return _subscription(doc) if doc else None

    @translated
    def of_user(self, user_id: int, feed_ids: Sequence[int] | None = None) -> list[Subscription]:
        """Return a user's subscriptions, all or those to these feeds."""
        query: Doc = {"user_id": user_id}
        if feed_ids is not None:
            query["feed_id"] = {"$in": list(feed_ids)}
        return [_subscription(d) for d in self._subscriptions.find(query)]

    @translated
    def in_folders(self, user_id: int, folder_ids: Sequence[int]) -> list[Subscription]:
        """Return a user's subscriptions that lie in one of these folders."""
        query = {"user_id": user_id, "folder_ids": {"$in": list(folder_ids)}}
        return [_subscription(d) for d in self._subscriptions.find(query)]

    @translated
    def of_feed(self, feed_id: int, limit: int) -> list[Subscription]:
        """Return some subscribers of a feed."""
        return [_subscription(d) for d in self._subscriptions.find({"feed_id": feed_id}).limit(limit)]

    @translated
    def feed_ids(self, user_id: int) -> list[int]:
        """Return the feeds a user is subscribed to."""
        return self._subscriptions.distinct("feed_id", {"user_id": user_id})

    @translated
    def count(self, user_id: int) -> int:
        """Return how many subscriptions a user has."""
        return self._subscriptions.count_documents({"user_id": user_id})

    @translated
    def edit(self, user_id: int, feed_id: int, changes: Mapping[str, Any]) -> bool:
        """Set title, folder_ids or order; False: there is no such subscription."""
        query = {"user_id": user_id, "feed_id": feed_id}
        return bool(self._subscriptions.update_one(query, {"$set": dict(changes)}).matched_count)

    @translated
    def leave_folder(self, user_id: int, folder_id: int) -> None:
        """Take all of a user's subscriptions out of a folder."""
        self._subscriptions.update_many(
            {"user_id": user_id, "folder_ids": folder_id}, {"$pull": {"folder_ids": folder_id}}
        )

    @translated
    def remove(self, user_id: int, feed_id: int, session: Session) -> bool:
        """Delete a subscription; False: there was none."""
        query = {"user_id": user_id, "feed_id": feed_id}
        return bool(self._subscriptions.delete_one(query, session=session).deleted_count)

    @translated
    def start(self, starts: Mapping[int, int]) -> None:
        """Say where reading begins (feed → upto) to who subscribed before the feed had entries."""
        operations = [
            UpdateMany(
                {"feed_id": feed_id, "pending": True}, {"$max": {"upto": upto}, "$unset": {"pending": ""}}
            )
            for feed_id, upto in starts.items()
        ]
        if operations:
            self._subscriptions.bulk_write(operations, ordered=False)

    @translated
    def mark(self, user_id: int, feed_id: int, seqs: Sequence[int], *, read: bool) -> ReadState | None:
        """Mark entries of one feed, atomically, without looking at the state.

        Both places are written whatever ``upto`` is now (see :class:`ReadState`), so this commutes with
        a mass action on another device.

        Returns:
            The state before; None: the user is not subscribed.
        """
        masks = mask_of(seqs)
        if read:
            bits: Doc = {f"words.{n}": {"or": Int64(mask)} for n, mask in masks.items()}
            update: Doc = {"$bit": bits, "$pull": {"unread": {"$in": list(seqs)}}}
        else:
            bits = {f"words.{n}": {"and": Int64(~mask)} for n, mask in masks.items()}
            update = {"$bit": bits, "$addToSet": {"unread": {"$each": list(seqs)}}}
        update["$inc"] = {"rev": 1}
        doc = self._subscriptions.find_one_and_update(
            {"user_id": user_id, "feed_id": feed_id}, update, projection=_STATE
        )
        return _read_state(doc) if doc else None

    @translated
    def kept(self, user_id: int, feed_ids: Sequence[int]) -> list[Kept]:
        """Return read states for their replacement."""
        query = {"user_id": user_id, "feed_id": {"$in": list(feed_ids)}}
        return [
            Kept(d["feed_id"], _read_state(d), d.get("rev", 0), d.get("mass"))
            for d in self._subscriptions.find(query, _STATE)
        ]

    @translated
    def replace(self, user_id: int, replaces: Sequence[Replace]) -> bool:
        """Replace read states that are still as they were read; False: some were not."""
        if not replaces:
            return True
        operations = [
            UpdateOne(
                {"user_id": user_id, "feed_id": r.kept.feed_id, "rev": r.kept.rev},
                {"$set": {**_state(r.state), "mass": r.mass}, "$inc": {"rev": 1}},
            )
            for r in replaces
        ]
        result = self._subscriptions.bulk_write(operations, ordered=False)
        return result.matched_count == len(replaces)


def _state(state: ReadState) -> Doc:
    return {
        "upto": state.upto,
        "words": {key: Int64(word) for key, word in state.words.items()},
        "unread": list(state.unread),
    }


def _read_state(doc: Doc) -> ReadState:
    return ReadState(doc["upto"], doc.get("words") or {}, tuple(doc.get("unread", ())))


def _subscription(doc: Doc) -> Subscription:
    return Subscription(
        id=doc["_id"],
        user_id=doc["user_id"],
        feed_id=doc["feed_id"],
        title=doc.get("title", ""),
        folder_ids=tuple(doc.get("folder_ids", ())),
        order=doc.get("order", 0),
        state=_read_state(doc),
    )
