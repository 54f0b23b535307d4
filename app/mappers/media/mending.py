"""Blobs that a store lacks: the fields ``copies`` and ``want`` of the collection ``blobs``."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from bson.binary import Binary
from bson.int64 import Int64
from pymongo import ASCENDING, ReadPreference
from pymongo.collection import Collection as Table
from pymongo.database import Database
from pymongo.read_concern import ReadConcern

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc

#: Not marked as lost: some store has all of its files, as far as is known.
_PRESENT: Doc = {"lost": None}


class WantingBlob(NamedTuple):
    """A blob that a store lacks: its id, generation and the names of its files."""

    id: bytes
    generation: int
    names: tuple[str, ...]


class MendingMapper:
    """Finds blobs that a store lacks, and records that it has them."""

    def __init__(self, database: Database[Doc]) -> None:
        self._blobs: Table[Doc] = database["blobs"]
        self._latest: Table[Doc] = self._blobs.with_options(
            read_concern=ReadConcern("majority"), read_preference=ReadPreference.PRIMARY
        )

    @translate_errors
    def list_lacking(self) -> list[str]:
        """Return the names of the stores that lack blobs which another store has."""
        return [str(name) for name in self._latest.distinct("want", {"want": {"$exists": True}, **_PRESENT})]

    @translate_errors
    def find_wanting(self, store: str, span: tuple[bytes, bytes | None], limit: int) -> list[WantingBlob]:
        """Return blobs that a store lacks, ascending; none that are being deleted or that no store has.

        Args:
            span: the id before the first one, and the last possible id; None: no limit.
        """
        after, until = span
        ids: Doc = {"$gt": Binary(after)}
        if until is not None:
            ids["$lte"] = Binary(until)
        query = {"want": store, "_id": ids, "n": {"$gte": 0}, **_PRESENT}
        found = (
            self._latest.find(query, {"g": 1, "names": 1}).sort("_id", ASCENDING).limit(limit).hint("wanting")
        )
        return [WantingBlob(bytes(doc["_id"]), int(doc["g"]), tuple(doc["names"])) for doc in found]

    @translate_errors
    def record_copy(self, blob: WantingBlob, store: str) -> bool:
        """Record that a store has a blob; return False if the blob has another generation now."""
        key = {"_id": Binary(blob.id), "g": Int64(blob.generation)}
        change = {"$addToSet": {"copies": store}, "$pull": {"want": store}}
        matched = self._blobs.update_one(key, change).matched_count
        # Sparse index: only blobs that a store lacks are in it.
        self._blobs.update_one({**key, "want": []}, {"$unset": {"want": ""}})
        return bool(matched)

    @translate_errors
    def forget_stores(self, names: Collection[str]) -> None:
        """Record that these stores lack nothing, because they aren't used anymore."""
        gone = list(names)
        self._blobs.update_many({"want": {"$in": gone}}, {"$pull": {"want": {"$in": gone}}})
        self._blobs.update_many({"want": []}, {"$unset": {"want": ""}})
