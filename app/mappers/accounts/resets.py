"""Password reset links: the collection ``resets``, keyed by the SHA-256 of the token (W23)."""

from __future__ import annotations

import datetime as dt
from typing import Any

from bson.binary import Binary
from pymongo import ASCENDING
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors

Doc = dict[str, Any]


class ResetMapper:
    """Stores reset links by key; a used link is deleted."""

    def __init__(self, database: Database[Doc]) -> None:
        self._resets: Collection[Doc] = database["resets"]

    @translate_errors
    def ensure_indexes(self) -> None:
        """Create the indexes; safe to call again."""
        self._resets.create_index([("expires", ASCENDING)], expireAfterSeconds=0, name="expires")
        self._resets.create_index([("user_id", ASCENDING)], name="user")

    @translate_errors
    def add(self, key: bytes, user_id: int, expires: dt.datetime) -> None:
        """Store a new link; older links of the same account are deleted."""
        self.revoke_all(user_id)
        self._resets.insert_one({"_id": Binary(key), "user_id": user_id, "expires": expires})

    @translate_errors
    def revoke_all(self, user_id: int) -> None:
        """Delete all links of an account."""
        self._resets.delete_many({"user_id": user_id})

    @translate_errors
    def find_user_id(self, key: bytes, now: dt.datetime) -> int | None:
        """Return the owner of a link; None: the link is unknown, expired or used."""
        doc = self._resets.find_one({"_id": Binary(key), "expires": {"$gt": now}})
        return int(doc["user_id"]) if doc else None

    @translate_errors
    def consume(self, key: bytes, now: dt.datetime) -> int | None:
        """Consume a link and return its owner, in one atomic step; None as in :meth:`find_user_id`."""
        doc = self._resets.find_one_and_delete({"_id": Binary(key), "expires": {"$gt": now}})
        return int(doc["user_id"]) if doc else None
