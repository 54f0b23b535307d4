"""Profiles: the collection ``profiles``, one per person who shares, and relationships: the collection
``ties``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.mappers.accounts.users import make_name_key
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import BATCH, Doc, Session
from app.models.discussion.comments import PersonSummary
from app.models.sharing.sharing import Audience, Profile, RelationshipKind

#: The fields of accounts that profiles use.
_OF_USER = {"name": 1, "disabled": 1}


class ProfileMapper:
    """Document ↔ :class:`Profile`. Names are read from the accounts, so that they are stored once."""

    def __init__(self, database: Database[Doc]) -> None:
        self._profiles: Collection[Doc] = database["profiles"]
        self._users: Collection[Doc] = database["users"]

    @translate_errors
    def add(
        self, user_id: int, feed_id: int, private_feed_id: int, audience: Audience, now: dt.datetime
    ) -> None:
        """Store a profile, unless the person already has one."""
        doc = {
            "user_id": Int64(user_id),
            "feed_id": Int64(feed_id),
            "closet_id": Int64(private_feed_id),
            "audience": audience.value,
            "created": now,
        }
        try:
            self._profiles.insert_one(doc)
        except DuplicateKeyError:
            return

    @translate_errors
    def find(self, user_id: int) -> Profile | None:
        """Return a person's profile; None: there is none, or the account is being deleted."""
        return self.find_many([user_id]).get(user_id)

    @translate_errors
    def find_many(self, user_ids: Sequence[int], session: Session | None = None) -> dict[int, Profile]:
        """Return the profiles of these people by user id, without accounts being deleted."""
        who = {"user_id": {"$in": list(user_ids)}}
        docs = list(self._profiles.find(who, session=session, batch_size=BATCH))
        query = {"_id": {"$in": [d["user_id"] for d in docs]}, "leaving": None}
        found = self._users.find(query, _OF_USER, session=session, batch_size=BATCH) if docs else ()
        users = {u["_id"]: u for u in found}
        return {
            doc["user_id"]: _profile(doc, users[doc["user_id"]]) for doc in docs if doc["user_id"] in users
        }

    @translate_errors
    def find_by_name(self, handle: str) -> Profile | None:
        """Return the profile of the person with this name, in any case."""
        user = self._users.find_one({"name_key": make_name_key(handle), "leaving": None}, _OF_USER)
        doc = self._profiles.find_one({"user_id": user["_id"]}) if user else None
        return _profile(doc, user) if doc and user else None

    @translate_errors
    def find_owner(self, feed_id: int) -> int | None:
        """Return the id of the person whose stream a feed is, or None."""
        doc = self._profiles.find_one({"feed_id": feed_id}, {"user_id": 1})
        return doc["user_id"] if doc else None

    @translate_errors
    def find_discoverable(self, limit: int) -> list[int]:
        """Return people who opted in to be found by similar readers, latest first."""
        found = self._profiles.find({"similar": True}, {"user_id": 1}).sort("_id", -1)
        return [d["user_id"] for d in found.hint("similar").limit(limit)]

    @translate_errors
    def find_owners(self, feed_ids: Sequence[int]) -> dict[int, int]:
        """Return the ids of the people whose streams these feeds are, by feed; other feeds are left out."""
        found = self._profiles.find({"feed_id": {"$in": list(feed_ids)}}, {"feed_id": 1, "user_id": 1})
        return {d["feed_id"]: d["user_id"] for d in found}

    @translate_errors
    def find_suspended(self, limit: int) -> list[int]:
        """Return the ids of suspended people, latest profiles first."""
        found = self._profiles.find({"hidden": True}, {"user_id": 1}).sort("_id", -1).limit(limit)
        return [d["user_id"] for d in found.hint("hidden")]

    @translate_errors
    def find_summaries(self, user_ids: Sequence[int]) -> dict[int, PersonSummary]:
        """Return the names and pages of people, without those suspended, closed or being deleted."""
        query = {"_id": {"$in": list(user_ids)}, "leaving": None, "disabled": {"$ne": True}}
        found = self._users.find(query, {"name": 1}, batch_size=BATCH) if user_ids else ()
        names = {u["_id"]: u["name"] for u in found}
        who = {"user_id": {"$in": list(names)}}
        docs = {d["user_id"]: d for d in self._profiles.find(who, batch_size=BATCH)} if names else {}
        return {
            i: _face(i, name, docs.get(i)) for i, name in names.items() if not docs.get(i, {}).get("hidden")
        }

    @translate_errors
    def find_ids_by_name(self, handles: Sequence[str]) -> dict[str, int]:
        """Return the ids of the people with these names, in any case, by name key."""
        query = {"name_key": {"$in": list({make_name_key(h) for h in handles})}, "leaving": None}
        return {u["name_key"]: u["_id"] for u in self._users.find(query, {"name_key": 1})}

    @translate_errors
    def update(self, user_id: int, changes: Mapping[str, Any], session: Session | None = None) -> None:
        """Store checked changes of a profile."""
        self._profiles.update_one({"user_id": user_id}, {"$set": dict(changes)}, session=session)


class RelationshipMapper:
    """Stores requests, mutes and blocks: ``{user_id, kind, to, at}``."""

    def __init__(self, database: Database[Doc]) -> None:
        self._ties: Collection[Doc] = database["ties"]

    @translate_errors
    def add(
        self, user_id: int, kind: RelationshipKind, to: int, now: dt.datetime, session: Session | None = None
    ) -> bool:
        """Store a relationship to another person; return False if it already exists."""
        key = {"user_id": Int64(user_id), "kind": kind.value, "to": Int64(to)}
        done = self._ties.update_one(key, {"$setOnInsert": {"at": now}}, upsert=True, session=session)
        return done.upserted_id is not None

    @translate_errors
    def remove(self, user_id: int, kind: RelationshipKind, to: int, session: Session | None = None) -> bool:
        """Delete a relationship; return False if there is none."""
        key = {"user_id": user_id, "kind": kind.value, "to": to}
        return bool(self._ties.delete_one(key, session=session).deleted_count)

    @translate_errors
    def find_between(self, user_id: int, other_ids: Sequence[int]) -> set[tuple[int, RelationshipKind, int]]:
        """Return (user id, kind, target id) of relationships with the other people, in both directions."""
        ids = list(other_ids)
        query = {"$or": [{"user_id": user_id, "to": {"$in": ids}}, {"user_id": {"$in": ids}, "to": user_id}]}
        return {(d["user_id"], RelationshipKind(d["kind"]), d["to"]) for d in self._ties.find(query)}

    @translate_errors
    def find_targets(self, user_id: int, kind: RelationshipKind, limit: int) -> list[int]:
        """Return the targets of a user's relationships of this kind, latest first."""
        found = self._ties.find({"user_id": user_id, "kind": kind.value}, {"to": 1}).sort("_id", -1)
        return [d["to"] for d in found.limit(limit)]

    @translate_errors
    def find_initiators(self, to: int, kind: RelationshipKind, limit: int) -> list[int]:
        """Return the users with a relationship of this kind to a person, latest first."""
        found = self._ties.find({"to": to, "kind": kind.value}, {"user_id": 1}).sort("_id", -1)
        return [d["user_id"] for d in found.hint("to_kind").limit(limit)]


def _face(user_id: int, handle: str, doc: Doc | None) -> PersonSummary:
    if doc is None:
        return PersonSummary(user_id, handle, handle)
    page = doc["audience"] != Audience.PRIVATE.value
    return PersonSummary(user_id, handle, doc.get("display") or handle, page)


def _profile(doc: Doc, user: Doc) -> Profile:
    return Profile(
        user_id=doc["user_id"],
        feed_id=doc["feed_id"],
        private_feed_id=doc["closet_id"],
        handle=user["name"],
        display=doc.get("display", ""),
        bio=doc.get("bio", ""),
        links=tuple(doc.get("links", ())),
        audience=Audience(doc["audience"]),
        hidden=doc.get("hidden", False) or user.get("disabled", False),
        listed=doc.get("listed", False),
        open_lists=doc.get("open_lists", False),
        similar=doc.get("similar", False),
    )
