"""Storage of users: the collection ``usage``, one document per user.

The quota is checked by the update that reserves, so that two requests never both get the last bytes.
"""

from __future__ import annotations

from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session
from app.models.media.upload import Usage

_EMPTY: Doc = {"finished": 0, "reserved": 0, "unfinished": 0, "quota": None}


class UsageMapper:
    """Document ↔ :class:`Usage`. Every change belongs to a transaction with the record that it is for."""

    def __init__(self, database: Database[Doc]) -> None:
        self._usage: Collection[Doc] = database["usage"]

    @translate_errors
    def find(self, user_id: int, session: Session | None = None) -> Usage | None:
        """Return a user's storage, None: nothing was ever stored."""
        doc = self._usage.find_one({"_id": user_id}, session=session)
        return _to_usage(doc) if doc else None

    @translate_errors
    def ensure_user(self, user_id: int) -> None:
        """Create a user's document unless it exists; outside transactions, where two would conflict."""
        self._usage.update_one({"_id": user_id}, {"$setOnInsert": _EMPTY}, upsert=True)

    @translate_errors
    def find_users(self, after: int, limit: int) -> list[int]:
        """Return the users above an id who have a document, ascending."""
        found = self._usage.find({"_id": {"$gt": after}}, {"_id": 1}).sort("_id", 1).limit(limit)
        return [doc["_id"] for doc in found]

    @translate_errors
    def reserve_bytes(self, session: Session, user_id: int, size: int, quota: int) -> bool:
        """Reserve bytes for an upload, if they fit into the user's quota.

        Args:
            quota: the server's default quota, bytes; 0: no limit.
        """
        return self._add_within(session, user_id, "reserved", size, quota)

    @translate_errors
    def add_finished(self, session: Session, user_id: int, size: int, quota: int) -> bool:
        """Count a file that came without an upload, if it fits into the quota; see :meth:`reserve_bytes`."""
        return self._add_within(session, user_id, "finished", size, quota)

    def _add_within(self, session: Session, user_id: int, field: str, size: int, quota: int) -> bool:
        limit = {"$ifNull": ["$quota", quota]}
        # A missing number would make the sum null, which is below every limit.
        counted = [{"$ifNull": [f"${name}", 0]} for name in ("finished", "reserved")]
        total = {"$add": [*counted, size]}
        query = {"_id": user_id, "$expr": {"$or": [{"$lte": [limit, 0]}, {"$lte": [total, limit]}]}}
        return self._usage.update_one(query, {"$inc": {field: size}}, session=session).matched_count > 0

    @translate_errors
    def release_reserved(self, session: Session, user_id: int, reserved: int, received: int = 0) -> None:
        """Release what an upload had reserved, and what was counted of it as unfinished."""
        change = {"$inc": {"reserved": -reserved, "unfinished": -received}}
        self._usage.update_one({"_id": user_id}, change, session=session)

    @translate_errors
    def change_unfinished(self, session: Session, user_id: int, delta: int) -> None:
        """Add to the received bytes of a user's open uploads."""
        self._usage.update_one({"_id": user_id}, {"$inc": {"unfinished": delta}}, session=session)

    @translate_errors
    def change_finished(self, session: Session, user_id: int, delta: int) -> None:
        """Add to the size of a user's files, or take from it."""
        rest = {name: value for name, value in _EMPTY.items() if name != "finished"}
        change = {"$inc": {"finished": delta}, "$setOnInsert": rest}
        self._usage.update_one({"_id": user_id}, change, upsert=True, session=session)

    @translate_errors
    def replace_counts(self, session: Session, user_id: int, counted: Usage) -> None:
        """Store counts that were counted again in this transaction; the quota stays."""
        change = {
            "finished": counted.finished,
            "reserved": counted.reserved,
            "unfinished": counted.unfinished,
        }
        self._usage.update_one({"_id": user_id}, {"$set": change}, session=session)

    @translate_errors
    def set_quota(self, user_id: int, quota: int | None) -> None:
        """Set a user's own quota, bytes; 0: no limit; None: the server's default."""
        rest = {name: value for name, value in _EMPTY.items() if name != "quota"}
        change = {"$set": {"quota": quota}, "$setOnInsert": rest}
        self._usage.update_one({"_id": user_id}, change, upsert=True)

    @translate_errors
    def remove(self, user_id: int) -> None:
        """Delete a user's document, after all their files."""
        self._usage.delete_one({"_id": user_id})


def _to_usage(doc: Doc) -> Usage:
    values = {name: int(doc.get(name) or 0) for name in ("finished", "reserved", "unfinished")}
    quota = doc.get("quota")
    return Usage(**values, quota=None if quota is None else int(quota))
