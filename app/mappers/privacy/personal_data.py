"""Personal data of a user, read in batches from all collections that hold it.

Every query contains the user's id and uses keyset paging. So each batch takes equally long, and no cursor
stays open while a file is written.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

from pymongo.database import Database

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.mappers.sharing.shares import parse_share
from app.models.sharing.sharing import RelationshipKind, Share


class MarkRecord(NamedTuple):
    """A mark of an entry with its times; None: not starred, tagged or liked."""

    entry_id: int
    feed_id: int
    starred: dt.datetime | None
    tagged: dt.datetime | None
    liked: dt.datetime | None
    tags: tuple[int, ...]


class CommentRecord(NamedTuple):
    """A user's own comment."""

    id: int
    share_id: int
    text: str
    at: dt.datetime
    edited: dt.datetime | None
    answer: bool


class LikeRecord(NamedTuple):
    """A user's like of a share."""

    share_id: int
    at: dt.datetime


class PersonalDataMapper:
    """Reads personal data; ``after`` is the key of the previous batch's last row, None: from the start."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._home = cells.home.database

    def _batch(
        self, database: Database[Doc], name: str, query: Doc, key: str, *, after: Any, limit: int, hint: str
    ) -> list[Doc]:
        if after is not None:
            query = {**query, key: {"$gt": after}}
        return list(database[name].find(query).sort(key, 1).limit(limit).hint(hint))

    @translate_errors
    def list_marks(self, user_id: int, time_field: str, after: int | None, limit: int) -> list[MarkRecord]:
        """Return the marks with ``time_field`` (``starred_at``, ``tagged_at``, ``liked_at``), by entry id."""
        query = {"user_id": user_id, time_field: {"$type": "date"}}
        docs = self._batch(
            self._cells.get_database(user_id),
            "marks",
            query,
            "entry_id",
            after=after,
            limit=limit,
            hint="user_entry",
        )
        return [
            MarkRecord(
                d["entry_id"],
                d["feed_id"],
                d.get("starred_at"),
                d.get("tagged_at"),
                d.get("liked_at"),
                tuple(d.get("tags") or ()),
            )
            for d in docs
        ]

    @translate_errors
    def list_shares(self, user_id: int, after: int | None, limit: int) -> list[Share]:
        """Return a user's shares, sorted by the shared entry; removed shares are left out."""
        query = {"user_id": user_id, "live": True}
        return [
            parse_share(d)
            for d in self._batch(self._home, "shares", query, "of", after=after, limit=limit, hint="user_of")
        ]

    @translate_errors
    def list_comments(self, user_id: int, after: int | None, limit: int) -> list[CommentRecord]:
        """Return a user's comments, oldest first; removed comments are left out."""
        docs = self._batch(
            self._home, "comments", {"user_id": user_id}, "_id", after=after, limit=limit, hint="user"
        )
        return [
            CommentRecord(d["_id"], d["share_id"], d["text"], d["at"], d.get("edited"), "parent" in d)
            for d in docs
        ]

    @translate_errors
    def list_likes(self, user_id: int, after: int | None, limit: int) -> list[LikeRecord]:
        """Return a user's likes of shares."""
        docs = self._batch(
            self._home, "likes", {"user_id": user_id}, "share_id", after=after, limit=limit, hint="user_share"
        )
        return [LikeRecord(d["share_id"], d["at"]) for d in docs]

    @translate_errors
    def list_relationships(
        self, user_id: int, kind: RelationshipKind, after: int | None, limit: int
    ) -> list[tuple[int, dt.datetime]]:
        """Return (user id, time) of a user's relationships of this kind."""
        query = {"user_id": user_id, "kind": kind.value}
        docs = self._batch(self._home, "ties", query, "to", after=after, limit=limit, hint="user_kind_to")
        return [(d["to"], d["at"]) for d in docs]

    @translate_errors
    def list_stream_views(self, user_id: int) -> list[dict[str, Any]]:
        """Return a user's display settings of streams, as stored; their number is limited."""
        shown = {"_id": 0, "user_id": 0}
        return list(
            self._cells.get_database(user_id)["streamviews"]
            .find({"user_id": user_id}, shown)
            .sort("stream", 1)
        )

    @translate_errors
    def list_positions(self, user_id: int) -> list[dict[str, Any]]:
        """Return a user's positions in recordings, the latest first; their number is limited."""
        shown = {"_id": 0, "url": 1, "seconds": 1, "duration": 1, "at": 1}
        return list(
            self._cells.get_database(user_id)["playback"].find({"user_id": user_id}, shown).sort("at", -1)
        )

    @translate_errors
    def list_former_names(self, user_id: int) -> list[dict[str, Any]]:
        """Return the former names reserved for a user, and until when."""
        doc = self._home["users"].find_one({"_id": user_id}, {"former": 1}) or {}
        return [{"name": one["key"], "until": one["until"]} for one in doc.get("former", ())]

    @translate_errors
    def list_devices(self, user_id: int) -> list[dict[str, Any]]:
        """Return a user's push devices, without their endpoints and keys."""
        shown = {"_id": 0, "agent": 1, "language": 1, "created": 1, "used": 1}
        return list(self._home["devices"].find({"user_id": user_id}, shown).sort("created", 1))

    @translate_errors
    def list_tokens(self, user_id: int) -> list[dict[str, Any]]:
        """Return a user's app passwords and access tokens, without their secrets."""
        shown = dict.fromkeys(("kind", "name", "scopes", "stream", "created", "used", "agent", "expires"), 1)
        found = self._home["tokens"].find({"user_id": user_id}, {"_id": 0, **shown})
        return list(found.sort("created", 1))

    @translate_errors
    def list_looked_for(self, user_id: int) -> list[dict[str, Any]]:
        """Return the sites on which a feed is looked for on behalf of a user, until when it is known."""
        asked = list(self._home["crawl_askers"].find({"user_id": user_id}).sort("expires", 1))
        sites = self._home["crawls"].find({"_id": {"$in": [one["crawl_id"] for one in asked]}}, {"host": 1})
        hosts = {doc["_id"]: doc["host"] for doc in sites}
        return [
            {"site": hosts[one["crawl_id"]], "expires": one["expires"]}
            for one in asked
            if one["crawl_id"] in hosts
        ]

    @translate_errors
    def list_reports(self, user_id: int) -> list[dict[str, Any]]:
        """Return a user's open reports, with only the user's own text."""
        shown = {"_id": 0, "about": 1, "reason": 1, "text": 1, "at": 1}
        return list(self._home["reports"].find({"user_id": user_id}, shown).sort("at", 1).limit(1000))
