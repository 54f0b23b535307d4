"""Invites: the collection ``invites``, keyed by the SHA-256 of the token; each is valid once."""

from __future__ import annotations

import datetime as dt
from typing import Any

from bson.binary import Binary
from pymongo import ASCENDING, DESCENDING
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors

Doc = dict[str, Any]


class InviteMapper:
    """Stores invites by key; a used invite stays until it expires, so that its key isn't reused."""

    def __init__(self, database: Database[Doc]) -> None:
        self._invites: Collection[Doc] = database["invites"]

    @translate_errors
    def ensure_indexes(self) -> None:
        """Create the indexes; safe to call again."""
        self._invites.create_index([("expires", ASCENDING)], expireAfterSeconds=0, name="expires")

    @translate_errors
    def add(self, key: bytes, by: int, expires: dt.datetime) -> None:
        """Store a new invite."""
        self._invites.insert_one({"_id": Binary(key), "by": by, "expires": expires, "used": None})

    @translate_errors
    def consume(self, key: bytes, now: dt.datetime) -> bool:
        """Consume an invite; return False if it's unknown, expired or used. One atomic step: W21."""
        query = {"_id": Binary(key), "used": None, "expires": {"$gt": now}}
        return self._invites.update_one(query, {"$set": {"used": now}}).modified_count == 1

    @translate_errors
    def restore(self, key: bytes) -> None:
        """Make a consumed invite valid again, after its sign-up failed for another reason."""
        self._invites.update_one({"_id": Binary(key)}, {"$set": {"used": None}})

    @translate_errors
    def list_invites(self, limit: int) -> list[tuple[bytes, int, dt.datetime, dt.datetime | None]]:
        """Return the key, creator, expiry and time of use of invites, newest first."""
        found = self._invites.find().sort("expires", DESCENDING).limit(limit)
        return [(bytes(d["_id"]), d["by"], d["expires"], d["used"]) for d in found]

    @translate_errors
    def revoke(self, prefix: bytes) -> bool:
        """Remove the unused invite whose key starts with ``prefix``; return False if there is none."""
        first, last = (Binary(prefix.ljust(32, filler)) for filler in (b"\x00", b"\xff"))
        query = {"_id": {"$gte": first, "$lte": last}, "used": None}
        return self._invites.delete_one(query).deleted_count == 1
