"""Rules: the collection ``rules``, one document per user with all rules in their order.

    {user_id, on, rev, rules: [{id, name, query, …}], hits: {rule: {day: matches}}, last_id, run?, alerts?}

``on``: whether any rule is switched on. ``alerts``: ids of saved searches that notify. How far rules were
tried on a feed's entries is a field of the subscription. The place in the news up to which all rules were
tried is a document of ``index_state``.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from bson.int64 import Int64
from pymongo.collection import Collection as Table
from pymongo.errors import DuplicateKeyError

from app.errors import ConflictError
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session
from app.models.reading.rules import ACTIONS, COUNTED_DAYS, FeedNews, Rule, RuleSet

_PLACE = "rules"
_FLAGS = (*ACTIONS, "stop", "enabled")


class NewsPlace(NamedTuple):
    """Up to where all rules were tried.

    Attributes:
        at: time of the last news.
        tried_at: when.
        missed_at: time of the first news that some readers missed; None: nobody did.
    """

    at: dt.datetime
    tried_at: dt.datetime
    missed_at: dt.datetime | None = None


class RuleMapper:
    """Document ↔ :class:`RuleSet`. Every query contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._rules = cells.get_table("rules")
        self._feeds: Table[Doc] = cells.home.database["feeds"]
        self._places: Table[Doc] = cells.home.database["index_state"]

    @translate_errors
    def find_by_user(self, user_id: int) -> RuleSet:
        """Return a user's rules."""
        return _read(self._rules.get(user_id).find_one({"user_id": user_id}) or {})

    @translate_errors
    def find_many(self, user_ids: Collection[int]) -> dict[int, RuleSet]:
        """Return the rules of these users; users without rules are left out."""
        found = dict[int, RuleSet]()
        for rules, users in self._rules.group_by_people(user_ids):
            for doc in rules.find({"user_id": {"$in": users}}):
                found[doc["user_id"]] = _read(doc)
        return found

    @translate_errors
    def replace_rules(self, user_id: int, rules: Sequence[Rule], was: RuleSet, today: dt.date) -> None:
        """Store a user's rules in the place of those that were read; forget counts of rules that are gone.

        Raises:
            ConflictError: they were changed elsewhere at the same time.
        """
        first = today.toordinal() - COUNTED_DAYS
        hits = {
            str(rule.id): {str(day): n for day, n in was.hits.get(rule.id, {}).items() if day > first}
            for rule in rules
        }
        update = {
            "on": any(rule.enabled for rule in rules),
            "rev": Int64(was.rev + 1),
            "rules": list(map(encode_rule, rules)),
            "hits": hits,
            "last_id": max(was.last_id, *(rule.id for rule in rules)) if rules else was.last_id,
        }
        query: Doc = {"user_id": user_id, "rev": Int64(was.rev) if was.rev else None}
        try:
            self._rules.get(user_id).update_one(query, {"$set": update}, upsert=True)
        except DuplicateKeyError as e:
            raise ConflictError(user_id=user_id) from e

    @translate_errors
    def set_alert(self, user_id: int, search_id: int, is_on: bool, session: Session) -> None:
        """Record whether a saved search notifies of new entries."""
        update = {"$addToSet" if is_on else "$pull": {"alerts": Int64(search_id)}}
        self._rules.get(user_id, session).update_one(
            {"user_id": user_id}, update, upsert=is_on, session=session
        )

    @translate_errors
    def add_hits(self, user_id: int, hits: Mapping[int, int], today: dt.date, session: Session) -> None:
        """Count matches of a user's rules."""
        day = today.toordinal()
        counts = {f"hits.{rule_id}.{day}": n for rule_id, n in hits.items()}
        self._rules.get(user_id, session).update_one({"user_id": user_id}, {"$inc": counts}, session=session)

    # -- the place in the news
    @translate_errors
    def get_place(self) -> NewsPlace | None:
        """Return up to where all rules were tried; None: they never were."""
        doc = self._places.find_one({"_id": _PLACE})
        return NewsPlace(doc["news_at"], doc["tried_at"], doc.get("missed_at")) if doc else None

    @translate_errors
    def record_place(self, at: dt.datetime, now: dt.datetime, missed_at: dt.datetime | None = None) -> None:
        """Record the time of the news up to which all rules were tried.

        Args:
            missed_at: the time of the first of this news that readers missed, because they were out of reach.
        """
        update = {"$max": {"news_at": at, "tried_at": now}}
        missed = {"$min": {"missed_at": missed_at}} if missed_at is not None else {}
        self._places.update_one({"_id": _PLACE}, update | missed, upsert=True)

    @translate_errors
    def settle_missed(self, was: dt.datetime, left: dt.datetime | None) -> None:
        """Record the time of the first news that readers still miss, unless that has changed meanwhile."""
        update: Doc = {"$set": {"missed_at": left}} if left is not None else {"$unset": {"missed_at": ""}}
        self._places.update_one({"_id": _PLACE, "missed_at": was}, update)

    @translate_errors
    def find_news(self, since: dt.datetime, after: int, limit: int) -> list[FeedNews]:
        """Return feeds with news at ``since`` and an id above ``after``, or with later news, sorted."""
        later: list[Doc] = [{"news_at": {"$gt": since}}, {"news_at": since, "_id": {"$gt": after}}]
        shown = {"last_seq": 1, "news_at": 1, "language": 1}
        found = self._feeds.find({"$or": later}, shown).sort([("news_at", 1), ("_id", 1)]).limit(limit)
        return [
            FeedNews(d["_id"], d.get("last_seq", 0), d["news_at"], d.get("language") or "") for d in found
        ]


def encode_rule(rule: Rule) -> Doc:
    """Return a rule as stored."""
    return {
        "id": rule.id,
        "name": rule.name,
        "query": rule.query,
        "feeds": list(map(Int64, rule.feeds)),
        "folders": list(map(Int64, rule.folders)),
        "tag": rule.tag,
        **({"send": Int64(rule.send)} if rule.send else {}),
        **{flag: True for flag in _FLAGS if getattr(rule, flag)},
    }


def _read(doc: Doc) -> RuleSet:
    hits = {int(rule): {int(day): n for day, n in days.items()} for rule, days in doc.get("hits", {}).items()}
    rules = tuple(map(decode_rule, doc.get("rules", ())))
    last_id = max(doc.get("last_id", 0), *(rule.id for rule in rules)) if rules else doc.get("last_id", 0)
    return RuleSet(rules, doc.get("rev", 0), hits, has_alerts=bool(doc.get("alerts")), last_id=last_id)


def decode_rule(doc: Doc) -> Rule:
    """Return the rule of a stored one."""
    flags = {flag: doc.get(flag, False) for flag in _FLAGS}
    plain = Rule(doc["id"], doc["name"], doc["query"], tuple(doc["feeds"]), tuple(doc["folders"]))
    return dataclasses.replace(plain, tag=doc["tag"], send=doc.get("send", 0), **flags)
