"""What the mover keeps in a person's place beside where they live; in the home store.

    places  {…, at, due, timed, tries, error, sweeps: [{cell, moved, done}], sweep_at}

``at``: when the step ``timed`` began; ``due``: when it goes on; ``tries`` and ``error``: failed attempts;
``sweep_at``: the next sweep of an old cell.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

from pymongo.collection import Collection as Table
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.operations.cells import HOME, Place
from app.models.operations.moves import (
    CANCELLABLE,
    SWEEPS,
    MoveRow,
    MoveStep,
    Sweep,
    compute_retry_delay,
)

#: Places with a move; exactly the condition of the indexes ``moving`` and ``move_due``.
_MOVING = {"$gt": ""}


class MoveMapper:
    """Reads and writes what a move needs to go on."""

    def __init__(self, database: Database[Doc]) -> None:
        self._places: Table[Doc] = database["places"]
        self._users: Table[Doc] = database["users"]

    @translate_errors
    def find_due(self, now: dt.datetime, limit: int) -> list[int]:
        """Return people whose move or sweep is to go on, at most ``limit`` of each.

        Moves come first. Those that have waited longest come first, in any step.
        """
        moving = self._places.find({"step": _MOVING, "due": {"$not": {"$gt": now}}}, {"_id": 1})
        found = [doc["_id"] for doc in moving.hint("move_due").sort("due", 1).limit(limit)]
        swept = self._places.find({"sweep_at": {"$lte": now}}, {"_id": 1}).hint("sweep").sort("sweep_at", 1)
        return list(dict.fromkeys([*found, *(doc["_id"] for doc in swept.limit(limit))]))

    @translate_errors
    def is_leaving(self, user_id: int) -> bool:
        """Return whether the account of a person is being deleted."""
        return self._users.find_one({"_id": user_id, "leaving": {"$ne": None}}, {"_id": 1}) is not None

    @translate_errors
    def set_times(self, place: Place, now: dt.datetime, due: dt.datetime) -> None:
        """Record when the step of a place began, and when it goes on."""
        change: Doc = {"$set": {"at": now, "due": due, "timed": place.step}}
        if place.step not in CANCELLABLE:  # each attempt goes through these, so they aren't progress
            change["$unset"] = {"tries": "", "error": ""}
        self._places.update_one({"_id": place.user_id, "epoch": place.epoch}, change)

    @translate_errors
    def begin_attempt(self, user_id: int, now: dt.datetime) -> None:
        """Let all others come first if this attempt ends with its process."""
        self._places.update_one({"_id": user_id, "step": _MOVING}, {"$set": {"due": now}})

    @translate_errors
    def record_failure(self, user_id: int, error: str, now: dt.datetime) -> None:
        """Record that an attempt failed; the next one is due later each time."""
        query = {"_id": user_id, "step": _MOVING}
        doc = self._places.find_one(query, {"tries": 1})
        if doc is not None:
            tries = doc.get("tries", 0) + 1
            values = {"tries": tries, "error": error, "due": now + compute_retry_delay(tries)}
            self._places.update_one(query, {"$set": values})

    @translate_errors
    def find_due_time(self, place: Place) -> dt.datetime | None:
        """Return when a person's move goes on; None: no time was recorded for this step."""
        doc = self._places.find_one({"_id": place.user_id, "timed": place.step}, {"_id": 0, "due": 1})
        return doc.get("due") if doc else None

    @translate_errors
    def list_moves(self, limit: int) -> list[MoveRow]:
        """Return the moves in progress, in any order."""
        found = list(self._places.find({"step": _MOVING}).hint("moving").limit(limit))
        users = self._users.find({"_id": {"$in": [doc["_id"] for doc in found]}}, {"name": 1})
        names = {doc["_id"]: doc.get("name", "") for doc in users}
        return [
            MoveRow(
                user_id=doc["_id"],
                name=names.get(doc["_id"], ""),
                cell=doc["cell"],
                to=doc.get("to", ""),
                step=MoveStep(doc["step"]),
                since=doc.get("at"),
                due=doc.get("due"),
                tries=doc.get("tries", 0),
                error=doc.get("error", ""),
            )
            for doc in found
        ]

    @translate_errors
    def count_steps(self) -> dict[str, int]:
        """Return how many moves there are by step."""
        pipeline: list[Doc] = [{"$match": {"step": _MOVING}}, {"$group": {"_id": "$step", "n": {"$sum": 1}}}]
        return {doc["_id"]: doc["n"] for doc in self._places.aggregate(pipeline, hint="moving")}

    @translate_errors
    def count_transfers(self) -> list[tuple[str, str, int]]:
        """Return (from, to, how many) of the people who will live in another cell."""
        steps = {"$in": sorted(CANCELLABLE)}
        pipeline: list[Doc] = [
            {"$match": {"step": steps}},
            {"$group": {"_id": {"cell": "$cell", "to": "$to"}, "n": {"$sum": 1}}},
        ]
        found = self._places.aggregate(pipeline, hint="moving")
        return [(doc["_id"]["cell"], doc["_id"]["to"], doc["n"]) for doc in found]

    @translate_errors
    def count_users(self) -> int:
        """Return how many accounts there are, wherever they live."""
        return self._users.estimated_document_count()

    @translate_errors
    def find_resting(self, cell: str, after: int, limit: int) -> list[int]:
        """Return people above ``after`` who live in a cell and aren't being moved, by id."""
        if cell != HOME:
            query = {"cell": cell, "step": "", "_id": {"$gt": after}}
            found = self._places.find(query, {"_id": 1}).sort("_id").limit(limit)
            return [doc["_id"] for doc in found]
        # Most of those who live at home have no place, so the users without one elsewhere are looked for.
        users: list[int] = []
        while len(users) < limit:
            found = self._users.find({"_id": {"$gt": after}}, {"_id": 1}).sort("_id").limit(1000)
            page = [doc["_id"] for doc in found]
            if not page:
                break
            away = self._find_away(page)
            users += [user_id for user_id in page if user_id not in away]
            after = page[-1]
        return users[:limit]

    def _find_away(self, user_ids: Collection[int]) -> set[int]:
        away = {"_id": {"$in": list(user_ids)}, "$or": [{"cell": {"$ne": HOME}}, {"step": _MOVING}]}
        return {doc["_id"] for doc in self._places.find(away, {"_id": 1})}

    # -- sweeps
    @translate_errors
    def add_sweep(self, user_id: int, sweep: Sweep) -> None:
        """Remember a cell to sweep."""
        self._change_sweeps(user_id, [*self._drop_sweep(user_id, sweep.cell), sweep])

    @translate_errors
    def find_sweeps(self, user_id: int) -> list[Sweep]:
        """Return the cells to sweep."""
        doc = self._places.find_one({"_id": user_id}, {"_id": 0, "sweeps": 1}) or {}
        return [Sweep(each["cell"], each["moved"], each["done"]) for each in doc.get("sweeps", ())]

    @translate_errors
    def end_sweep(self, user_id: int, cell: str) -> None:
        """Remember that a cell was swept; after the last sweep, forget the cell."""
        found = []
        for sweep in self.find_sweeps(user_id):
            if sweep.cell != cell:
                found.append(sweep)
            elif sweep.done + 1 < len(SWEEPS):
                found.append(sweep._replace(done=sweep.done + 1))
        self._change_sweeps(user_id, found)

    @translate_errors
    def postpone_sweeps(self, user_id: int, until: dt.datetime) -> None:
        """Let all others come first if this sweep fails; a sweep that ends sets the time of the next one."""
        self._places.update_one({"_id": user_id, "sweep_at": {"$lt": until}}, {"$set": {"sweep_at": until}})

    @translate_errors
    def forget_sweep(self, user_id: int, cell: str) -> None:
        """Forget a cell, because the person lives there again."""
        self._change_sweeps(user_id, self._drop_sweep(user_id, cell))

    def _drop_sweep(self, user_id: int, cell: str) -> list[Sweep]:
        return [sweep for sweep in self.find_sweeps(user_id) if sweep.cell != cell]

    def _change_sweeps(self, user_id: int, sweeps: list[Sweep]) -> None:
        if sweeps:
            values = {"sweeps": [s._asdict() for s in sweeps], "sweep_at": min(s.due for s in sweeps)}
            self._places.update_one({"_id": user_id}, {"$set": values})
        else:
            self._places.update_one({"_id": user_id}, {"$unset": {"sweeps": "", "sweep_at": ""}})
