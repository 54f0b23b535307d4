"""Where people live: the collections ``places`` and ``cells``, the settings of cells, in the home store.

places  {_id: user, cell, state, to, epoch, step}    no document: the person lives in the home store
cells   {_id: name, weight, used}                    the share of new people; whether the cell was used before
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pymongo.collection import Collection as Table
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.operations.cells import HOME, Place, PlaceState


class PlaceMapper:
    """Document ↔ :class:`Place`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._places: Table[Doc] = database["places"]
        self._cells: Table[Doc] = database["cells"]

    @translate_errors
    def read_place(self, user_id: int) -> Place | None:
        """Return a person's place; None: they live in the home store, and always have."""
        doc = self._places.find_one({"_id": user_id})
        return _place(doc) if doc else None

    @translate_errors
    def find_many(self, user_ids: Collection[int]) -> dict[int, Place]:
        """Return the places of those of these people who have one, by person."""
        return {doc["_id"]: _place(doc) for doc in self._places.find({"_id": {"$in": list(user_ids)}})}

    @translate_errors
    def list_by_cell(self, cell: str, after: int, limit: int) -> list[Place]:
        """Return the places of people who live in a cell, by person, those above ``after``."""
        found = self._places.find({"cell": cell, "_id": {"$gt": after}}).sort("_id").limit(limit)
        return [_place(doc) for doc in found]

    @translate_errors
    def list_moving(self, limit: int) -> list[Place]:
        """Return the places that aren't normal, by person."""
        states = [PlaceState.MIGRATING.value, PlaceState.CLEANING.value]
        found = self._places.find({"state": {"$in": states}}).sort("_id").limit(limit)
        return [_place(doc) for doc in found]

    @translate_errors
    def count_people(self) -> dict[str, tuple[int, int]]:
        """Return how many people have a place in each cell, and how many of them are being moved."""
        moving = {"$cond": [{"$eq": ["$state", PlaceState.NORMAL.value]}, 0, 1]}
        count = {"$group": {"_id": "$cell", "people": {"$sum": 1}, "moving": {"$sum": moving}}}
        return {doc["_id"]: (doc["people"], doc["moving"]) for doc in self._places.aggregate([count])}

    @translate_errors
    def list_cells(self) -> list[str]:
        """Return the cells in which people have a place."""
        return list(self._places.distinct("cell", {"cell": {"$gt": ""}}))

    @translate_errors
    def has_others(self, cells: Collection[str]) -> bool:
        """Return whether anyone lives in a cell other than these."""
        others = {"cell": {"$nin": sorted(cells)}}
        return self._places.find_one(others, {"_id": 1}) is not None

    @translate_errors
    def add(self, user_id: int, cell: str) -> bool:
        """Place a new person; return False if they have a place."""
        doc = {"cell": cell, "state": PlaceState.NORMAL.value, "to": "", "epoch": 1, "step": ""}
        done = self._places.update_one({"_id": user_id}, {"$setOnInsert": doc}, upsert=True)
        return done.upserted_id is not None

    @translate_errors
    def update(self, was: Place, **changes: Any) -> Place | None:
        """Change a place and raise its epoch; None: it isn't ``was`` anymore.

        Args:
            was: the place as it was read; of a person without a document: the home store at epoch 0.
            changes: fields of :class:`Place`.
        """
        new = was._replace(**changes, epoch=was.epoch + 1)
        values = {name: value for name, value in new._asdict().items() if name != "user_id"}
        values["state"] = new.state.value
        query = {"_id": was.user_id, "epoch": was.epoch, "state": was.state.value}
        first = was.epoch == 0 and was.cell == HOME
        if first:
            doc = {**values, "epoch": 1}
            done = self._places.update_one({"_id": was.user_id}, {"$setOnInsert": doc}, upsert=True)
            return new if done.upserted_id is not None else None
        return new if self._places.update_one(query, {"$set": values}).matched_count else None

    @translate_errors
    def remove(self, user_id: int, was: Place | None) -> bool:
        """Forget the place of a person whose account goes; return False if it isn't ``was`` anymore."""
        if was is not None:
            self._places.delete_one({"_id": user_id, "epoch": was.epoch})
        return self._places.find_one({"_id": user_id}, {"_id": 1}) is None

    # -- new people

    @translate_errors
    def find_weights(self) -> dict[str, int]:
        """Return the share of new people by cell; cells without one get none."""
        return {doc["_id"]: int(doc["weight"]) for doc in self._cells.find({"weight": {"$exists": True}})}

    @translate_errors
    def set_weights(self, weights: Mapping[str, int]) -> None:
        """Set the share of new people of these cells."""
        for cell, weight in weights.items():
            self._cells.update_one({"_id": cell}, {"$set": {"weight": weight}}, upsert=True)

    # -- cells whose database is lost

    @translate_errors
    def is_used(self, cell: str) -> bool:
        """Return whether a cell was prepared before, so its database can't be new."""
        return self._cells.find_one({"_id": cell, "used": True}, {"_id": 1}) is not None

    @translate_errors
    def record_used(self, cell: str) -> None:
        """Record that a cell is prepared."""
        self._cells.update_one({"_id": cell}, {"$set": {"used": True}}, upsert=True)

    @translate_errors
    def forget_used(self, cell: str) -> None:
        """Accept that a cell's database is new."""
        self._cells.update_one({"_id": cell}, {"$unset": {"used": ""}})

    @translate_errors
    def list_all(self) -> Iterator[Place]:
        """Yield all places, by person."""
        for doc in self._places.find().sort("_id"):
            yield _place(doc)


def _place(doc: Doc) -> Place:
    return Place(
        doc["_id"],
        doc["cell"],
        PlaceState(doc["state"]),
        doc.get("to", ""),
        doc.get("epoch", 0),
        doc.get("step", ""),
    )
