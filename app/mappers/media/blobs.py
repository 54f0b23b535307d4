"""Blobs and their states: the collection ``blobs``.

    {_id, g, old?, n, touched, kind, size, type, w?, h?, color?, frames, recipe, names, copies, want?, lost?}

Each change of a state is one conditional update (security.md U10). ``n`` counts the files and ready sources
that name a blob, and changes in one transaction with them. While its files are deleted it is -1, so that
nobody can use them. A new generation ``g`` then takes over without waiting for the deletion.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from bson.binary import Binary
from bson.int64 import Int64
from pymongo import DeleteOne, ReadPreference, UpdateOne
from pymongo.collection import Collection as Table
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError
from pymongo.read_concern import ReadConcern

from app.errors import ConflictError
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session
from app.models.media.blob import DELETING, Blob, BlobKind

#: A blob that may be used: its files aren't being deleted, and none was lost.
_USABLE: Doc = {"n": {"$gte": 0}, "lost": None}
#: Before any blob.
_FIRST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
#: Bytes of all files of a blob.
_STORED_BYTES: Doc = {"$sum": {"$map": {"input": {"$objectToArray": "$names"}, "in": "$$this.v"}}}


class BlobMapper:
    """Document ↔ :class:`Blob`, and the states of blobs."""

    def __init__(self, database: Database[Doc]) -> None:
        self._blobs: Table[Doc] = database["blobs"]
        # Code that deletes files must know the latest acknowledged state, not a lagging secondary's (U11).
        self._latest: Table[Doc] = self._blobs.with_options(
            read_concern=ReadConcern("majority"), read_preference=ReadPreference.PRIMARY
        )

    # -- reading
    @translate_errors
    def find(self, blob_id: bytes, session: Session | None = None) -> Blob | None:
        """Return a blob in any state."""
        doc = self._blobs.find_one({"_id": Binary(blob_id)}, session=session)
        return _parse_blob(doc) if doc else None

    @translate_errors
    def find_many(self, blob_ids: Collection[bytes]) -> dict[bytes, Blob]:
        """Return the blobs among these that exist and aren't being deleted, by id."""
        if not blob_ids:
            return {}
        found = self._blobs.find({"_id": {"$in": [Binary(i) for i in blob_ids]}, "n": {"$gte": 0}})
        return {bytes(doc["_id"]): _parse_blob(doc) for doc in found}

    @translate_errors
    def is_empty(self) -> bool:
        """Return whether there are no blobs at all."""
        return self._blobs.find_one({}, {"_id": 1}) is None

    # -- references; each in one transaction with the record that refers to the blob
    @translate_errors
    def add(self, blob: Blob, now: dt.datetime, session: Session) -> None:
        """Store a new blob with one reference.

        Raises:
            ConflictError: it exists; the transaction must end.
        """
        doc: Doc = {"_id": Binary(blob.id), "n": 1, "touched": now, **_build_fields(blob)}
        try:
            self._blobs.insert_one(doc, session=session)
        except DuplicateKeyError as e:
            raise ConflictError from e

    @translate_errors
    def use(self, blob_id: bytes, now: dt.datetime, session: Session) -> bool:
        """Add a reference; return False if the blob doesn't exist, is being deleted or has lost a file."""
        query = {"_id": Binary(blob_id), **_USABLE}
        change = {"$inc": {"n": 1}, "$set": {"touched": now}}
        return bool(self._blobs.update_one(query, change, session=session).matched_count)

    @translate_errors
    def take_over(self, blob: Blob, seen: Blob, now: dt.datetime, session: Session) -> bool:
        """Give a blob a new generation of files and one more reference; its old files are deleted later.

        Args:
            blob: the new generation and what it holds.
            seen: the blob as it was read; return False if its state or generation has changed since.
        """
        deleting = seen.references == DELETING
        query: Doc = {
            "_id": Binary(blob.id),
            "g": Int64(seen.generation),
            "n": DELETING if deleting else {"$gte": 0},
        }
        fields = _build_fields(blob)
        change: Doc = {
            "$set": {**fields, "touched": now, **({"n": 1} if deleting else {})},
            "$addToSet": {"old": Int64(seen.generation)},
            "$unset": {"lost": "", **({} if "want" in fields else {"want": ""})},
        }
        if not deleting:
            change["$inc"] = {"n": 1}
        return bool(self._blobs.update_one(query, change, session=session).matched_count)

    @translate_errors
    def release(self, counts: Mapping[bytes, int], now: dt.datetime, session: Session) -> int:
        """Remove references of each of these blobs; a blob with fewer of them stays as it is.

        Returns:
            How many blobs have lost their references.
        """
        # In one order, so that two transactions with the same blobs don't end each other.
        changes = [
            UpdateOne(
                {"_id": Binary(blob_id), "n": {"$gte": count}},
                {"$inc": {"n": -count}, "$set": {"touched": now}},
            )
            for blob_id, count in sorted(counts.items())
        ]
        return self._blobs.bulk_write(changes, session=session).matched_count if changes else 0

    # -- deletion, for the cleaner only
    @translate_errors
    def find_idle(self, before: dt.datetime, limit: int) -> list[bytes]:
        """Return blobs without references since ``before``, the longest first."""
        found = self._latest.find({"n": 0, "touched": {"$lt": before}}, {"_id": 1}).hint("idle")
        return [bytes(doc["_id"]) for doc in found.sort("touched").limit(limit)]

    @translate_errors
    def condemn(self, blob_ids: Collection[bytes], before: dt.datetime) -> list[Blob]:
        """Begin to delete those of these blobs that still have had no references since ``before``.

        Returns:
            The blobs among these that are being deleted now.
        """
        ids = {"$in": [Binary(i) for i in blob_ids]}
        query = {"_id": ids, "n": 0, "touched": {"$lt": before}}
        self._blobs.update_many(query, {"$set": {"n": DELETING}})
        return [_parse_blob(doc) for doc in self._latest.find({"_id": ids, "n": DELETING})]

    @translate_errors
    def find_condemned(self, limit: int, after: dt.datetime = _FIRST) -> list[Blob]:
        """Return blobs that are being deleted and were last touched after a time, the longest first."""
        found = self._latest.find({"n": DELETING, "touched": {"$gt": after}}).hint("idle")
        return [_parse_blob(doc) for doc in found.sort("touched").limit(limit)]

    @translate_errors
    def remove(self, blobs: Sequence[Blob]) -> int:
        """Delete blobs whose files are deleted, unless someone has taken them over since.

        Returns:
            How many were deleted.
        """
        if not blobs:
            return 0
        gone = [
            DeleteOne({"_id": Binary(blob.id), "n": DELETING, "g": Int64(blob.generation)}) for blob in blobs
        ]
        return self._blobs.bulk_write(gone, ordered=False).deleted_count

    @translate_errors
    def find_with_old(self, limit: int, after: bytes = b"") -> list[Blob]:
        """Return blobs above an id with old generations whose files are still to be deleted, ascending."""
        found = self._latest.find({"old": {"$exists": True}, "_id": {"$gt": Binary(after)}}).hint("old")
        return [_parse_blob(doc) for doc in found.sort("_id").limit(limit)]

    @translate_errors
    def forget_old(self, blob_id: bytes, generations: Collection[int]) -> None:
        """Record that the files of these old generations are deleted."""
        key = {"_id": Binary(blob_id)}
        self._blobs.update_one(key, {"$pullAll": {"old": [Int64(g) for g in generations]}})
        # Sparse index: only blobs with old generations are in it.
        self._blobs.update_one({**key, "old": []}, {"$unset": {"old": ""}})

    # -- stores
    @translate_errors
    def set_copies(self, blob: Blob, copies: Sequence[str], missing: Sequence[str]) -> bool:
        """Record which stores have and lack a blob; return False if its generation has changed."""
        change: Doc = {"$set": {"copies": list(copies)}}
        if missing:
            change["$set"]["want"] = list(missing)
        else:
            change["$unset"] = {"want": ""}
        query = {"_id": Binary(blob.id), "g": Int64(blob.generation)}
        return bool(self._blobs.update_one(query, change).matched_count)

    # -- checks
    @translate_errors
    def list_after(self, after: bytes, limit: int, until: bytes | None = None) -> list[Blob]:
        """Return blobs in any state with ids above ``after`` and up to ``until``, ascending."""
        span: Doc = {"$gt": Binary(after)}
        if until is not None:
            span["$lte"] = Binary(until)
        return [_parse_blob(d) for d in self._latest.find({"_id": span}).sort("_id").limit(limit)]

    @translate_errors
    def find_generations(self, blob_ids: Iterable[bytes]) -> dict[bytes, frozenset[int]]:
        """Return the generations of these blobs, present and old; blobs that don't exist are missing."""
        wanted = [Binary(i) for i in set(blob_ids)]
        found = self._latest.find({"_id": {"$in": wanted}}, {"g": 1, "old": 1})
        return {bytes(d["_id"]): frozenset({int(d["g"]), *map(int, d.get("old", ()))}) for d in found}

    @translate_errors
    def set_references(self, blob_id: bytes, count: int, now: dt.datetime, session: Session) -> None:
        """Correct the number of references.

        A referenced blob that was being deleted is marked as lost, because its files may be gone.
        """
        key = {"_id": Binary(blob_id)}
        change: Doc = {"$set": {"n": count, "touched": now}}
        if count:
            self._blobs.update_one({**key, "n": DELETING}, {"$set": {"lost": True}}, session=session)
        self._blobs.update_one(key, change, session=session)

    @translate_errors
    def mark_lost(self, blob: Blob) -> bool:
        """Record that no store has some file of a blob; return False if its generation has changed."""
        query = {"_id": Binary(blob.id), "g": Int64(blob.generation), "n": {"$gte": 0}}
        return bool(self._blobs.update_one(query, {"$set": {"lost": True}}).matched_count)

    @translate_errors
    def measure(self) -> dict[str, tuple[int, int]]:
        """Return for each kind the number of blobs and the bytes of their files."""
        group = {"_id": "$kind", "count": {"$sum": 1}, "bytes": {"$sum": _STORED_BYTES}}
        return {d["_id"]: (d["count"], int(d["bytes"])) for d in self._blobs.aggregate([{"$group": group}])}

    @translate_errors
    def list_pictures(self, after: bytes, limit: int) -> list[tuple[bytes, int]]:
        """Return (id, bytes of all files) of pictures in use with ids above ``after``, ascending."""
        pipeline: list[Doc] = [
            {"$match": {"_id": {"$gt": Binary(after)}, "kind": BlobKind.PICTURE.value, "n": {"$gt": 0}}},
            {"$sort": {"_id": 1}},
            {"$limit": limit},
            {"$project": {"bytes": _STORED_BYTES}},
        ]
        return [(bytes(d["_id"]), int(d["bytes"])) for d in self._blobs.aggregate(pipeline)]

    @translate_errors
    def count_lost(self) -> int:
        """Return how many blobs have a file that is in no store."""
        return self._blobs.count_documents({"lost": True})

    @translate_errors
    def count_states(self) -> dict[str, int]:
        """Return how many blobs are idle, being deleted, have old generations, lack a copy, or are lost."""
        return {
            "idle": self._blobs.count_documents({"n": 0}, hint="idle"),
            "deleting": self._blobs.count_documents({"n": DELETING}, hint="idle"),
            "old": self._blobs.count_documents({"old": {"$exists": True}}, hint="old"),
            "wanting": self._blobs.count_documents({"want": {"$exists": True}}, hint="wanting"),
            "lost": self.count_lost(),
        }


def _build_fields(blob: Blob) -> Doc:
    fields: dict[str, Any] = {
        "g": Int64(blob.generation),
        "kind": blob.kind.value,
        "size": Int64(blob.size),
        "type": blob.type,
        "frames": blob.frames,
        "recipe": blob.recipe,
        "names": {name: Int64(size) for name, size in blob.names.items()},
        "copies": list(blob.copies),
    }
    fields |= {
        key: value
        for key, value in (("w", blob.width), ("h", blob.height), ("color", blob.color))
        if value is not None
    }
    if blob.missing:
        fields["want"] = list(blob.missing)
    return fields


def _parse_blob(doc: Doc) -> Blob:
    return Blob(
        id=bytes(doc["_id"]),
        generation=int(doc["g"]),
        kind=BlobKind(doc["kind"]),
        size=int(doc["size"]),
        type=doc["type"],
        references=int(doc["n"]),
        touched=doc["touched"],
        old=tuple(map(int, doc.get("old", ()))),
        width=doc.get("w"),
        height=doc.get("h"),
        color=doc.get("color"),
        frames=doc["frames"],
        recipe=doc["recipe"],
        names={name: int(size) for name, size in doc["names"].items()},
        copies=tuple(doc["copies"]),
        missing=tuple(doc.get("want", ())),
        lost=doc.get("lost", False),
    )
