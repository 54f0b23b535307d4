"""Followed lists: the collection ``followedlists``, one document per user and address.

{_id, user_id, url, name, etag, last_modified, seen: [key], gone: [key], past: [key], failures, error,
 checked_at, next_check_at}
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence
from typing import Any

from bson.int64 import Int64
from pymongo import ReturnDocument
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from app.errors import ExistsError
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session, is_duplicate
from app.models.imports.followed_lists import FollowedList

_PLAIN = ("url", "name", "etag", "last_modified", "failures", "error", "checked_at", "next_check_at")


class FollowedListMapper:
    """Document ↔ :class:`FollowedList`. Every query for a user contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._lists = cells.get_table("followedlists")

    @translate_errors
    def find_by_user(self, user_id: int) -> list[FollowedList]:
        """Return a user's lists, the oldest first."""
        return list(map(_read, self._lists.get(user_id).find({"user_id": user_id}).sort("_id", 1)))

    @translate_errors
    def find(self, user_id: int, list_id: int, session: Session | None = None) -> FollowedList | None:
        """Return a list."""
        doc = self._lists.get(user_id, session).find_one(
            {"_id": list_id, "user_id": user_id}, session=session
        )
        return _read(doc) if doc else None

    @translate_errors
    def add(self, new: FollowedList) -> FollowedList:
        """Store a list; its id is assigned here.

        Raises:
            ExistsError: the user follows this address already.
        """
        while True:
            doc = {**_write(new), "_id": Int64(self._lists.reserve_id()), "user_id": Int64(new.user_id)}
            try:
                self._lists.get(new.user_id).insert_one(doc)
                return _read(doc)
            except DuplicateKeyError as e:
                if not is_duplicate(e, "_id"):
                    raise ExistsError("You already follow this list.", field="url") from e

    @translate_errors
    def find_due(self, now: dt.datetime, limit: int) -> list[tuple[int, int]]:
        """Return (user, list) of lists that are due, those that have waited longest first in each store."""

        def _read_cell(lists: Collection[Doc]) -> list[tuple[int, int]]:
            found = lists.find({"next_check_at": {"$lte": now}}, {"user_id": 1}, hint="due")
            return [(doc["user_id"], doc["_id"]) for doc in found.sort("next_check_at", 1).limit(limit)]

        return list(itertools.chain.from_iterable(self._lists.read_each(_read_cell)))[:limit]

    @translate_errors
    def claim(self, user_id: int, list_id: int, now: dt.datetime, until: dt.datetime) -> FollowedList | None:
        """Return a list that was due, and is postponed now; None: it isn't due, or another job has it."""
        doc = self._lists.get(user_id).find_one_and_update(
            {"_id": list_id, "user_id": user_id, "next_check_at": {"$lte": now}},
            {"$set": {"next_check_at": until}},
            return_document=ReturnDocument.AFTER,
        )
        return _read(doc) if doc else None

    @translate_errors
    def save(self, one: FollowedList, session: Session | None = None) -> bool:
        """Store a list that was read in the same transaction; return False if it was removed meanwhile."""
        done = self._lists.get(one.user_id, session).update_one(
            {"_id": one.id, "user_id": one.user_id}, {"$set": _write(one)}, session=session
        )
        return bool(done.matched_count)

    @translate_errors
    def set_due(
        self, user_id: int, list_id: int, at: dt.datetime, claimed: dt.datetime | None = None
    ) -> bool:
        """Store when a list is checked next; return whether there is one.

        Args:
            claimed: the time to which a job postponed it. If it has another meanwhile, nothing is stored.
        """
        query: Doc = {"_id": list_id, "user_id": user_id}
        if claimed:
            query["next_check_at"] = claimed
        done = self._lists.get(user_id).update_one(query, {"$set": {"next_check_at": at}})
        return bool(done.matched_count)

    @translate_errors
    def remove_gone(self, user_id: int, list_id: int, keys: Sequence[str]) -> None:
        """Forget addresses that are no longer in a list, because the user has answered."""
        self._lists.get(user_id).update_one(
            {"_id": list_id, "user_id": user_id}, {"$pullAll": {"gone": _pack(keys)}}
        )

    @translate_errors
    def remove(self, user_id: int, list_id: int) -> bool:
        """Delete a list; return whether there was one."""
        return bool(self._lists.get(user_id).delete_one({"_id": list_id, "user_id": user_id}).deleted_count)


def _pack(keys: Sequence[str]) -> list[bytes]:
    return [bytes.fromhex(key) for key in keys]


def _write(one: FollowedList) -> Doc:
    plain: dict[str, Any] = {name: getattr(one, name) for name in _PLAIN}
    keys = {"seen": _pack(sorted(one.seen)), "gone": _pack(sorted(one.gone)), "past": _pack(one.past)}
    return plain | keys


def _read(doc: Doc) -> FollowedList:
    plain = {name: doc[name] for name in _PLAIN}
    seen, gone = (frozenset(bytes(key).hex() for key in doc[name]) for name in ("seen", "gone"))
    past = tuple(bytes(key).hex() for key in doc.get("past", ()))
    return FollowedList(id=doc["_id"], user_id=doc["user_id"], seen=seen, gone=gone, past=past, **plain)
