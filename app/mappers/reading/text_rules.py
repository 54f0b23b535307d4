"""Rules of the admins for full texts: the collection ``textrules``.

{_id, host, content, remove, trial?: {address, at, is_over, found, words, text, error}}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.errors import N_, ExistsError
from app.mappers.mongo import ids
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, is_duplicate
from app.models.reading.text_rules import TextRule, Trial

_EXISTS = N_("There is a rule for this host. Change or delete it.")


class TextRuleMapper:
    """Document ↔ :class:`TextRule`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._rules: Collection[Doc] = database["textrules"]

    @translate_errors
    def list_all(self) -> list[TextRule]:
        """Return all rules by host; their number is limited."""
        return list(map(_read, self._rules.find().sort("host", 1)))

    @translate_errors
    def find(self, rule_id: int) -> TextRule | None:
        """Return a rule."""
        doc = self._rules.find_one({"_id": rule_id})
        return _read(doc) if doc else None

    @translate_errors
    def find_by_hosts(self, hosts: Sequence[str]) -> TextRule | None:
        """Return the rule of the first of these hosts that has one."""
        found = {doc["host"]: doc for doc in self._rules.find({"host": {"$in": list(hosts)}})}
        return next((_read(found[host]) for host in hosts if host in found), None)

    @translate_errors
    def add(self, new: TextRule) -> TextRule:
        """Store a rule; its id is assigned here.

        Raises:
            ExistsError: the host has one.
        """
        while True:
            rule_id = Int64(ids.reserve_ids())
            doc = {"_id": rule_id, "host": new.host, "content": new.content, "remove": new.remove}
            try:
                self._rules.insert_one(doc)
                return dataclasses.replace(new, id=rule_id)
            except DuplicateKeyError as e:
                if not is_duplicate(e, "_id"):
                    raise ExistsError(_EXISTS, field="host") from e

    @translate_errors
    def update(self, rule: TextRule) -> TextRule | None:
        """Store the fields of a rule without its trial; return it as it was, None if there is none.

        Raises:
            ExistsError: another rule has this host.
        """
        fields = {"host": rule.host, "content": rule.content, "remove": rule.remove}
        try:
            doc = self._rules.find_one_and_update({"_id": rule.id}, {"$set": fields, "$unset": {"trial": ""}})
        except DuplicateKeyError as e:
            raise ExistsError(_EXISTS, field="host") from e
        return _read(doc) if doc else None

    @translate_errors
    def store_trial(self, rule_id: int, trial: Trial, *, was: Trial | None = None) -> bool:
        """Store what a rule finds on a page; return whether there is still such a rule.

        Args:
            was: the trial whose result this is. If another one was requested meanwhile, nothing is stored.
        """
        same = {"trial.address": was.address, "trial.at": was.at} if was else {}
        change = {"$set": {"trial": dataclasses.asdict(trial)}}
        return bool(self._rules.update_one({"_id": rule_id, **same}, change).matched_count)

    @translate_errors
    def remove(self, rule_id: int) -> bool:
        """Delete a rule; return whether there was one."""
        return bool(self._rules.delete_one({"_id": rule_id}).deleted_count)


def _read(doc: Doc) -> TextRule:
    trial = Trial(**doc["trial"]) if "trial" in doc else None
    return TextRule(doc["_id"], doc["host"], doc["content"], doc["remove"], trial)
