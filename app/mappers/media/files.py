"""Users' files: the collection ``files``.

    {_id, user_id, blob, purpose, name, size, owners?, loose?}

A file without owners has ``loose``, the time since when; it is deleted after a while. Ids are microseconds
since the epoch, so they also tell when a file was stored.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Sequence

from bson.binary import Binary
from bson.int64 import Int64
from pymongo import DESCENDING
from pymongo.collection import Collection as Table
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session
from app.models.media.blob import Purpose
from app.models.media.sizes import SIZES
from app.models.media.user_file import OWNERS_MAX, SYSTEM, UserFile


class FileMapper:
    """Document ↔ :class:`UserFile`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._files: Table[Doc] = database["files"]

    @translate_errors
    def add(self, file: UserFile, session: Session) -> None:
        """Store a new file."""
        doc: Doc = {
            "_id": Int64(file.id),
            "user_id": Int64(file.user_id),
            "blob": Binary(file.blob),
            "purpose": file.purpose.value,
            "name": file.name,
            "size": Int64(file.size),
        }
        if file.owners:
            doc["owners"] = list(file.owners)
        else:
            doc["loose"] = file.loose
        self._files.insert_one(doc, session=session)

    # -- reading
    @translate_errors
    def find(self, file_id: int, session: Session | None = None) -> UserFile | None:
        """Return a file of any user; the caller decides who may see it."""
        doc = self._files.find_one({"_id": file_id}, session=session)
        return _parse_file(doc) if doc else None

    @translate_errors
    def find_many(
        self, user_id: int, file_ids: Collection[int], session: Session | None = None
    ) -> dict[int, UserFile]:
        """Return those of these files that belong to a user, by id."""
        if not file_ids:
            return {}
        query = {"_id": {"$in": list(file_ids)}, "user_id": user_id}
        return {d["_id"]: _parse_file(d) for d in self._files.find(query, session=session)}

    @translate_errors
    def list_by_user(self, user_id: int, limit: int, before: int) -> list[UserFile]:
        """Return a user's files with ids below ``before``, newest first."""
        query = {"user_id": user_id, "_id": {"$lt": before}}
        found = self._files.find(query).sort("_id", DESCENDING).hint("user").limit(limit)
        return [_parse_file(d) for d in found]

    @translate_errors
    def find_by_blobs(self, user_id: int, blob_ids: Iterable[bytes]) -> dict[bytes, UserFile]:
        """Return a user's newest file of each of these blobs; other blobs are missing.

        Drawn pictures don't count: they aren't what their blob's id is the hash of.
        """
        query: Doc = {
            "blob": {"$in": [Binary(i) for i in blob_ids]},
            "user_id": user_id,
            "purpose": {"$nin": [purpose.value for purpose in SIZES]},
        }
        found = self._files.find(query).hint("blob_user").sort("_id")
        return {bytes(doc["blob"]): _parse_file(doc) for doc in found}

    @translate_errors
    def find_by_owners(self, owners: Collection[str]) -> dict[str, list[UserFile]]:
        """Return the files of each of these owners, in the order of their ids."""
        found: dict[str, list[UserFile]] = {owner: [] for owner in owners}
        if owners:
            query = {"owners": {"$in": list(found)}}
            for doc in self._files.find(query).hint("owners").sort("_id"):
                for owner in found.keys() & set(doc["owners"]):
                    found[owner].append(_parse_file(doc))
        return found

    @translate_errors
    def sum_sizes(self, user_id: int, session: Session | None = None) -> int:
        """Return the bytes of all files of a user."""
        pipeline: list[Doc] = [
            {"$match": {"user_id": user_id}},
            {"$group": {"_id": None, "bytes": {"$sum": "$size"}}},
        ]
        return next((int(d["bytes"]) for d in self._files.aggregate(pipeline, session=session)), 0)

    @translate_errors
    def count_by_blobs(self, blob_ids: Iterable[bytes], session: Session | None = None) -> dict[bytes, int]:
        """Return how many files name each of these blobs; blobs without files are missing."""
        pipeline: list[Doc] = [
            {"$match": {"blob": {"$in": [Binary(i) for i in blob_ids]}}},
            {"$group": {"_id": "$blob", "count": {"$sum": 1}}},
        ]
        found = self._files.aggregate(pipeline, session=session, hint="blob_user")
        return {bytes(d["_id"]): d["count"] for d in found}

    @translate_errors
    def count_holders(self, blob: bytes, limit: int, before: dt.datetime) -> int:
        """Return how many users have had a blob since before a moment, counted up to ``limit``."""
        newest = round(before.timestamp() * 1_000_000)
        pipeline: list[Doc] = [
            {"$match": {"blob": Binary(blob), "user_id": {"$gt": SYSTEM}, "_id": {"$lt": newest}}},
            {"$group": {"_id": "$user_id"}},
            {"$limit": limit},
        ]
        return len(list(self._files.aggregate(pipeline, hint="blob_user")))

    @translate_errors
    def list_blobs_after(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return (file id, blob id) of files with ids above ``after``, ascending."""
        found = self._files.find({"_id": {"$gt": after}}, {"blob": 1}).sort("_id").limit(limit)
        return [(d["_id"], bytes(d["blob"])) for d in found]

    # -- owners
    @translate_errors
    def add_owner(self, user_id: int, file_ids: Collection[int], owner: str, session: Session) -> int:
        """Add an owner to a user's files; return how many of them have it now.

        A file that the user doesn't have, or that has the most owners already, isn't counted.
        """
        query: Doc = {
            "_id": {"$in": list(file_ids)},
            "user_id": user_id,
            "$or": [{"owners": owner}, {f"owners.{OWNERS_MAX - 1}": {"$exists": False}}],
        }
        change = {"$addToSet": {"owners": owner}, "$unset": {"loose": ""}}
        return self._files.update_many(query, change, session=session).matched_count

    @translate_errors
    def remove_owners(self, owners: Collection[str], now: dt.datetime, session: Session | None = None) -> int:
        """Take these owners from all files; files without any other are loose from ``now`` on."""
        query = {"owners": {"$in": list(owners)}}
        kept = {"$filter": {"input": "$owners", "cond": {"$not": {"$in": ["$$this", list(owners)]}}}}
        left = {"$gt": [{"$size": "$owners"}, 0]}
        change: Sequence[Doc] = [
            {"$set": {"owners": kept}},
            {
                "$set": {
                    "owners": {"$cond": [left, "$owners", "$$REMOVE"]},
                    "loose": {"$cond": [left, "$$REMOVE", now]},
                }
            },
        ]
        return self._files.update_many(query, change, session=session, hint="owners").modified_count

    @translate_errors
    def list_owners(self, prefix: str, after: str, limit: int) -> list[str]:
        """Return owners that begin with a prefix and follow ``after``, each once, in their order."""
        first, end = {"$gt": max(prefix, after)}, {"$lt": prefix[:-1] + chr(ord(prefix[-1]) + 1)}
        pipeline: list[Doc] = [
            {"$match": {"owners": {"$elemMatch": first | end}}},
            {"$project": {"owners": 1}},
            {"$unwind": "$owners"},
            {"$match": {"owners": first | end}},
            {"$group": {"_id": "$owners"}},
            {"$sort": {"_id": 1}},
            {"$limit": limit},
        ]
        return [doc["_id"] for doc in self._files.aggregate(pipeline, hint="owners")]

    @translate_errors
    def rename_owner(self, owner: str, new: str, session: Session | None = None) -> int:
        """Replace an owner of all files by another one; return how many files had it."""
        query, place = {"owners": owner}, {"$indexOfArray": ["$owners", owner]}
        others = {"$filter": {"input": "$owners", "cond": {"$not": {"$in": ["$$this", [owner, new]]}}}}
        change: Sequence[Doc] = [
            {
                "$set": {
                    "owners": {"$cond": [{"$gte": [place, 0]}, {"$concatArrays": [others, [new]]}, "$owners"]}
                }
            }
        ]
        return self._files.update_many(query, change, session=session, hint="owners").matched_count

    # -- deletion
    @translate_errors
    def remove(self, user_id: int, file_id: int, session: Session) -> UserFile | None:
        """Delete a user's file and return it; None: the user has no such file."""
        doc = self._files.find_one_and_delete({"_id": file_id, "user_id": user_id}, session=session)
        return _parse_file(doc) if doc else None

    @translate_errors
    def remove_owned(self, owner: str, session: Session) -> list[UserFile]:
        """Delete the files that only this owner uses, inside a transaction, and return them."""
        found = self._files.find({"owners": [owner]}, session=session).hint("owners")
        return self._remove_found([_parse_file(d) for d in found], session)

    @translate_errors
    def remove_batch(self, user_id: int, limit: int, session: Session) -> list[UserFile]:
        """Delete some files of a user, inside a transaction, and return them."""
        found = self._files.find({"user_id": user_id}, session=session).hint("user").limit(limit)
        return self._remove_found([_parse_file(d) for d in found], session)

    @translate_errors
    def find_rotten(self, before: dt.datetime, limit: int) -> list[int]:
        """Return files without owners since ``before``, the longest first."""
        found = self._files.find({"loose": {"$lt": before}}, {"_id": 1}).hint("loose").sort("loose")
        return [d["_id"] for d in found.limit(limit)]

    @translate_errors
    def remove_rotten(
        self, file_ids: Collection[int], before: dt.datetime, session: Session
    ) -> list[UserFile]:
        """Delete those of these files that still have had no owner since ``before``, and return them.

        Only inside a transaction: a file that gets an owner meanwhile makes it begin again.
        """
        query = {"_id": {"$in": list(file_ids)}, "loose": {"$lt": before}}
        return self._remove_found([_parse_file(d) for d in self._files.find(query, session=session)], session)

    def _remove_found(self, found: list[UserFile], session: Session) -> list[UserFile]:
        self._files.delete_many({"_id": {"$in": [file.id for file in found]}}, session=session)
        return found


def _parse_file(doc: Doc) -> UserFile:
    return UserFile(
        id=doc["_id"],
        user_id=doc["user_id"],
        blob=bytes(doc["blob"]),
        purpose=Purpose(doc["purpose"]),
        name=doc["name"],
        size=int(doc["size"]),
        owners=tuple(doc.get("owners", ())),
        loose=doc.get("loose"),
    )
