"""Runs of rules over past entries: the field ``run`` of ``rules``, and the collection ``ruleruns``.

A part of ``ruleruns`` says what the run changes in some entries of a feed. It is stored before the change, so
that a repeat makes the same change, and the undo finds exactly that. Parts are deleted with the undo, when
another run begins, or after a day.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import Any

from bson.int64 import Int64
from pymongo.collection import Collection as Table
from pymongo.errors import DuplicateKeyError

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.mappers.reading.rules import decode_rule, encode_rule
from app.models.reading.rules import RuleRun, RunPart, RunState

#: Undone runs that are remembered, for workers that stood still.
UNDONE_KEPT = 10
_NUMBERS = ("read", "kept", "hidden", "highlighted", "starred", "tagged")


class RuleRunMapper:
    """Document ↔ :class:`RuleRun` and :class:`RunPart`. Every query contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._rules = cells.get_table("rules")
        self._parts = cells.get_table("ruleruns")

    @translate_errors
    def find(self, user_id: int) -> RuleRun | None:
        """Return a user's last run."""
        doc = self._rules.get(user_id).find_one({"user_id": user_id}, {"_id": 0, "run": 1}) or {}
        return _read(doc["run"]) if "run" in doc else None

    @translate_errors
    def begin(self, user_id: int, run: RuleRun) -> bool:
        """Store a new run, and forget what the last one changed; return False if that one isn't over."""
        fields = {
            "id": run.id,
            "rule": encode_rule(run.rule),
            "state": run.state.value,
            "active": run.state.is_active,
            "started": run.started,
            "touched": run.started,
            "feed_id": Int64(0),
            "after": Int64(0),
            "total": run.total,
        }
        query = {"user_id": user_id, "run.active": {"$ne": True}}
        undone = {"$cond": [{"$eq": ["$run.state", RunState.UNDONE.value]}, ["$run.id"], []]}
        before = {"$concatArrays": [undone, {"$ifNull": ["$run.undone", []]}]}
        begun = {"$mergeObjects": [{"$literal": fields}, {"undone": {"$slice": [before, UNDONE_KEPT]}}]}
        if not self._rules.get(user_id).update_one(query, [{"$set": {"run": begun}}]).matched_count:
            return False
        self._parts.get(user_id).delete_many({"user_id": user_id, "token": {"$ne": run.id}})
        return True

    @translate_errors
    def is_undone(self, user_id: int, run_id: str) -> bool:
        """Return whether a run was undone, even when others have begun since."""
        last = {"run.id": run_id, "run.state": RunState.UNDONE.value}
        query = {"user_id": user_id, "$or": [last, {"run.undone": run_id}]}
        return self._rules.get(user_id).find_one(query, {"_id": 1}) is not None

    @translate_errors
    def set_state(self, user_id: int, run_id: str, was: Collection[RunState], state: RunState) -> bool:
        """Change the state of a run; return False if it has another state or another run has begun."""
        query = {
            "user_id": user_id,
            "run.id": run_id,
            "run.state": {"$in": [one.value for one in was]},
        }
        update = {"$set": {"run.state": state.value, "run.active": state.is_active}}
        return bool(self._rules.get(user_id).update_one(query, update).matched_count)

    @translate_errors
    def set_place(self, user_id: int, run: RuleRun, after: RuleRun, now: dt.datetime) -> bool:
        """Store the new place and counts of a run; return False if it isn't at its place anymore."""
        query = {
            "user_id": user_id,
            "run.id": run.id,
            "run.state": run.state.value,
            "run.feed_id": Int64(run.feed_id),
            "run.after": Int64(run.after),
        }
        places = {"run.feed_id": Int64(after.feed_id), "run.after": Int64(after.after)}
        counts = {f"run.{name}": getattr(after, name) for name in ("done", "matches", "changed")}
        update = {"$set": {**places, **counts, "run.touched": now}}
        return bool(self._rules.get(user_id).update_one(query, update).matched_count)

    @translate_errors
    def find_waiting(self, before: dt.datetime) -> list[tuple[int, str]]:
        """Return (user, run) of runs on which no job has worked since a time."""
        query = {"run.active": True, "run.touched": {"$lt": before}}

        def _read_cell(rules: Table[Doc]) -> list[tuple[int, str]]:
            found = rules.find(query, {"user_id": 1, "run.id": 1}, hint="running")
            return [(doc["user_id"], doc["run"]["id"]) for doc in found]

        return [row for rows in self._rules.read_each(_read_cell) for row in rows]

    # -- parts
    @translate_errors
    def find_part(self, user_id: int, run_id: str, feed_id: int, after: int) -> RunPart | None:
        """Return the part that begins after a number."""
        query = {"user_id": user_id, "token": run_id, "feed_id": feed_id, "number": after}
        doc = self._parts.get(user_id).find_one(query)
        return _read_part(doc) if doc else None

    @translate_errors
    def find_last_part(self, user_id: int, run_id: str) -> RunPart | None:
        """Return the part that is undone next."""
        query = {"user_id": user_id, "token": run_id}
        doc = self._parts.get(user_id).find_one(query, sort=[("feed_id", -1), ("number", -1)])
        return _read_part(doc) if doc else None

    @translate_errors
    def add_part(self, user_id: int, run_id: str, part: RunPart, expires: dt.datetime) -> None:
        """Store a part, unless another worker was faster."""
        doc: Doc = {
            "user_id": Int64(user_id),
            "token": run_id,
            "feed_id": Int64(part.feed_id),
            "number": Int64(part.after),
            "upto": Int64(part.upto),
            "matches": part.matches,
            "mass": part.mass,
            "expires": expires,
            **{name: list(map(Int64, values)) for name in _NUMBERS if (values := getattr(part, name))},
        }
        try:
            self._parts.get(user_id).insert_one(doc)
        except DuplicateKeyError:
            return

    @translate_errors
    def remove_part(self, user_id: int, run_id: str, part: RunPart) -> None:
        """Delete a part that was undone."""
        query = {"user_id": user_id, "token": run_id, "feed_id": part.feed_id, "number": part.after}
        self._parts.get(user_id).delete_one(query)


def _read(doc: Doc) -> RuleRun:
    counts = {name: doc.get(name, 0) for name in ("done", "total", "matches", "changed")}
    state, rule = RunState(doc["state"]), decode_rule(doc["rule"])
    return RuleRun(doc["id"], rule, state, doc["started"], doc["feed_id"], doc["after"], **counts)


def _read_part(doc: Doc) -> RunPart:
    numbers: dict[str, Any] = {name: tuple(doc.get(name, ())) for name in _NUMBERS}
    return RunPart(doc["feed_id"], doc["number"], doc["upto"], doc["matches"], mass=doc["mass"], **numbers)
