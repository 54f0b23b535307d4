"""Users: the collection ``users``.

Names and addresses are unique whatever their case: ``name_key`` and ``email_key`` hold them folded.
``first`` is true on one document at most, by a unique sparse index: of any number of parallel first
sign-ups exactly one becomes admin (W21).
"""

from __future__ import annotations

from typing import Any

from pymongo import ASCENDING
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app import clock
from app.errors import ExistsError
from app.mappers.errors import translated
from app.models.actor import Role
from app.models.user import Credentials, NewUser, User

Doc = dict[str, Any]


def fold(text: str) -> str:
    """Return the form in which names and addresses are compared."""
    return text.strip().casefold()


class UserMapper:
    """Document ↔ :class:`User`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._users: Collection[Doc] = database["users"]

    @translated
    def ensure_indexes(self) -> None:
        """Create the indexes; safe to call again."""
        self._users.create_index([("email_key", ASCENDING)], unique=True, name="email")
        self._users.create_index([("name_key", ASCENDING)], unique=True, name="name")
        self._users.create_index([("first", ASCENDING)], unique=True, sparse=True, name="first")

    @translated
    def any(self) -> bool:
        """Return whether there is a user at all."""
        return self._users.find_one({}, {"_id": 1}) is not None

    @translated
    def add(self, new: NewUser, role: Role, *, first: bool = False) -> User | None:
        """Store a new user.

        Returns:
            The user, or None when ``first`` was asked for and somebody else was first.

        Raises:
            ExistsError: name or address is taken; the message does not tell which (W07).
        """
        now = clock.now()
        doc: Doc = {
            "_id": int(now.timestamp() * 1_000_000),
            "email": new.email.strip(),
            "email_key": fold(new.email),
            "name": new.name.strip(),
            "name_key": fold(new.name),
            "password": new.password_hash,
            "role": role.value,
            "created": now,
        }
        if first:
            doc["first"] = True
        return self._insert(doc)

    def _insert(self, doc: Doc) -> User | None:
        while True:
            try:
                self._users.insert_one(doc)
            except DuplicateKeyError as e:
                pattern = (e.details or {}).get("keyPattern", {})
                if "_id" in pattern:
                    doc["_id"] += 1
                elif "first" in pattern:
                    return None
                else:
                    raise ExistsError(
                        "This name or e-mail address cannot be used.", field=next(iter(pattern), "")
                    ) from e
            else:
                return _user(doc)

    @translated
    def get(self, user_id: int) -> User | None:
        """Return a user by id."""
        doc = self._users.find_one({"_id": user_id}, {"password": 0})
        return _user(doc) if doc else None

    @translated
    def credentials(self, login: str) -> Credentials | None:
        """Return the user with this name or e-mail address, and his password hash."""
        key = fold(login)
        doc = self._users.find_one({"email_key": key} if "@" in key else {"name_key": key})
        return Credentials(_user(doc), doc["password"]) if doc else None

    @translated
    def password_of(self, user_id: int) -> str | None:
        """Return the password hash of a user."""
        doc = self._users.find_one({"_id": user_id}, {"password": 1})
        return str(doc["password"]) if doc else None

    @translated
    def set_password(self, user_id: int, password_hash: str) -> None:
        """Replace the password hash."""
        self._users.update_one({"_id": user_id}, {"$set": {"password": password_hash}})

    @translated
    def set_disabled(self, user_id: int, disabled: bool) -> None:
        """Close or open an account; its sessions end at their next request."""
        self._users.update_one({"_id": user_id}, {"$set": {"disabled": disabled}})


def _user(doc: Doc) -> User:
    return User(
        id=doc["_id"],
        email=doc["email"],
        name=doc["name"],
        role=Role(doc["role"]),
        created=doc["created"],
        disabled=bool(doc.get("disabled")),
    )
