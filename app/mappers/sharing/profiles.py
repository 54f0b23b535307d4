"""Profiles: the collection ``profiles``, one per person who shares, and relationships: the collection
``ties``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bson import ObjectId
from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.mappers.accounts.users import SIGNATURE, keep_signatures, make_name_key
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import BATCH, Doc, Part, Session, run_parts
from app.models.accounts.user import get_avatar_version
from app.models.discussion.comments import PersonSummary
from app.models.sharing.sharing import Audience, FollowDecision, Profile, RelationshipKind
from app.runtime import identity_map

#: Relationships of one user that are read in a single query; users with more are queried pair by pair.
TIES_MAX = 200


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
    def find(self, user_id: int, *, fresh: bool = False) -> Profile | None:
        """Return a person's profile; None: there is none, or the account is being deleted.

        Args:
            fresh: whether to read it again, even if this request has read it before.
        """
        return self._find_current(user_id) if fresh else self.find_many([user_id]).get(user_id)

    def _find_current(self, user_id: int) -> Profile | None:
        account: Doc = {"from": "users", "localField": "user_id", "foreignField": "_id", "as": "user"}
        account["pipeline"] = [{"$match": {"leaving": None}}, {"$project": SIGNATURE}]
        pipeline: list[Doc] = [{"$match": {"user_id": user_id}}, {"$lookup": account}, {"$unwind": "$user"}]
        return next((_profile(doc, doc["user"]) for doc in self._profiles.aggregate(pipeline)), None)

    @translate_errors
    def find_many(self, user_ids: Sequence[int], session: Session | None = None) -> dict[int, Profile]:
        """Return the profiles of these people by user id, without accounts being deleted."""
        if session is not None:
            return self._find_in(user_ids, session)
        people = {i: (user, doc) for i, (user, doc) in self._find_people(user_ids).items() if doc is not None}
        version, known = (
            identity_map.get_version("profiles"),
            identity_map.find_kept("profiles", "parsed", people),
        )
        found, new = {}, {}
        for i, (user, doc) in people.items():
            # A page asks for the same people several times; after a write, there is another document.
            parsed = known.get(i)
            if parsed is None or parsed[0] is not user or parsed[1] is not doc:
                parsed = new[i] = user, doc, _profile(doc, user)
            found[i] = parsed[2]
        if new:
            identity_map.keep_values("profiles", version, "parsed", new)
        return found

    def _find_in(self, user_ids: Sequence[int], session: Session) -> dict[int, Profile]:
        """Return profiles as a transaction sees them."""
        docs = list(self._profiles.find({"user_id": {"$in": list(user_ids)}}, session=session))
        query = {"_id": {"$in": [d["user_id"] for d in docs]}, "leaving": None}
        users = {u["_id"]: u for u in self._users.find(query, SIGNATURE, session=session)} if docs else {}
        return {d["user_id"]: _profile(d, users[d["user_id"]]) for d in docs if d["user_id"] in users}

    def _find_people(self, user_ids: Iterable[int]) -> dict[int, tuple[Doc, Doc | None]]:
        """Return accounts, each with its profile if there is one, by user id; not accounts being deleted."""
        wanted = list(dict.fromkeys(user_ids))
        users = identity_map.find_kept("users", "signature", wanted)
        profiles = identity_map.find_kept("profiles", "person", wanted)
        if missing := [i for i in wanted if i not in profiles or i not in users]:
            version = identity_map.get_version("users"), identity_map.get_version("profiles")
            found, by_user = self._fetch_people(missing)
            read = {i: by_user.get(i) if i in found else None for i in missing}
            users |= (accounts := {i: found.get(i) for i in missing})
            profiles |= read
            keep_signatures(version[0], accounts)
            identity_map.keep_values("profiles", version[1], "person", read)
            streams = {doc["feed_id"]: doc for doc in read.values() if doc is not None}
            identity_map.keep_values("profiles", version[1], "feed", streams)
        return {i: (user, profiles[i]) for i in wanted if (user := users[i]) is not None}

    def _fetch_people(self, user_ids: Sequence[int]) -> tuple[dict[int, Doc], dict[int, Doc]]:
        """Return accounts and profiles by user id, by one command.

        A $lookup from the accounts costs MongoDB a query per account: 4 ms instead of 1 for 128 of them.
        """
        wanted = {"$in": list(user_ids)}
        accounts: list[Doc] = [{"$match": {"_id": wanted, "leaving": None}}, {"$project": SIGNATURE}]
        profiles: list[Doc] = [{"$match": {"user_id": wanted}}]
        found = run_parts([Part(self._users, accounts, "_id_"), Part(self._profiles, profiles, "")])
        by_user = {doc["user_id"]: doc for doc in found if "user_id" in doc}
        return {doc["_id"]: doc for doc in found if "user_id" not in doc}, by_user

    def _fetch_by_feed(self, feed_ids: Sequence[int]) -> dict[int, Doc]:
        version = identity_map.get_version("profiles")
        docs = list(self._profiles.find({"feed_id": {"$in": list(feed_ids)}}, batch_size=BATCH))
        identity_map.keep_values("profiles", version, "person", {d["user_id"]: d for d in docs})
        return {d["feed_id"]: d for d in docs}

    @translate_errors
    def find_by_name(self, handle: str) -> Profile | None:
        """Return the profile of the person with this name, in any case."""
        user_id = self.find_ids_by_name([handle]).get(make_name_key(handle))
        return self.find(user_id) if user_id is not None else None

    @translate_errors
    def find_owner(self, feed_id: int) -> int | None:
        """Return the id of the person whose stream a feed is, or None."""
        return self.find_owners([feed_id]).get(feed_id)

    @translate_errors
    def find_discoverable(self, limit: int) -> list[int]:
        """Return people who opted in to be found by similar readers, latest first."""
        found = self._profiles.find({"similar": True}, {"user_id": 1}).sort("_id", -1)
        return [d["user_id"] for d in found.hint("similar").limit(limit)]

    @translate_errors
    def find_owners(self, feed_ids: Sequence[int]) -> dict[int, int]:
        """Return the ids of the people whose streams these feeds are, by feed; other feeds are left out."""
        docs = identity_map.find_each("profiles", "feed", feed_ids, self._fetch_by_feed)
        return {feed_id: doc["user_id"] for feed_id, doc in docs.items()}

    @translate_errors
    def find_suspended(self, limit: int) -> list[int]:
        """Return the ids of suspended people, latest profiles first."""
        found = self._profiles.find({"hidden": True}, {"user_id": 1}).sort("_id", -1).limit(limit)
        return [d["user_id"] for d in found.hint("hidden")]

    @translate_errors
    def find_summaries(self, user_ids: Sequence[int]) -> dict[int, PersonSummary]:
        """Return the names and pages of people, without those suspended, closed or being deleted."""
        return {
            i: _face(i, user, doc)
            for i, (user, doc) in self._find_people(user_ids).items()
            if not (user.get("disabled") or (doc or {}).get("hidden"))
        }

    @translate_errors
    def find_ids_by_name(self, handles: Sequence[str]) -> dict[str, int]:
        """Return the ids of the people with these names, in any case, by name key."""
        return identity_map.find_each("users", "name", map(make_name_key, handles), self._fetch_by_name)

    def _fetch_by_name(self, keys: Sequence[str]) -> dict[str, int]:
        query = {"name_key": {"$in": list(keys)}, "leaving": None}
        version = identity_map.get_version("users")
        docs = list(self._users.find(query, SIGNATURE))
        keep_signatures(version, {d["_id"]: d for d in docs})
        return {make_name_key(d["name"]): d["_id"] for d in docs}

    @translate_errors
    def update(self, user_id: int, changes: Mapping[str, Any], session: Session | None = None) -> None:
        """Store checked changes of a profile."""
        self._profiles.update_one({"user_id": user_id}, {"$set": dict(changes)}, session=session)


class RelationshipMapper:
    """Stores requests, mutes, blocks and decisions that aren't done: ``{user_id, kind, to, at, due,
    settles}``.
    """

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

    # -- decisions about subscriptions

    @translate_errors
    def end_follow(
        self,
        user_id: int,
        to: int,
        now: dt.datetime,
        *,
        due: dt.datetime,
        settles: dt.datetime,
        session: Session,
    ) -> bool:
        """Store that a user doesn't follow a person anymore; return whether a request had been accepted.

        Args:
            due: when it is done at the latest.
            settles: until when it stays.
            session: of a transaction, as it takes the place of what was accepted.
        """
        had_accepted = self.remove(user_id, RelationshipKind.ACCEPTED, to, session)
        key = {"user_id": Int64(user_id), "kind": RelationshipKind.ENDED.value, "to": Int64(to)}
        update = {"$setOnInsert": {"at": now}, "$min": {"due": due}, "$max": {"settles": settles}}
        self._ties.update_one(key, update, upsert=True, session=session)
        return had_accepted

    @translate_errors
    def accept_request(self, user_id: int, to: int, due: dt.datetime) -> bool:
        """Turn a follow request into one that was accepted; return False if there is none."""
        try:
            return self._change(user_id, RelationshipKind.REQUEST, RelationshipKind.ACCEPTED, to, due)
        except DuplicateKeyError:  # accepted before, and not done yet
            return self.remove(user_id, RelationshipKind.REQUEST, to)

    @translate_errors
    def reopen_request(self, user_id: int, to: int) -> bool:
        """Undo :meth:`accept_request`; return False if it is done, or there is none."""
        try:
            return self._change(user_id, RelationshipKind.ACCEPTED, RelationshipKind.REQUEST, to, None)
        except DuplicateKeyError:  # asked again meanwhile
            return self.remove(user_id, RelationshipKind.ACCEPTED, to)

    def _change(
        self, user_id: int, old: RelationshipKind, new: RelationshipKind, to: int, due: dt.datetime | None
    ) -> bool:
        update: Doc = {"$set": {"kind": new.value}}
        if due is None:
            update["$unset"] = {"due": ""}
        else:
            update["$set"]["due"] = due
        query = {"user_id": user_id, "kind": old.value, "to": to}
        return bool(self._ties.update_one(query, update).matched_count)

    @translate_errors
    def find_decision(self, user_id: int, kind: RelationshipKind, to: int) -> FollowDecision | None:
        """Return a decision about a user's subscription to a person, as it is now."""
        doc = self._ties.find_one({"user_id": user_id, "kind": kind.value, "to": to})
        return _decision(doc) if doc else None

    @translate_errors
    def find_ended(self, user_id: int, to: Sequence[int]) -> list[int]:
        """Return which of these people have ended a user's subscription, as it is now."""
        query = {"user_id": user_id, "kind": RelationshipKind.ENDED.value, "to": {"$in": list(to)}}
        return [doc["to"] for doc in self._ties.find(query, {"to": 1})]

    @translate_errors
    def is_open(self, decision: FollowDecision) -> bool:
        """Return whether a decision still holds and isn't done, as it is now."""
        query = {"_id": ObjectId(decision.key), "kind": decision.kind.value}
        return self._ties.find_one(query, {"_id": 1}) is not None

    @translate_errors
    def list_decisions(self, limit: int, now: dt.datetime) -> list[FollowDecision]:
        """Return the decisions that are due, those first that have waited longest."""
        found = self._ties.find({"due": {"$lte": now}}).sort("due").limit(limit).hint("due")
        return list(map(_decision, found))

    @translate_errors
    def remove_decision(self, decision: FollowDecision) -> bool:
        """Delete a decision that is done; return False if another one has taken its place."""
        query = {"_id": ObjectId(decision.key), "kind": decision.kind.value, "settles": decision.settles}
        return bool(self._ties.delete_one(query).deleted_count)

    @translate_errors
    def postpone_decision(self, decision: FollowDecision, due: dt.datetime) -> None:
        """Let a decision wait until a time."""
        query = {"_id": ObjectId(decision.key), "kind": decision.kind.value}
        self._ties.update_one(query, {"$set": {"due": due}})

    @translate_errors
    def find_between(self, user_id: int, other_ids: Sequence[int]) -> set[tuple[int, RelationshipKind, int]]:
        """Return (user id, kind, target id) of relationships with the other people, in both directions."""

        every = self._find_all(user_id)
        if every is not None:
            wanted = set(other_ids)
            return {tie for tie in every if tie[0] in wanted or tie[2] in wanted}

        def _fetch(others: Sequence[int]) -> dict[int, set[tuple[int, RelationshipKind, int]]]:
            ids, found = list(others), {i: set[tuple[int, RelationshipKind, int]]() for i in others}
            mine, theirs = {"user_id": user_id, "to": {"$in": ids}}, {"user_id": {"$in": ids}, "to": user_id}
            for d in self._ties.find({"$or": [mine, theirs]}):
                other = d["to"] if d["user_id"] == user_id else d["user_id"]
                found[other].add((d["user_id"], RelationshipKind(d["kind"]), d["to"]))
            return found

        others = [i for i in other_ids if i != user_id]  # nobody mutes or blocks themselves
        return set().union(*identity_map.find_each("ties", f"of {user_id}", others, _fetch).values())

    def _find_all(self, user_id: int) -> list[tuple[int, RelationshipKind, int]] | None:
        """Return all relationships from and to a user, latest first; None: more than :data:`TIES_MAX`."""
        if not identity_map.is_active():
            return None

        def _fetch() -> list[tuple[int, RelationshipKind, int]]:
            both = {"$or": [{"user_id": user_id}, {"to": user_id}]}
            found = self._ties.find(both, batch_size=BATCH).limit(TIES_MAX + 1)
            ties = sorted(found, key=lambda d: d["_id"], reverse=True)
            return [(d["user_id"], RelationshipKind(d["kind"]), d["to"]) for d in ties]

        every = identity_map.find_once("ties", "all", user_id, _fetch)
        return every if len(every) <= TIES_MAX else None

    @translate_errors
    def find_targets(self, user_id: int, kind: RelationshipKind, limit: int) -> list[int]:
        """Return the targets of a user's relationships of this kind, latest first."""

        every = self._find_all(user_id)
        if every is not None:
            return [to for by, what, to in every if by == user_id and what is kind][:limit]

        def _fetch() -> list[int]:
            found = self._ties.find({"user_id": user_id, "kind": kind.value}, {"to": 1}).sort("_id", -1)
            return [d["to"] for d in found.limit(limit)]

        return list(identity_map.find_once("ties", "targets", (user_id, kind, limit), _fetch))

    @translate_errors
    def find_initiators(self, to: int, kind: RelationshipKind, limit: int) -> list[int]:
        """Return the users with a relationship of this kind to a person, latest first."""

        every = self._find_all(to)
        if every is not None:
            return [by for by, what, about in every if about == to and what is kind][:limit]

        def _fetch() -> list[int]:
            found = self._ties.find({"to": to, "kind": kind.value}, {"user_id": 1}).sort("_id", -1)
            return [d["user_id"] for d in found.hint("to_kind").limit(limit)]

        return list(identity_map.find_once("ties", "initiators", (to, kind, limit), _fetch))


def _decision(doc: Doc) -> FollowDecision:
    kind = RelationshipKind(doc["kind"])
    return FollowDecision(str(doc["_id"]), doc["user_id"], kind, doc["to"], doc.get("settles"))


def _face(user_id: int, user: Doc, doc: Doc | None) -> PersonSummary:
    handle, version = user["name"], get_avatar_version(user.get("avatar"))
    if doc is None:
        return PersonSummary(user_id, handle, handle, avatar=version)
    page = doc["audience"] != Audience.PRIVATE.value
    return PersonSummary(user_id, handle, doc.get("display") or handle, page, version)


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
        avatar=get_avatar_version(user.get("avatar")),
    )
