"""Shares: the collection ``shares``. Queries for a chain contain ``of``, the shard key; other queries name
ids.

    {_id, of, of_feed, user_id, feed_id, seq, left?, at, path, note, audience, stream?, edited?, live?,
     closed?, removed?, stars?, files?}

``stream`` is the audience of the sharer's stream if it isn't public, so that visible shares can be counted
without reading the profile.

``path`` holds the ids of the shares from the root down to this one, with 14 hexadecimal digits each. Sorted
as text this is the order of a nested list, older branches first, and everything below a share is one range.
So one index pages through a tree of any size. (Binary values would be sorted by length first.)
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Sequence

from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.errors import ConflictError, ExistsError
from app.mappers.feeds.entries import parse_entry
from app.mappers.media.attachments import build_attachments, parse_attachments
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import (
    BATCH,
    Doc,
    Part,
    Session,
    find_and_update,
    is_duplicate,
    run_parts,
    run_pipelines,
)
from app.models.media.attachment import Attachment
from app.models.reading.entry import Entry
from app.models.sharing.sharing import Audience, Origin, Share
from app.runtime import identity_map

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
        self._entries: Collection[Doc] = database["entries"]

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
        if session is None:
            return self.find_many([share_id]).get(share_id)
        doc = self._shares.find_one({"_id": share_id}, session=session)
        return parse_share(doc) if doc else None

    @translate_errors
    def find_many(self, share_ids: Sequence[int]) -> dict[int, Share]:
        """Return the shares that exist, removed ones included, by id."""

        def _fetch(missing: Sequence[int]) -> dict[int, Share]:
            found = self._shares.find({"_id": {"$in": list(missing)}}, batch_size=BATCH)
            return {d["_id"]: parse_share(d) for d in found}

        return identity_map.find_each("shares", "share", share_ids, _fetch)

    @translate_errors
    def find_with_entry(self, entry_id: int, feed_ids: Sequence[int]) -> tuple[Entry | None, Share | None]:
        """Return an entry if it's in one of these feeds or a share, and the share, even a removed one."""
        version = identity_map.get_version("shares")
        # A cluster finds the shard by the feed; by the id alone, it would ask all of them.
        same_feed: Doc = {"$match": {"$expr": {"$eq": ["$feed_id", "$$feed"]}}}
        own: Doc = {
            "from": self._entries.name,
            "localField": "_id",
            "foreignField": "_id",
            "let": {"feed": "$feed_id"},
            "pipeline": [same_feed],
            "as": "joined",
        }
        parts = [
            Part(self._entries, [{"$match": {"_id": entry_id, "feed_id": {"$in": list(feed_ids)}}}], "_id_"),
            Part(self._shares, [{"$match": {"_id": entry_id}}, {"$lookup": own}], "_id_"),
        ]
        entry: Doc | None = None
        share: Share | None = None
        for doc in run_parts(parts):
            if "joined" in doc:
                share, entry = parse_share(doc), next(iter(doc["joined"]), None)
            else:
                entry = doc
        identity_map.keep_values("shares", version, "share", {entry_id: share})
        return parse_entry(entry) if entry else None, share

    def find_kept(self, share_ids: Sequence[int]) -> dict[int, Share]:
        """Return the shares that this request has read already, by id."""
        known = identity_map.find_kept("shares", "share", share_ids)
        return {i: share for i, share in known.items() if share is not None}

    @translate_errors
    def find_own(self, user_id: int, origins: Sequence[int]) -> dict[int, Share]:
        """Return a person's own shares of these entries, by entry id."""

        def _fetch(missing: Sequence[int]) -> dict[int, Share]:
            query = {"user_id": user_id, "of": {"$in": list(missing)}, "live": True}
            return {share.of.entry_id: share for share in self._parse(self._shares.find(query))}

        return identity_map.find_each("shares", f"own of {user_id}", origins, _fetch)

    def _parse(self, docs: Iterable[Doc]) -> list[Share]:
        """Return the shares of documents and keep them in the identity map, by id."""
        version = identity_map.get_version("shares")
        shares = [parse_share(doc) for doc in docs]  # a cursor sends its query now
        identity_map.keep_values("shares", version, "share", {share.id: share for share in shares})
        return shares

    @translate_errors
    def find_among(
        self, origins: Sequence[int], feed_ids: Sequence[int], user_id: int | None = None
    ) -> list[Share]:
        """Return the shares of these entries in these feeds or by this user, oldest first."""
        if not origins or not (feed_ids or user_id):
            return []

        def _fetch() -> list[Share]:
            of: Doc = {"of": {"$in": list(origins)}, "live": True}
            among = {**of, "feed_id": {"$in": list(feed_ids)}}
            if user_id is None:
                found = self._parse(self._shares.find(among, batch_size=BATCH).hint("of_feed"))
            else:
                version = identity_map.get_version("shares")
                own = {**of, "user_id": user_id}
                either = {"$or": [among, own]} if feed_ids else own
                found = self._parse(self._shares.find(either, batch_size=BATCH))
                mine = dict.fromkeys(origins) | {s.of.entry_id: s for s in found if s.user_id == user_id}
                identity_map.keep_values("shares", version, f"own of {user_id}", mine)
            return sorted(found, key=lambda s: s.id)

        key = frozenset(origins), frozenset(feed_ids), user_id
        return list(identity_map.find_once("shares", "among", key, _fetch))

    @translate_errors
    def update(
        self,
        share_id: int,
        user_id: int,
        note: str,
        *,
        audience: Audience,
        files: Sequence[Attachment],
        now: dt.datetime,
        session: Session,
    ) -> tuple[Share, Share] | None:
        """Change the note, the audience and the attachments of a share.

        Returns:
            The share before and after the change; None: the user has no such share.
        """
        query = {"_id": share_id, "user_id": user_id, "live": True}
        was = self._shares.find_one(query, session=session)
        if was is None:
            return None
        changes: Doc = {"note": note, "audience": audience.value}
        if files or "files" in was:
            changes["files"] = build_attachments(files)
        if was["note"] != note or parse_attachments(was.get("files")) != tuple(files):
            changes["edited"] = now
        self._shares.update_one(query, {"$set": changes}, session=session)
        return parse_share(was), parse_share({**was, **changes})

    @translate_errors
    def remove(self, share_id: int, user_id: int, now: dt.datetime, session: Session) -> Share | None:
        """Remove a share and return it as it was, or None; its place in chains stays."""
        query = {"_id": share_id, "user_id": user_id, "live": True}
        gone = {"$set": {"removed": now, "note": ""}, "$unset": {"live": "", "edited": "", "files": ""}}
        doc = find_and_update(self._shares, query, gone, session)
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
        return [(share, pack_path((*share.path, share.id))) for share in self._parse(found)]

    @translate_errors
    def find_last(
        self, origins: Sequence[int], faces: int, limit: int
    ) -> tuple[dict[int, list[Share]], dict[int, int]]:
        """Return the latest public shares of each root, latest first, and how many there are.

        Args:
            faces: shares per root.
            limit: where the count of a root stops.
        """
        parts: list[list[Doc]] = []
        for origin in origins:
            public: Doc = {"$match": {"of": origin, "live": True, **_PUBLIC}}
            parts.append([public, {"$sort": {"_id": -1}}, {"$limit": faces}])
            count: Doc = {"$group": {"_id": "$of", "count": {"$sum": 1}}}
            parts.append([public, {"$limit": limit}, {"$project": {"_id": 0, "of": 1}}, count])
        # The root itself, if it is a post: its own share holds its audience.
        parts.append([{"$match": {"_id": {"$in": list(origins)}}}, {"$set": {"root": True}}])
        version = identity_map.get_version("shares")
        docs = run_pipelines(self._shares, parts, hint="of_last") if origins else []
        counts = {d["_id"]: d["count"] for d in docs if "count" in d}
        read = {d["_id"]: parse_share(d) for d in docs if "count" not in d}
        identity_map.keep_values("shares", version, "share", {**dict.fromkeys(origins), **read})
        last: dict[int, list[Share]] = {origin: [] for origin in origins}
        for doc in docs:
            if "count" not in doc and "root" not in doc:
                last[doc["of"]].append(read[doc["_id"]])
        return last, counts

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
        return self._parse(found) if audiences else []

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
    def find_ids_by_feed(self, feed_id: int, user_id: int | None = None) -> list[int]:
        """Return the ids of the live shares of a feed's entries, all or those of a user, oldest first."""
        query: Doc = {"of_feed": feed_id, "live": True}
        hint = "origin_feed"
        if user_id is not None:
            query, hint = {**query, "user_id": user_id}, "user_of"
        return sorted(d["_id"] for d in self._shares.find(query, {"_id": 1}, batch_size=BATCH).hint(hint))

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
    if share.closed:
        doc["closed"] = share.closed.value
    if share.files:
        doc["files"] = build_attachments(share.files)
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
        closed=Audience(doc["closed"]) if "closed" in doc else None,
        files=parse_attachments(doc.get("files")),
    )
