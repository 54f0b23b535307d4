"""Delayed tasks that couldn't be queued: the collection ``later_dead``.

    {_id, kind, key, args?, error, due, at}

A task has one document, that of its last failure. ``args`` is JSON, absent if it was unreadable or too long.
"""

from __future__ import annotations

import json
from collections.abc import Collection as Several
from collections.abc import Mapping
from typing import Any

from pymongo import DESCENDING, ReplaceOne
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.jobs.later import DeadLetter


class DeadLetterMapper:
    """Document ↔ :class:`DeadLetter`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._letters: Collection[Doc] = database["later_dead"]

    @translate_errors
    def add_many(self, letters: Several[DeadLetter]) -> None:
        """Store letters; a task's new letter replaces its old one."""
        writes = [ReplaceOne({"_id": one.id}, _build_doc(one), upsert=True) for one in letters]
        if writes:
            self._letters.bulk_write(writes, ordered=False)

    @translate_errors
    def find(self, letter_id: str) -> DeadLetter | None:
        """Return a letter, or None."""
        doc = self._letters.find_one({"_id": letter_id})
        return _parse(doc) if doc else None

    @translate_errors
    def find_newest(self, limit: int) -> list[DeadLetter]:
        """Return the newest letters."""
        return [_parse(doc) for doc in self._letters.find().sort("at", DESCENDING).limit(limit)]

    @translate_errors
    def remove(self, letter_id: str) -> bool:
        """Delete a letter; return False if it doesn't exist."""
        return bool(self._letters.delete_one({"_id": letter_id}).deleted_count)


def _build_doc(letter: DeadLetter) -> Doc:
    found = {
        "kind": letter.kind,
        "key": letter.key,
        "args": None if letter.args is None else json.dumps(letter.args),
        "error": letter.error,
        "due": letter.due,
        "at": letter.at,
    }
    return {name: value for name, value in found.items() if value is not None}


def _parse(doc: Doc) -> DeadLetter:
    args = _parse_args(doc.get("args"))
    return DeadLetter(doc["_id"], doc["kind"], doc["key"], args, doc["error"], doc["due"], doc["at"])


def _parse_args(text: Any) -> Mapping[str, Any] | None:
    """Return arguments; None: they aren't the text of a JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
