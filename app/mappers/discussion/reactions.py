"""Likes and comments of many shares, read together."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from pymongo.collection import Collection as Table
from pymongo.database import Database

from app.mappers.discussion.comments import parse_comment
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Part, run_parts
from app.models.discussion.comments import Comment
from app.runtime import identity_map


@dataclasses.dataclass(frozen=True, slots=True)
class Reactions:
    """Likes and comments of shares, up to a limit each.

    Attributes:
        likers: users by share.
        authors: authors of comments by share, one per comment.
        liked: the shares that one user likes.
    """

    likers: Mapping[int, Sequence[int]]
    authors: Mapping[int, Sequence[int]]
    liked: Collection[int]


class ReactionMapper:
    """Reads likes and comments of many shares in one query."""

    def __init__(self, database: Database[Doc]) -> None:
        self._likes: Table[Doc] = database["likes"]
        self._comments: Table[Doc] = database["comments"]

    @translate_errors
    def find(self, share_ids: Sequence[int], limit: int, user_id: int | None) -> Reactions:
        """Return likes and comments of shares, and which of the shares a user likes, from indexes alone."""
        fields: Doc = {"_id": 0, "share_id": 1, "user_id": 1}
        parts: list[Part] = []
        for share_id in share_ids:
            limited: list[Doc] = [{"$limit": limit}, {"$project": {**fields, "like": {"$literal": True}}}]
            parts.append(Part(self._likes, [{"$match": {"share_id": share_id}}, *limited], "share"))
            said: Doc = {"$match": {"share_id": share_id, "user_id": {"$gt": 0}}}
            parts.append(Part(self._comments, [said, {"$limit": limit}, {"$project": fields}], "share_user"))
        if user_id is not None and share_ids:
            mine: Doc = {"$match": {"user_id": user_id, "share_id": {"$in": list(share_ids)}}}
            own = {"$project": {"_id": 0, "share_id": 1, "own": {"$literal": True}}}
            parts.append(Part(self._likes, [mine, own], "user_share"))
        likers: dict[int, list[int]] = {share_id: [] for share_id in share_ids}
        authors: dict[int, list[int]] = {share_id: [] for share_id in share_ids}
        liked: set[int] = set()
        for doc in run_parts(parts):
            if "own" in doc:
                liked.add(doc["share_id"])
            else:
                (likers if "like" in doc else authors)[doc["share_id"]].append(doc["user_id"])
        return Reactions(likers, authors, liked)

    @translate_errors
    def find_told(
        self, share_ids: Sequence[int], limit: int, comment_ids: Sequence[int]
    ) -> tuple[dict[int, list[int]], dict[int, Comment]]:
        """Return the likers and comments that notifications are about.

        Returns:
            At most ``limit`` likers of each of these shares, latest first; the comments that exist, by id.
        """
        known = identity_map.find_kept("likes", "last of", share_ids)
        likers = {i: people[:limit] for i, (most, people) in known.items() if most >= limit}
        comments = identity_map.find_kept("comments", "comment", comment_ids)
        parts = [
            Part(
                self._likes,
                [
                    {"$match": {"share_id": i}},
                    {"$sort": {"_id": -1}},
                    {"$limit": limit},
                    {"$project": {"_id": 0, "share_id": 1, "user_id": 1, "like": {"$literal": True}}},
                ],
                "share",
            )
            for i in share_ids
            if i not in likers
        ]
        if missing := [i for i in comment_ids if i not in comments]:
            parts.append(Part(self._comments, [{"$match": {"_id": {"$in": missing}}}], "_id_"))
        versions = identity_map.get_version("likes"), identity_map.get_version("comments")
        new: dict[int, list[int]] = {i: [] for i in share_ids if i not in likers}
        read: dict[int, Comment | None] = dict.fromkeys(missing)
        for doc in run_parts(parts):
            if "like" in doc:
                new[doc["share_id"]].append(doc["user_id"])
            else:
                read[doc["_id"]] = parse_comment(doc)
        identity_map.keep_values(
            "likes", versions[0], "last of", {i: (limit, people) for i, people in new.items()}
        )
        identity_map.keep_values("comments", versions[1], "comment", read)
        there = {i: comment for i, comment in (comments | read).items() if comment is not None}
        return likers | new, there
