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
from app.mappers import ids, readstates
from app.mappers.errors import translated
from app.mappers.store import Doc, Session, is_duplicate
from app.models.subscription import ReadState, Subscription, from_words, mask_of

#: Subscriptions per answer of MongoDB: a user's all at once.
BATCH = 10_000
#: Subscriptions per statement of ``clear``; each looks through half as many places.
PLACES = 250
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
            # Order and types as app.mappers.readstates reads them.
            "_id": Int64(ids.take()),
            "user_id": Int64(subscription.user_id),
            "feed_id": Int64(subscription.feed_id),
            "rev": Int64(0),
            **_state(subscription.state),
            "title": subscription.title,
            "folder_ids": list(subscription.folder_ids),
            "order": subscription.order,
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
        return next(iter(self._find({"user_id": user_id, "feed_id": feed_id})), None)

    @translated
    def of_user(self, user_id: int, feed_ids: Sequence[int] | None = None) -> list[Subscription]:
        """Return a user's subscriptions, all or those to these feeds."""
        query: Doc = {"user_id": user_id}
        if feed_ids is not None:
            query["feed_id"] = {"$in": list(feed_ids)}
        return self._find(query)

    def _find(self, query: Doc, limit: int = 0, session: Session | None = None) -> list[Subscription]:
        batches = self._subscriptions.find_raw_batches(query, limit=limit, batch_size=BATCH, session=session)
        return [_subscription(row) for row in readstates.subscriptions(batches)]

    @translated
    def in_folders(self, user_id: int, folder_ids: Sequence[int]) -> list[Subscription]:
        """Return a user's subscriptions that lie in one of these folders."""
        query = {"user_id": user_id, "folder_ids": {"$in": list(folder_ids)}}
        return self._find(query)

    @translated
    def of_feed(self, feed_id: int, limit: int, session: Session | None = None) -> list[Subscription]:
        """Return some subscribers of a feed."""
        return self._find({"feed_id": feed_id}, limit, session)

    @translated
    def feed_ids(self, user_id: int) -> list[int]:
        """Return the feeds a user is subscribed to."""
        found = self._subscriptions.find_raw_batches(
            {"user_id": user_id}, {"_id": 0, "feed_id": 1}, batch_size=BATCH
        )
        return list(readstates.feed_ids(found))

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
                {"feed_id": feed_id, "pending": True},
                {"$max": {"upto": Int64(upto)}, "$unset": {"pending": ""}},
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
        update["$inc"] = {"rev": Int64(1)}
        doc = self._subscriptions.find_one_and_update(
            {"user_id": user_id, "feed_id": feed_id}, update, projection=_STATE
        )
        return _read_state(doc) if doc else None

    @translated
    def kept(self, user_id: int, feed_ids: Sequence[int]) -> list[Kept]:
        """Return read states for their replacement."""
        query = {"user_id": user_id, "feed_id": {"$in": list(feed_ids)}}
        batches = self._subscriptions.find_raw_batches(query, batch_size=BATCH)
        return [
            Kept(feed_id, state, rev, rest.get("mass"))
            for _, _, feed_id, rev, state, rest in readstates.subscriptions(batches)
        ]

    @translated
    def clear(self, user_id: int, replaces: Sequence[Replace], mass: str) -> bool:
        """Replace read states of which nothing but ``upto`` is left; False: some had changed.

        One statement per chunk, where ``replace`` needs one per subscription: the numbers that differ
        lie in arrays, and each document finds its own place in them.
        """
        cleared = 0
        for start in range(0, len(replaces), PLACES):
            chunk = replaces[start : start + PLACES]
            feeds = [Int64(r.kept.feed_id) for r in chunk]
            revs, uptos = [Int64(r.kept.rev) for r in chunk], [Int64(r.state.upto) for r in chunk]
            place = {"$indexOfArray": [feeds, "$feed_id"]}
            same = {"$eq": ["$rev", {"$arrayElemAt": [revs, "$place"]}]}
            fields = {
                "upto": {"$arrayElemAt": [uptos, "$place"]},
                "words": {"$literal": {}},
                "unread": {"$literal": []},
                "rev": {"$add": ["$rev", 1]},
                "mass": {"$literal": mass},
            }
            # A pipeline merges the fields of embedded documents, so the bitmap is emptied by a switch.
            chosen = {name: {"$cond": [same, new, f"${name}"]} for name, new in fields.items()}
            result = self._subscriptions.update_many(
                {"user_id": user_id, "feed_id": {"$in": feeds}},
                [{"$set": {"place": place}}, {"$set": chosen}, {"$unset": "place"}],
            )
            cleared += result.modified_count
        return cleared == len(replaces)

    @translated
    def replace(self, user_id: int, replaces: Sequence[Replace]) -> bool:
        """Replace read states that are still as they were read; False: some were not."""
        if not replaces:
            return True
        operations = [
            UpdateOne(
                {"user_id": user_id, "feed_id": r.kept.feed_id, "rev": r.kept.rev},
                {"$set": {**_state(r.state), "mass": r.mass}, "$inc": {"rev": Int64(1)}},
            )
            for r in replaces
        ]
        result = self._subscriptions.bulk_write(operations, ordered=False)
        return result.matched_count == len(replaces)


def _state(state: ReadState) -> Doc:
    return {
        "upto": Int64(state.upto),
        "words": {key: Int64(word) for key, word in state.words().items()},
        "unread": [Int64(seq) for seq in state.unread],
    }


def _read_state(doc: Doc) -> ReadState:
    bits, start = from_words(doc.get("words") or {})
    return ReadState(doc["upto"], bits, start, tuple(doc.get("unread", ())))


def _subscription(row: readstates.Row) -> Subscription:
    ident, user_id, feed_id, _, state, rest = row
    folder_ids = tuple(rest.get("folder_ids", ()))
    return Subscription(
        ident, user_id, feed_id, rest.get("title", ""), folder_ids, rest.get("order", 0), state
    )
