"""Users: the collection ``users``.

Names are unique regardless of case: ``name_key`` holds the folded name. Vouched-for email addresses are
unique too: only their documents have an ``email_key``, and only these addresses can log in. Other addresses
are unverified, and several accounts may have the same one, so nobody learns from them who has an account
(W07).

``former`` holds earlier names of the account: ``{key, until}``. Until then no other account can take them.

``avatar`` is the id of the blob of their picture.

``first`` is true in at most one document, through a unique sparse index: of any number of parallel first
sign-ups exactly one becomes admin (W21).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bson.binary import Binary
from pymongo import ASCENDING
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app import clock
from app.errors import N_, ExistsError
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.page_saves import match_current, note_save
from app.mappers.mongo.store import BATCH, Doc, Session
from app.models.accounts.actor import Role
from app.models.accounts.page_save import PageSave
from app.models.accounts.preferences import Preferences
from app.models.accounts.user import Credentials, NewUser, User
from app.runtime import identity_map

#: The fields of an account that others see; a disabled account shows nothing.
SIGNATURE = {"name": 1, "disabled": 1, "avatar": 1}
_NAME_TAKEN = N_("This user name is taken. Choose another one.")
_EMAIL_TAKEN = N_("Another account uses this email address. Enter a different one.")


def make_name_key(text: str) -> str:
    """Return the form in which names and addresses are compared."""
    return text.strip().casefold()


def build_leaving_condition(before: dt.datetime) -> Doc:
    """Return the condition on ``leaving`` for accounts whose deletion began before a time."""
    return {"$exists": True, "$not": {"$gte": before}}


class UserMapper:
    """Document ↔ :class:`User`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._users: Collection[Doc] = database["users"]

    @translate_errors
    def ensure_indexes(self) -> None:
        """Create the indexes; safe to call again."""
        self._users.create_index([("email_key", ASCENDING)], unique=True, sparse=True, name="vouched")
        self._users.create_index([("name_key", ASCENDING)], unique=True, name="name")
        self._users.create_index([("first", ASCENDING)], unique=True, sparse=True, name="first")
        # To find the owner of a former name.
        self._users.create_index([("former.key", ASCENDING)], sparse=True, name="former")
        # For the updater, which looks for accounts to delete.
        self._users.create_index([("leaving", ASCENDING)], sparse=True, name="leaving")

    @translate_errors
    def has_users(self) -> bool:
        """Return whether there is any user."""
        return self._users.find_one({}, {"_id": 1}) is not None

    @translate_errors
    def add(self, new: NewUser, role: Role, *, first: bool = False, vouched: bool = False) -> User | None:
        """Store a new user.

        Args:
            first: store the user only if there is no first user yet.
            vouched: the email address is vouched for.

        Returns:
            The user; None: ``first`` is True, but another user was first.

        Raises:
            ExistsError: the name is taken or reserved, or another account has this address as vouched for.
        """
        now = clock.now()
        doc: Doc = {
            "_id": int(now.timestamp() * 1_000_000),
            "email": new.email.strip(),
            "name": new.name.strip(),
            "name_key": make_name_key(new.name),
            "password": new.password_hash,
            "role": role.value,
            "created": now,
        }
        if first:
            doc["first"] = True
        if vouched:
            doc["email_key"] = make_name_key(new.email)
        user = self._insert(doc)
        # Checked after the insert: an account that gave up the name earlier lists it as a former name.
        if user is not None and self._kept(doc["name_key"], user.id, now):
            self._users.delete_one({"_id": user.id})
            raise ExistsError(_NAME_TAKEN, field="name")
        return user

    def _kept(self, key: str, user_id: int, now: dt.datetime, session: Session | None = None) -> bool:
        """Return whether a name is reserved for another account that had it."""
        return (
            self._users.find_one({**_had(key, now), "_id": {"$ne": user_id}}, {"_id": 1}, session=session)
            is not None
        )

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
                    name = "name_key" in pattern
                    taken = _NAME_TAKEN if name else _EMAIL_TAKEN
                    raise ExistsError(taken, field="name" if name else "email") from e
            else:
                return parse_user(doc)

    @translate_errors
    def find(self, user_id: int) -> User | None:
        """Return a user by id; accounts being deleted aren't found."""

        def _fetch() -> Doc | None:
            version = identity_map.get_version("users")
            found = self._users.find_one({"_id": user_id, "leaving": None}, {"password": 0})
            keep_user(version, user_id, found)
            return found

        doc = identity_map.find_once("users", "user", user_id, _fetch)
        return parse_user(doc) if doc else None

    @translate_errors
    def is_enabled(self, user_id: int) -> bool:
        """Return whether an account can be used now, even if this request has read it before."""
        query = {"_id": user_id, "leaving": None, "disabled": {"$ne": True}}
        return self._users.find_one(query, {"_id": 1}) is not None

    @translate_errors
    def find_by_name(self, name: str) -> int | None:
        """Return the id of the user with this name; accounts being deleted aren't found."""
        doc = self._users.find_one({"name_key": make_name_key(name), "leaving": None}, {"_id": 1})
        return doc["_id"] if doc else None

    @translate_errors
    def find_by_former_name(self, name: str, now: dt.datetime) -> int | None:
        """Return the user who had this name while it's reserved; accounts being deleted aren't found."""
        doc = self._users.find_one({**_had(make_name_key(name), now), "leaving": None}, {"_id": 1})
        return doc["_id"] if doc else None

    @translate_errors
    def filter_names_of(self, user_id: int, names: Iterable[str], now: dt.datetime) -> set[str]:
        """Return which of these names lead to a user; none leads to an account being deleted."""
        fields = {"name_key": 1, "former": 1}
        doc = self._users.find_one({"_id": user_id, "leaving": None}, fields) or {}
        keys = {doc.get("name_key"), *(f["key"] for f in doc.get("former", ()) if f["until"] > now)}
        return {name for name in names if make_name_key(name) in keys}

    @translate_errors
    def find_names(self, user_ids: Sequence[int]) -> dict[int, str]:
        """Return names by user id; accounts being deleted are left out."""
        return {user_id: doc["name"] for user_id, doc in find_signatures(self._users, user_ids).items()}

    @translate_errors
    def find_creation_times(self, user_ids: Sequence[int]) -> dict[int, dt.datetime]:
        """Return when these accounts were created, by user id."""
        found = self._users.find({"_id": {"$in": list(user_ids)}}, {"created": 1})
        return {doc["_id"]: doc["created"] for doc in found}

    @translate_errors
    def find_credentials(self, login: str) -> Credentials | None:
        """Return the user with this name or vouched-for email address, and the password hash.

        Accounts being deleted aren't found.
        """
        key = make_name_key(login)
        doc = self._users.find_one({"email_key" if "@" in key else "name_key": key, "leaving": None})
        return Credentials(parse_user(doc), doc["password"]) if doc else None

    @translate_errors
    def find_password_hash(self, user_id: int) -> str | None:
        """Return the password hash of a user."""
        doc = self._users.find_one({"_id": user_id}, {"password": 1})
        return str(doc["password"]) if doc else None

    @translate_errors
    def set_password(self, user_id: int, password_hash: str, old_hash: str | None = None) -> None:
        """Replace the password hash; with ``old_hash``, only if it's still the stored one."""
        query: Doc = {"_id": user_id} if old_hash is None else {"_id": user_id, "password": old_hash}
        self._users.update_one(query, {"$set": {"password": password_hash}})

    @translate_errors
    def set_identity(
        self, user_id: int, name: str, email: str, *, keep_for: dt.timedelta, limit: int, session: Session
    ) -> None:
        """Replace the name and email address. The new address isn't vouched for, so it can't log in (W07).

        Args:
            keep_for: how long the old name stays reserved for the user.
            limit: the most names that are reserved.

        Raises:
            ExistsError: the name is taken or reserved for its former owner; the transaction has ended.
        """
        now, key = clock.now(), make_name_key(name)
        fields = {"email": 1, "name_key": 1, "former": 1}
        doc = self._users.find_one({"_id": user_id}, fields, session=session) or {}
        former = [f for f in doc.get("former", ()) if f["until"] > now and f["key"] != key]
        if doc.get("name_key", key) != key:
            former.append({"key": doc["name_key"], "until": now + keep_for})
        said: Doc = {"name": name.strip(), "name_key": key, "email": email.strip()}
        update: Doc = {"$set": said}
        gone = {"email_key": ""} if make_name_key(email) != make_name_key(doc.get("email", "")) else {}
        if kept := former[max(len(former) - limit, 0) :]:
            said["former"] = kept
        else:
            gone["former"] = ""
        if gone:
            update["$unset"] = gone
        try:
            self._users.update_one({"_id": user_id}, update, session=session)
        except DuplicateKeyError as e:
            raise ExistsError(_NAME_TAKEN, field="name") from e
        if self._kept(key, user_id, now, session):
            raise ExistsError(_NAME_TAKEN, field="name")

    @translate_errors
    def confirm_email(self, user_id: int, email: str) -> bool:
        """Let an email address log in; return whether the account exists and still has this address.

        Raises:
            ExistsError: another account has this address as vouched for.
        """
        query = {"_id": user_id, "email": email, "leaving": None}
        try:
            done = self._users.update_one(query, {"$set": {"email_key": make_name_key(email)}})
        except DuplicateKeyError as e:
            raise ExistsError(_EMAIL_TAKEN, field="email") from e
        return bool(done.matched_count)

    @translate_errors
    def set_preferences(self, user_id: int, changes: Mapping[str, Any], save: PageSave | None = None) -> bool:
        """Store the checked preferences in ``changes``; the others stay.

        Returns:
            False if nothing was written, because a later save of the same page came first.
        """
        stored = {f"settings.{n}": dict(v) if isinstance(v, Mapping) else v for n, v in changes.items()}
        literals = {name: {"$literal": value} for name, value in stored.items()}
        update = [{"$set": {**literals, **note_save(save)}}]
        return bool(self._users.update_one({"_id": user_id, **match_current(save)}, update).matched_count)

    @translate_errors
    def add_media_site(self, user_id: int, site: str, limit: int) -> None:
        """Add a site to those whose recordings play without a question, as the last; keep ``limit`` sites.

        One update, because two tabs may allow different sites at once.
        """
        self._append_setting(user_id, "media_sites", site, limit)

    def _append_setting(self, user_id: int, name: str, value: Any, limit: int) -> None:
        known: Doc = {"$ifNull": [f"$settings.{name}", []]}
        others = {"$filter": {"input": known, "cond": {"$ne": ["$$this", {"$literal": value}]}}}
        values = {"$slice": [{"$concatArrays": [others, [{"$literal": value}]]}, -limit]}
        self._users.update_one({"_id": user_id}, [{"$set": {f"settings.{name}": values}}])

    @translate_errors
    def add_story_apart(self, user_id: int, story_id: int, limit: int) -> None:
        """Add a story to those whose copies stay apart, as :meth:`add_media_site` adds a site."""
        self._append_setting(user_id, "stories_apart", story_id, limit)

    @translate_errors
    def remove_story_apart(self, user_id: int, story_id: int, since: int) -> None:
        """Remove a story from those whose copies stay apart; ``since``: the new ``stories_since``."""
        update = {
            "$pull": {"settings.stories_apart": story_id},
            "$set": {"settings.stories_since": since},
        }
        self._users.update_one({"_id": user_id, "settings.stories_apart": story_id}, update)

    @translate_errors
    def add_story_hidden(self, user_id: int, story_id: int, limit: int) -> None:
        """Add a story to those that are hidden, as :meth:`add_media_site` adds a site."""
        self._append_setting(user_id, "stories_hidden", story_id, limit)

    @translate_errors
    def remove_story_hidden(self, user_id: int, story_id: int) -> None:
        """Remove a story from those that are hidden."""
        self._users.update_one({"_id": user_id}, {"$pull": {"settings.stories_hidden": story_id}})

    @translate_errors
    def remove_media_site(self, user_id: int, site: str) -> None:
        """Ask again before a recording of this site plays."""
        self._users.update_one({"_id": user_id}, {"$pull": {"settings.media_sites": site}})

    @translate_errors
    def set_social(self, user_id: int) -> None:
        """Record that a user follows people."""
        self._users.update_one({"_id": user_id, "social": None}, {"$set": {"social": True}})

    @translate_errors
    def set_synced(self, user_id: int) -> None:
        """Record that a user reads with apps that sync."""
        self._users.update_one({"_id": user_id, "synced": None}, {"$set": {"synced": True}})

    @translate_errors
    def set_avatar(self, user_id: int, blob_id: bytes | None, session: Session) -> bool:
        """Store which blob is a user's avatar, None: none; return False if there is no such account."""
        change = {"$set": {"avatar": Binary(blob_id)}} if blob_id else {"$unset": {"avatar": ""}}
        query = {"_id": user_id, "leaving": None}
        return self._users.update_one(query, change, session=session).matched_count > 0


def keep_user(version: int, user_id: int, doc: Doc | None) -> None:
    """Keep a user document that was just read, so that this request finds it by id and name."""
    identity_map.keep_values("users", version, "user", {user_id: doc})
    keep_signatures(version, {user_id: doc})


def keep_signatures(version: int, docs: Mapping[int, Doc | None]) -> None:
    """Keep :data:`SIGNATURE` fields that were just read, so that this request finds them by id and name."""
    identity_map.keep_values("users", version, "signature", docs)
    names = {make_name_key(doc["name"]): i for i, doc in docs.items() if doc is not None}
    identity_map.keep_values("users", version, "name", names)


@translate_errors
def find_signatures(users: Collection[Doc], user_ids: Iterable[int]) -> dict[int, Doc]:
    """Return the :data:`SIGNATURE` of accounts, by id; accounts being deleted aren't found."""

    def _fetch(missing: Sequence[int]) -> dict[int, Doc]:
        query = {"_id": {"$in": list(missing)}, "leaving": None}
        return {doc["_id"]: doc for doc in users.find(query, SIGNATURE, batch_size=BATCH)}

    return identity_map.find_each("users", "signature", user_ids, _fetch)


def _had(key: str, now: dt.datetime) -> Doc:
    """Return the condition for accounts that have a name reserved as a former one."""
    return {"former": {"$elemMatch": {"key": key, "until": {"$gt": now}}}}


def parse_user(doc: Doc) -> User:
    """Return the user in a document."""
    return User(
        id=doc["_id"],
        email=doc["email"],
        name=doc["name"],
        role=Role(doc["role"]),
        created=doc["created"],
        disabled=bool(doc.get("disabled")),
        preferences=Preferences.from_stored(doc.get("settings") or {}),
        social=bool(doc.get("social")),
        synced=bool(doc.get("synced")),
        avatar=doc.get("avatar"),
        confirmed="email_key" in doc,
    )
