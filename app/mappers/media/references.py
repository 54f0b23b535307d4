"""References to blobs: the collections ``files`` and ``sources``, counted together; and users' storage."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable

from bson.binary import Binary
from pymongo import DESCENDING
from pymongo.collection import Collection as Table
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session
from app.models.media.blob import Purpose
from app.models.media.source import SourceState
from app.models.media.upload import Usage


class ReferenceMapper:
    """Counts the files and the sources in state ready that name a blob."""

    def __init__(self, database: Database[Doc]) -> None:
        self._files: Table[Doc] = database["files"]
        self._sources: Table[Doc] = database["sources"]
        self._usage: Table[Doc] = database["usage"]

    @translate_errors
    def count(self, blob_ids: Iterable[bytes], session: Session | None = None) -> Counter[bytes]:
        """Return the number of references of each of these blobs; blobs without any are missing."""
        wanted, counts = [Binary(i) for i in blob_ids], Counter[bytes]()
        files: Doc = {"blob": {"$in": wanted}}
        for table, query, index in (
            (self._files, files, "blob_user"),
            (self._sources, {**files, "state": SourceState.READY.value}, "blob"),
        ):
            pipeline: list[Doc] = [{"$match": query}, {"$group": {"_id": "$blob", "count": {"$sum": 1}}}]
            for doc in table.aggregate(pipeline, session=session, hint=index):
                counts[bytes(doc["_id"])] += doc["count"]
        return counts

    @translate_errors
    def find_in_files(self, blob_ids: Iterable[bytes]) -> set[bytes]:
        """Return those of these blobs that some file names."""
        query = {"blob": {"$in": [Binary(i) for i in blob_ids]}}
        found = self._files.find(query, {"_id": 0, "blob": 1}).hint("blob_user")
        return {bytes(doc["blob"]) for doc in found}

    @translate_errors
    def list_after(self, after: bytes, limit: int) -> list[bytes]:
        """Return different blob ids above ``after`` that files or sources name, ascending."""
        found: set[bytes] = set()
        query = {"blob": {"$gt": Binary(after)}}
        until: bytes | None = None
        for table, index in ((self._files, "blob_user"), (self._sources, "blob")):
            rows = table.find(query, {"_id": 0, "blob": 1}).hint(index).sort("blob").limit(limit)
            named = [bytes(doc["blob"]) for doc in rows]
            found.update(named)
            if (
                len(named) == limit
            ):  # there may be more behind it, so that the other list is complete only up to here
                until = min(until or named[-1], named[-1])
        return sorted(blob_id for blob_id in found if until is None or blob_id <= until)

    @translate_errors
    def remove_sources(
        self, source_ids: Iterable[bytes], session: Session
    ) -> list[tuple[bytes, bytes | None, Purpose]]:
        """Delete sources, inside a transaction; return id, blob and purpose of those that existed."""
        query = {"_id": {"$in": [Binary(i) for i in source_ids]}}
        found = list(self._sources.find(query, {"blob": 1, "kind": 1, "state": 1}, session=session))
        self._sources.delete_many({"_id": {"$in": [doc["_id"] for doc in found]}}, session=session)
        return [
            (
                bytes(doc["_id"]),
                bytes(doc["blob"]) if doc["state"] == SourceState.READY.value else None,
                Purpose(doc["kind"]),
            )
            for doc in found
        ]

    @translate_errors
    def list_storage(self, limit: int, after: tuple[int, int] | None = None) -> dict[int, Usage]:
        """Return the users who store something, those who store most first, with their storage.

        Args:
            after: size of the files and id of the user before the first one.
        """
        query: Doc = {"$or": [{"finished": {"$gt": 0}}, {"reserved": {"$gt": 0}}]}
        if after is not None:
            size, user_id = after
            same = {"finished": size, "_id": {"$lt": user_id}}
            query = {
                "finished": {"$lte": size},
                "$and": [query, {"$or": [{"finished": {"$lt": size}}, same]}],
            }
        order = [("finished", DESCENDING), ("_id", DESCENDING)]
        found = self._usage.find(query).hint("storage").sort(order)
        fields = ("finished", "reserved", "unfinished")
        return {
            doc["_id"]: Usage(**{name: int(doc.get(name, 0)) for name in fields}, quota=doc.get("quota"))
            for doc in found.limit(limit)
        }

    @translate_errors
    def fetch_again(self, blob_id: bytes, now: dt.datetime) -> int:
        """Let the sources of a blob be fetched anew, with a new body; return how many there are."""
        change = {"$set": {"next_at": now, "etag": None, "modified": None}}
        return self._sources.update_many({"blob": Binary(blob_id)}, change, hint="blob").matched_count
