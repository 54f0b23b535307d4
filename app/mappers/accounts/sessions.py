"""Sessions: the collection ``sessions``, keyed by the SHA-256 of the id in the cookie (W01).

A push device is deleted together with its session: after logging out on a shared computer, a person's
notifications no longer appear there.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from bson.binary import Binary
from pymongo import ASCENDING, DESCENDING
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.accounts.users import keep_user, parse_user
from app.mappers.mongo.errors import translate_errors
from app.models.accounts.user import Notice, Session, User
from app.runtime import identity_map

Doc = dict[str, Any]


class SessionMapper:
    """Document ↔ :class:`Session`. ``expires`` is the earlier of the idle and the absolute end."""

    def __init__(self, database: Database[Doc]) -> None:
        self._sessions: Collection[Doc] = database["sessions"]
        self._devices: Collection[Doc] = database["devices"]

    @translate_errors
    def ensure_indexes(self) -> None:
        """Create the indexes; safe to call again."""
        self._sessions.create_index([("user_id", ASCENDING), ("seen", DESCENDING)], name="user")
        # MongoDB removes expired sessions; reads don't rely on that and check the times.
        self._sessions.create_index([("expires", ASCENDING)], expireAfterSeconds=0, name="expires")

    @translate_errors
    def add(self, session: Session, expires: dt.datetime) -> None:
        """Store a new session."""
        self._sessions.insert_one(
            {
                "_id": Binary(session.key),
                "user_id": session.user_id,
                "created": session.created,
                "seen": session.seen,
                "expires": expires,
                "agent": session.agent,
                "address": session.address,
            }
        )

    @translate_errors
    def find(self, key: bytes) -> Session | None:
        """Return a session by its key, even if it has ended."""
        doc = self._sessions.find_one({"_id": Binary(key)})
        return _session(doc) if doc else None

    @translate_errors
    def find_with_user(self, key: bytes) -> tuple[Session, User | None] | None:
        """Return a session by its key, even an expired one, with its user unless that account is closing."""
        version = identity_map.get_version("users")
        user: Doc = {"from": "users", "localField": "user_id", "foreignField": "_id", "as": "user"}
        user["pipeline"] = [{"$match": {"leaving": None}}, {"$project": {"password": 0}}]
        doc = next(self._sessions.aggregate([{"$match": {"_id": Binary(key)}}, {"$lookup": user}]), None)
        if doc is None:
            return None
        found = next(iter(doc["user"]), None)
        keep_user(version, doc["user_id"], found)
        return _session(doc), parse_user(found) if found else None

    @translate_errors
    def touch(self, key: bytes, seen: dt.datetime, expires: dt.datetime) -> None:
        """Record a use of a session."""
        self._sessions.update_one({"_id": Binary(key)}, {"$set": {"seen": seen, "expires": expires}})

    @translate_errors
    def set_proved(self, key: bytes, now: dt.datetime) -> None:
        """Record that the user entered their password (W11)."""
        self._sessions.update_one({"_id": Binary(key)}, {"$set": {"proved": now}})

    @translate_errors
    def add_notice(self, key: bytes, notice: Notice) -> None:
        """Store a message for the next page; only the last five are kept."""
        doc = {"text": notice.text, "undo": notice.undo, "kind": notice.kind}
        self._sessions.update_one(
            {"_id": Binary(key)}, {"$push": {"notices": {"$each": [doc], "$slice": -5}}}
        )

    @translate_errors
    def clear_notices(self, key: bytes) -> None:
        """Delete the messages that a page has shown."""
        self._sessions.update_one({"_id": Binary(key)}, {"$unset": {"notices": ""}})

    @translate_errors
    def find_by_user(self, user_id: int) -> list[Session]:
        """Return a user's sessions, most recently used first."""
        return [_session(d) for d in self._sessions.find({"user_id": user_id}).sort("seen", DESCENDING)]

    @translate_errors
    def remove(self, key: bytes) -> None:
        """End one session."""
        self._devices.delete_many({"session": Binary(key)})
        self._sessions.delete_one({"_id": Binary(key)})

    @translate_errors
    def remove_by_user(
        self, user_id: int, *, except_key: bytes | None = None, prefix: bytes | None = None
    ) -> int:
        """End a user's sessions, except ``except_key``, or only those with a key prefix; return how many."""
        keys: Doc = {}
        if except_key is not None:
            keys["$ne"] = Binary(except_key)
        if prefix is not None:
            keys = {"$gte": Binary(prefix.ljust(32, b"\x00")), "$lte": Binary(prefix.ljust(32, b"\xff"))}
        self._devices.delete_many({"user_id": user_id, **({"session": keys} if keys else {})})
        query = {"user_id": user_id, **({"_id": keys} if keys else {})}
        return self._sessions.delete_many(query).deleted_count


def _session(doc: Doc) -> Session:
    notices = tuple(Notice(n["text"], n.get("undo"), n.get("kind", "info")) for n in doc.get("notices", ()))
    return Session(
        key=bytes(doc["_id"]),
        user_id=doc["user_id"],
        created=doc["created"],
        seen=doc["seen"],
        agent=doc.get("agent", ""),
        address=doc.get("address", ""),
        notices=notices,
        proved=doc.get("proved"),
    )
