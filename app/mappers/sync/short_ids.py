"""Small numbers of feeds and folders for apps that read 32-bit integers: the collection ``short_ids``.

    {_id, user_id, kind, thing, number}

``thing`` is the id of a feed or folder; ``kind`` says which of them. A number never changes, and isn't used
again after the feed or folder is gone: apps keep items by it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pymongo.errors import BulkWriteError

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.models.sync.short_ids import ShortIdKind

_DUPLICATE = 11000


class ShortIdMapper:
    """Document ↔ number of a feed or folder. Every query contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._ids = cells.get_table("short_ids")

    @translate_errors
    def find_numbers(self, user_id: int, kind: ShortIdKind) -> dict[int, int]:
        """Return id → number, for all feeds or folders of a user that have one."""
        query = {"user_id": user_id, "kind": kind.value}
        found = self._ids.get(user_id).find(query, {"_id": 0, "thing": 1, "number": 1})
        return {doc["thing"]: doc["number"] for doc in found}

    @translate_errors
    def add_numbers(self, user_id: int, kind: ShortIdKind, numbers: Mapping[int, int]) -> None:
        """Store new numbers; leave out those that another request has given to something else."""
        docs = [
            {"user_id": user_id, "kind": kind.value, "thing": thing, "number": number}
            for thing, number in numbers.items()
        ]
        try:
            self._ids.get(user_id).insert_many(docs, ordered=False)
        except BulkWriteError as e:
            if any(error["code"] != _DUPLICATE for error in e.details["writeErrors"]):
                raise

    @translate_errors
    def find_things(self, user_id: int, kind: ShortIdKind, numbers: Collection[int]) -> dict[int, int]:
        """Return number → id, for those of these numbers that exist."""
        query = {"user_id": user_id, "kind": kind.value, "number": {"$in": list(numbers)}}
        found = self._ids.get(user_id).find(query, {"_id": 0, "thing": 1, "number": 1})
        return {doc["number"]: doc["thing"] for doc in found}
