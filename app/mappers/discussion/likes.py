"""Likes of shares: finds and counts the people who liked an entry. The collection ``likes``.

    likes  {user_id, share_id, of, at}

Nothing is counted in a document of its own: the indexes are counted, up to a limit.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from bson import ObjectId
from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, run_pipelines
from app.models.sharing.sharing import Share


class LikeMapper:
    """Stores likes of shares, one document per person and share."""

    def __init__(self, database: Database[Doc]) -> None:
        self._likes: Collection[Doc] = database["likes"]

    @translate_errors
    def add(self, user_id: int, share: Share, now: dt.datetime) -> bool:
        """Store a like; return False if there already is one."""
        key = {"user_id": Int64(user_id), "share_id": Int64(share.id)}
        first = {"$setOnInsert": {"of": Int64(share.of.entry_id), "at": now}}
        try:
            return self._likes.update_one(key, first, upsert=True).upserted_id is not None
        except DuplicateKeyError:
            return False  # the same like at the same moment

    @translate_errors
    def remove(self, user_id: int, share_id: int) -> bool:
        """Delete a like; return False if there is none."""
        return bool(self._likes.delete_one({"user_id": user_id, "share_id": share_id}).deleted_count)

    @translate_errors
    def find_liked(self, user_id: int, share_ids: Sequence[int]) -> set[int]:
        """Return which of these shares a user likes."""
        query = {"user_id": user_id, "share_id": {"$in": list(share_ids)}}
        return {d["share_id"] for d in self._likes.find(query, {"_id": 0, "share_id": 1})}

    @translate_errors
    def find_by_user(self, user_id: int, limit: int) -> list[int]:
        """Return the ids of at most ``limit`` shares that a user likes."""
        found = self._likes.find({"user_id": user_id}, {"_id": 0, "share_id": 1}).limit(limit)
        return [d["share_id"] for d in found.hint("user_share")]

    @translate_errors
    def list_likers(self, share_id: int, limit: int, after: str = "") -> list[tuple[str, int]]:
        """Return (cursor, user id) of a share's likers, latest first; ``after``: the cursor to continue
        after.
        """
        query: Doc = {"share_id": share_id}
        if ObjectId.is_valid(after):
            query["_id"] = {"$lt": ObjectId(after)}
        found = self._likes.find(query, {"user_id": 1}).sort("_id", -1).limit(limit).hint("share")
        return [(str(d["_id"]), d["user_id"]) for d in found]

    @translate_errors
    def find_likers(self, share_ids: Sequence[int], limit: int) -> dict[int, list[int]]:
        """Return at most ``limit`` likers of each of these shares."""
        return find_people_by_share(self._likes, share_ids, {}, limit, "share")

    @translate_errors
    def remove_by_shares(self, share_ids: Sequence[int]) -> None:
        """Delete all likes of these shares."""
        self._likes.delete_many({"share_id": {"$in": list(share_ids)}})


def find_people_by_share(
    collection: Collection[Doc], share_ids: Sequence[int], where: Doc, limit: int, hint: str
) -> dict[int, list[int]]:
    """Return the users in the documents of each of these shares, from an index alone."""
    fields: Doc = {"$project": {"_id": 0, "share_id": 1, "user_id": 1}}
    found: dict[int, list[int]] = {share_id: [] for share_id in share_ids}
    parts: list[list[Doc]] = [
        [{"$match": {"share_id": i, **where}}, {"$limit": limit}, fields] for i in share_ids
    ]
    for doc in run_pipelines(collection, parts, hint=hint):
        found[doc["share_id"]].append(doc["user_id"])
    return found
