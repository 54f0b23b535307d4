"""Accounts for administrators: ``users``, with data from ``sessions`` and ``subscriptions``."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from pymongo import ASCENDING
from pymongo.collection import Collection

from app.mappers.accounts.users import build_leaving_condition, make_name_key, parse_user
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session
from app.models.accounts.actor import Role
from app.models.accounts.user import User


class SessionUsage(NamedTuple):
    """The last use of an account, and the number of its live sessions; ``seen`` None: no session."""

    seen: dt.datetime | None
    sessions: int


class AdminAccountMapper:
    """Reads pages of accounts, and changes their roles and states."""

    def __init__(self, cells: Cells) -> None:
        database = cells.home.database
        self._users: Collection[Doc] = database["users"]
        self._sessions: Collection[Doc] = database["sessions"]
        self._subscriptions = cells.get_table("subscriptions")

    @translate_errors
    def list_accounts(self, text: str, after: str, limit: int) -> list[User]:
        """Return accounts whose name or email address contains a text, sorted by name.

        Args:
            after: name key of the last account on the previous page.
        """
        match: Doc = {"name_key": {"$gt": after}, "leaving": None}
        if text:
            part = {"$regex": re.escape(make_name_key(text)), "$options": "i"}
            match["$or"] = [{"name_key": part}, {"email": part}]
        found = self._users.find(match, {"password": 0}).sort("name_key", ASCENDING).limit(limit)
        return [parse_user(doc) for doc in found]

    @translate_errors
    def find_names(self, user_ids: Sequence[int]) -> dict[int, str]:
        """Return names by id."""
        found = self._users.find({"_id": {"$in": list(user_ids)}}, {"name": 1})
        return {doc["_id"]: doc["name"] for doc in found}

    @translate_errors
    def find_session_usage(self, user_ids: Sequence[int], now: dt.datetime) -> dict[int, SessionUsage]:
        """Return the last use of these accounts; accounts without a live session are left out."""
        found = self._sessions.aggregate(
            [
                {"$match": {"user_id": {"$in": list(user_ids)}, "expires": {"$gt": now}}},
                {"$group": {"_id": "$user_id", "seen": {"$max": "$seen"}, "count": {"$sum": 1}}},
            ]
        )
        return {doc["_id"]: SessionUsage(doc["seen"], doc["count"]) for doc in found}

    @translate_errors
    def count_subscriptions(self, user_ids: Sequence[int]) -> dict[int, int]:
        """Return how many subscriptions these accounts have; those whose cell is down are left out."""
        count = {"$group": {"_id": "$user_id", "count": {"$sum": 1}}}

        def _read_cell(subscriptions: Collection[Doc], people: list[int]) -> dict[int, int]:
            found = subscriptions.aggregate([{"$match": {"user_id": {"$in": people}}}, count])
            return dict.fromkeys(people, 0) | {doc["_id"]: doc["count"] for doc in found}

        counts = self._subscriptions.read_groups(user_ids, _read_cell)
        return dict(itertools.chain.from_iterable(one.items() for one in counts))

    @translate_errors
    def update(self, user_id: int, changes: dict[str, Any], session: Session) -> User | None:
        """Change an account and return it as it was; None: there is no such account.

        All admins are written too. So of two transactions that each demote one of the last two admins, one
        conflicts, runs again and sees the result of the other.
        """
        self._users.update_many({"role": Role.ADMIN.value}, {"$inc": {"guard": 1}}, session=session)
        doc = self._users.find_one_and_update(
            {"_id": user_id}, {"$set": changes}, projection={"password": 0}, session=session
        )
        return parse_user(doc) if doc else None

    @translate_errors
    def is_active(self, user_id: int) -> bool:
        """Return whether the account exists and isn't being deleted."""
        return bool(self._users.count_documents({"_id": user_id, "leaving": None}, limit=1))

    @translate_errors
    def find_leaving(self, limit: int, before: dt.datetime) -> list[int]:
        """Return accounts whose deletion began before a time."""
        found = self._users.find({"leaving": build_leaving_condition(before)}, {"_id": 1}).limit(limit)
        return [doc["_id"] for doc in found]

    @translate_errors
    def count_admins(self, session: Session) -> int:
        """Return how many admins can log in and aren't being deleted."""
        query = {"role": Role.ADMIN.value, "disabled": {"$ne": True}, "leaving": None}
        return self._users.count_documents(query, session=session)
