"""Shares: the collection ``shares``. Queries for a chain contain ``of``, the shard key; other queries name
ids.

    {_id, of, of_feed, user_id, feed_id, seq, left?, at, path, note, audience, stream?, edited?, live?,
     removed?, stars?}

``stream`` is the audience of the sharer's stream if it isn't public, so that visible shares can be counted
without reading the profile.

``path`` holds the ids of the shares from the root down to this one, with 14 hexadecimal digits each. Sorted
as text this is the order of a nested list, older branches first, and everything below a share is one range.
So one index pages through a tree of any size. (Binary values would be sorted by length first.)
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence

from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.errors import ConflictError, ExistsError
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import BATCH, Doc, Session, is_duplicate, run_pipelines
from app.models.sharing.sharing import Audience, Origin, Share

#: Digits of an id in a path: 53 bits.
WIDTH = 14


_PUBLIC: Doc = {"audience": Audience.PUBLIC.value, "stream": None}


@dataclasses.dataclass(frozen=True, slots=True)
class VisibilityFilter:
    """A filter for the shares in a chain that a viewer may see, as far as the share documents show it.

    Attributes:
        user_id: the viewer; None: a stranger.
        feed_ids: feeds of the people whom the viewer follows.
        without: people who block the viewer, or whom the viewer blocks.
    """

    user_id: int | None = None
    feed_ids: Sequence[int] = ()
    without: Sequence[int] = ()

    def build_query(self) -> Doc:
        seen: list[Doc] = [_PUBLIC]
        if self.feed_ids:
            nobody = {"$ne": Audience.PRIVATE.value}
            seen.append({"audience": nobody, "stream": nobody, "feed_id": {"$in": list(self.feed_ids)}})
        if self.user_id is not None:
            seen.append({"user_id": self.user_id})
        query: Doc = {"live": True, "$or": seen}
        return {**query, "user_id": {"$nin": list(self.without)}} if self.without else query


class ShareMapper:
    """Document ↔ :class:`Share`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._shares: Collection[Doc] = database["shares"]

    @translate_errors
    def add(self, share: Share, stream: Audience, session: Session) -> int:
        """Store a share; return how many stars its entry had when it was removed, 0 for a new share.

        Args:
            stream: the audience of the sharer's stream.

        Raises:
            ExistsError: this person already shares this entry; the transaction has ended.
            ConflictError: the id is taken; the transaction has ended.
        """
        doc = build_share_doc(share)
        if stream is not Audience.PUBLIC:
            doc["stream"] = stream.value
        try:
            # A removed share leaves its document for its re-shares; a restored one replaces it.
            was = self._shares.find_one_and_delete({"_id": share.id, "live": None}, session=session)
            self._shares.insert_one(doc, session=session)
        except DuplicateKeyError as e:
            if is_duplicate(e, "user_id"):
                raise ExistsError("You've already shared this.", entry_id=share.of.entry_id) from e
            raise ConflictError(share_id=share.id) from e
        return int((was or {}).get("stars", 0))

    @translate_errors
    def find(self, share_id: int, session: Session | None = None) -> Share | None:
        """Return a share, even a removed one."""
        doc = self._shares.find_one({"_id": share_id}, session=session)
        return parse_share(doc) if doc else None

    @translate_errors
    def find_many(self, share_ids: Sequence[int]) -> dict[int, Share]:
        """Return the shares that exist, removed ones included, by id."""
        return {d["_id"]: parse_share(d) for d in self._shares.find({"_id": {"$in": list(share_ids)}})}

    @translate_errors
    def find_own(self, user_id: int, origins: Sequence[int]) -> dict[int, Share]:
        """Return a person's own shares of these entries, by entry id."""
        query = {"user_id": user_id, "of": {"$in": list(origins)}, "live": True}
        return {d["of"]: parse_share(d) for d in self._shares.find(query)}

    @translate_errors
    def find_among(self, origins: Sequence[int], feed_ids: Sequence[int]) -> list[Share]:
        """Return the shares of these entries in these feeds, oldest first."""
        query = {"of": {"$in": list(origins)}, "feed_id": {"$in": list(feed_ids)}, "live": True}
        found = self._shares.find(query, batch_size=BATCH).hint("of_feed")
        return sorted((parse_share(d) for d in found), key=lambda s: s.id)

    @translate_errors
    def update(
        self,
        share_id: int,
        user_id: int,
        note: str,
        *,
        audience: Audience,
        now: dt.datetime,
        session: Session,
    ) -> tuple[Share, Share] | None:
        """Change the note and the audience of a share.

        Returns:
            The share before and after the change; None: the user has no such share.
        """
        query = {"_id": share_id, "user_id": user_id, "live": True}
        was = self._shares.find_one(query, session=session)
        if was is None:
            return None
        changes: Doc = {"note": note, "audience": audience.value}
        if was["note"] != note:
            changes["edited"] = now
        self._shares.update_one(query, {"$set": changes}, session=session)
        return parse_share(was), parse_share({**was, **changes})

    @translate_errors
    def remove(self, share_id: int, user_id: int, now: dt.datetime, session: Session) -> Share | None:
        """Remove a share and return it as it was, or None; its place in chains stays."""
        query = {"_id": share_id, "user_id": user_id, "live": True}
        gone = {"$set": {"removed": now, "note": ""}, "$unset": {"live": "", "edited": ""}}
        doc = self._shares.find_one_and_update(query, gone, session=session)
        return parse_share(doc) if doc else None

    @translate_errors
    def list_chain(
        self, origin_id: int, visibility: VisibilityFilter, after: str, limit: int
    ) -> list[tuple[Share, str]]:
        """Return the visible shares of a root, each with its path, in the order of a nested list."""
        query = {"of": origin_id, **visibility.build_query()}
        if after:
            query["path"] = {"$gt": after}
        found = self._shares.find(query).sort("path").limit(limit).hint("chain")
        return [(parse_share(d), d["path"]) for d in found]

    @translate_errors
    def find_last(self, origin_id: int, limit: int) -> list[Share]:
        """Return the latest public shares of a root, latest first."""
        query = {"of": origin_id, "live": True, **_PUBLIC}
        return [parse_share(d) for d in self._shares.find(query).hint("of_last").sort("_id", -1).limit(limit)]

    @translate_errors
    def count(self, origin_id: int, visibility: VisibilityFilter, limit: int) -> int:
        """Return how many shares of a root are visible, counted up to ``limit``."""
        return self._shares.count_documents(
            {"of": origin_id, **visibility.build_query()}, limit=limit, hint="chain"
        )

    @translate_errors
    def list_stream(
        self, user_id: int, audiences: Sequence[Audience], before: int | None, limit: int
    ) -> list[Share]:
        """Return a person's live shares with one of these audiences, newest first.

        Args:
            before: the share after which the page starts; None: the first page.
        """
        query = build_stream_query(user_id, audiences)
        if before is not None:
            query["_id"] = {"$lt": before}
        found = self._shares.find(query).sort("_id", -1).limit(limit).hint("user_stream")
        return [parse_share(d) for d in found] if audiences else []

    @translate_errors
    def count_stream(self, user_id: int, audiences: Sequence[Audience], limit: int) -> int:
        """Return how many live shares with one of these audiences a person has, up to ``limit``."""
        if not audiences:
            return 0
        return self._shares.count_documents(
            build_stream_query(user_id, audiences), limit=limit, hint="user_stream"
        )

    @translate_errors
    def find_public_descendants(self, shares: Sequence[Share], limit: int) -> dict[int, list[Share]]:
        """Return up to ``limit`` live public shares below each of these shares, at any depth."""
        parts: list[list[Doc]] = []
        for share in shares:
            mark = {"$set": {"below": share.id}}
            parts.append([{"$match": {**_within(share), "live": True, **_PUBLIC}}, {"$limit": limit}, mark])
        found: dict[int, list[Share]] = {share.id: [] for share in shares}
        for doc in run_pipelines(self._shares, parts, hint="chain"):
            found[doc["below"]].append(parse_share(doc))
        return found

    @translate_errors
    def find_descendants(self, share: Share, limit: int) -> list[Share]:
        """Return up to ``limit`` live shares below a share, at any depth and for any audience."""
        found = self._shares.find({**_within(share), "live": True}).sort("path", -1).limit(limit)
        return [parse_share(d) for d in found.hint("chain")]

    @translate_errors
    def set_stream_audience(self, user_id: int, stream: Audience) -> None:
        """Store the audience of a person's stream in all their live shares."""
        public = stream is Audience.PUBLIC
        update = {"$unset": {"stream": ""}} if public else {"$set": {"stream": stream.value}}
        self._shares.update_many({"user_id": user_id, "live": True}, update, hint="user_of")

    @translate_errors
    def find_by_user(self, user_id: int, limit: int) -> list[Share]:
        """Return at most ``limit`` live shares of a person."""
        found = self._shares.find({"user_id": user_id, "live": True}).hint("user_of").limit(limit)
        return [parse_share(d) for d in found]

    @translate_errors
    def find_ids_by_user(self, user_id: int) -> list[int]:
        """Return the ids of all shares of a person, including removed ones."""
        return [d["_id"] for d in self._shares.find({"user_id": user_id}, {"_id": 1})]


def build_stream_query(user_id: int, audiences: Sequence[Audience]) -> Doc:
    """Return the query for a person's live shares with one of these audiences."""
    return {"user_id": user_id, "live": True, "audience": {"$in": [a.value for a in audiences]}}


def _within(share: Share) -> Doc:
    """Return the query for the shares below a share."""
    path = pack_path((*share.path, share.id))
    # Paths below continue with hexadecimal digits, and "g" sorts after all of them.
    return {"of": share.of.entry_id, "path": {"$gt": path, "$lt": path + "g"}}


def pack_path(ids: Sequence[int]) -> str:
    """Return the stored form of a path of ids."""
    return "".join(f"{i:0{WIDTH}x}" for i in ids)


def unpack_path(path: str) -> tuple[int, ...]:
    """Return the ids in a stored path."""
    return tuple(int(path[i : i + WIDTH], 16) for i in range(0, len(path), WIDTH))


def build_share_doc(share: Share) -> Doc:
    """Return the document of a live share."""
    doc: Doc = {
        "_id": Int64(share.id),
        "of": Int64(share.of.entry_id),
        "of_feed": Int64(share.of.feed_id),
        "user_id": Int64(share.user_id),
        "feed_id": Int64(share.feed_id),
        "seq": Int64(share.seq),
        "at": share.at,
        "path": pack_path((*share.path, share.id)),
        "note": share.note,
        "audience": share.audience.value,
        "live": True,
    }
    if share.left:
        doc["left"] = Int64(share.left)
    return {**doc, "edited": share.edited} if share.edited else doc


def parse_share(doc: Doc) -> Share:
    """Return the share in a document."""
    return Share(
        id=doc["_id"],
        of=Origin(doc["of"], doc["of_feed"]),
        user_id=doc["user_id"],
        feed_id=doc["feed_id"],
        seq=doc["seq"],
        at=doc["at"],
        path=unpack_path(doc["path"])[:-1],
        note=doc["note"],
        audience=Audience(doc["audience"]),
        edited=doc.get("edited"),
        live=doc.get("live", False),
        left=doc.get("left", 0),
    )
