"""Sources of pictures: the collection ``sources``, one document per address.

A source that is ready names its blob until :meth:`SourceMapper.finish` names another one, whatever happens to
later fetches. So a blob's references are its files and the sources in state ready that name it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Sequence

from bson.binary import Binary
from pymongo import InsertOne, ReturnDocument
from pymongo.collection import Collection as MongoCollection
from pymongo.database import Database
from pymongo.errors import BulkWriteError

from app import clock
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import DUPLICATE_KEY, Doc, Session
from app.models.media.blob import Purpose
from app.models.media.source import Source, SourceState

#: Day of the last use, and id, of the source before the next ones.
RottenPosition = tuple[dt.datetime, bytes]

_NO_CLAIM = {"token": "", "claimed_until": ""}


class SourceMapper:
    """Document ↔ :class:`Source`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._sources: MongoCollection[Doc] = database["sources"]
        self._entries: MongoCollection[Doc] = database["entries"]
        self._feeds: MongoCollection[Doc] = database["feeds"]

    @translate_errors
    def find(self, ids: Collection[bytes]) -> dict[bytes, Source]:
        """Return the sources with these ids, by id."""
        found = self._sources.find({"_id": {"$in": [Binary(i) for i in ids]}}) if ids else ()
        return {source.id: source for source in map(_source, found)}

    @translate_errors
    def find_in(self, session: Session, source_id: bytes) -> Source | None:
        """Return a source as a transaction sees it."""
        doc = self._sources.find_one({"_id": Binary(source_id)}, session=session)
        return _source(doc) if doc else None

    @translate_errors
    def add(self, sources: Iterable[Source]) -> None:
        """Store new sources; leave out those that exist."""
        docs = [InsertOne(_new(source)) for source in sources]
        if not docs:
            return
        try:
            self._sources.bulk_write(docs, ordered=False)
        except BulkWriteError as e:
            refused = any(error["code"] != DUPLICATE_KEY for error in e.details["writeErrors"])
            if refused or e.details.get("writeConcernErrors"):
                raise

    @translate_errors
    def touch(self, ids: Collection[bytes], day: dt.datetime) -> None:
        """Record that these sources were shown on a day."""
        query = {"_id": {"$in": [Binary(i) for i in ids]}, "used": {"$lt": day}}
        self._sources.update_many(query, {"$set": {"used": day}})

    @translate_errors
    def claim(self, ids: Sequence[bytes], token: str, now: dt.datetime, until: dt.datetime) -> list[Source]:
        """Claim and return those sources that may be fetched now and that nobody else has claimed."""
        query = {
            "_id": {"$in": [Binary(i) for i in ids]},
            "next_at": {"$not": {"$gt": now}},
            "claimed_until": {"$not": {"$gt": now}},
        }
        claim = {"$set": {"token": token, "claimed_until": until}}
        if not self._sources.update_many(query, claim).matched_count:
            return []
        found = self._sources.find({"_id": query["_id"], "token": token, "claimed_until": until})
        return [_source(doc) for doc in found]

    @translate_errors
    def find_due(self, now: dt.datetime, limit: int) -> list[bytes]:
        """Return pictures in state wanted that may be fetched now and that nobody has claimed."""
        query = {
            "state": SourceState.WANTED.value,
            "kind": Purpose.PICTURE.value,
            "next_at": {"$not": {"$gt": now}},
            "claimed_until": {"$not": {"$gt": now}},
        }
        found = self._sources.find(query, {"_id": 1}).hint("due").sort("next_at", 1).limit(limit)
        return [bytes(doc["_id"]) for doc in found]

    @translate_errors
    def find_waiting(self, before: dt.datetime, now: dt.datetime, limit: int) -> list[bytes]:
        """Return sources whose body waits to be drawn and that nobody has claimed, the longest waiting first.

        Args:
            before: they are fetched again at this time or earlier, unless they were drawn until then.
        """
        query = {
            "waiting": True,
            "next_at": {"$lte": before},
            "claimed_until": {"$not": {"$gt": now}},
        }
        found = self._sources.find(query, {"_id": 1}).hint("waiting").sort("next_at", 1).limit(limit)
        return [bytes(doc["_id"]) for doc in found]

    @translate_errors
    def record_lost(self, source_id: bytes, token: str, next_at: dt.datetime) -> bool:
        """Record that a body is lost, so it must be fetched again; return whether the claim was valid."""
        change: Doc = {"state": _unless_ready(SourceState.WANTED), "next_at": next_at}
        update: list[Doc] = [{"$set": change}, {"$unset": [*_NO_CLAIM, "waiting"]}]
        query = {"_id": Binary(source_id), "token": token}
        return self._sources.update_one(query, update).matched_count > 0

    @translate_errors
    def claim_drawing(
        self,
        source_id: bytes,
        token: str,
        now: dt.datetime,
        until: dt.datetime,
        dead_tokens: Sequence[str] = (),
    ) -> Source | None:
        """Claim a source whose body waits to be drawn; None: there is none, or someone else draws it.

        Args:
            dead_tokens: tokens whose claims count no more.
        """
        free = [{"claimed_until": {"$not": {"$gt": now}}}, {"token": {"$in": list(dead_tokens)}}]
        doc = self._sources.find_one_and_update(
            {"_id": Binary(source_id), "waiting": True, "$or": free},
            {"$set": {"token": token, "claimed_until": until}},
            return_document=ReturnDocument.AFTER,
        )
        return _source(doc) if doc else None

    @translate_errors
    def expire(self, ids: Collection[bytes], now: dt.datetime) -> None:
        """Let sources be fetched again at once."""
        query = {"_id": {"$in": [Binary(i) for i in ids]}, "next_at": {"$gt": now}}
        self._sources.update_many(query, {"$set": {"next_at": now}})

    @translate_errors
    def release(self, ids: Sequence[bytes], token: str, next_at: dt.datetime) -> None:
        """Release claims; the sources may be fetched from ``next_at`` on."""
        query = {"_id": {"$in": [Binary(i) for i in ids]}, "token": token}
        self._sources.update_many(query, {"$set": {"next_at": next_at}, "$unset": _NO_CLAIM})

    @translate_errors
    def postpone(self, source_id: bytes, token: str, next_at: dt.datetime) -> None:
        """Release a claim until a source may be fetched."""
        update = {"$set": {"next_at": next_at}, "$unset": _NO_CLAIM}
        self._sources.update_one({"_id": Binary(source_id), "token": token}, update)

    @translate_errors
    def record_fetched(
        self,
        source_id: bytes,
        token: str,
        *,
        etag: str | None,
        modified: str | None,
        next_at: dt.datetime,
        home: str | None,
    ) -> bool:
        """Record that a source's body waits to be drawn; return whether the claim was still valid.

        Args:
            next_at: when it is fetched again unless it was drawn until then.
            home: id of the EVENTR_HOME that has the body.
        """
        change: Doc = {
            "state": _unless_ready(SourceState.FETCHED),
            "waiting": True,
            "etag": {"$literal": etag},
            "modified": {"$literal": modified},
            "home": {"$literal": home},
            "next_at": next_at,
        }
        update: list[Doc] = [{"$set": change}, {"$unset": list(_NO_CLAIM)}]
        query = {"_id": Binary(source_id), "token": token}
        return self._sources.update_one(query, update).matched_count > 0

    @translate_errors
    def record_unchanged(self, source_id: bytes, token: str, next_at: dt.datetime) -> None:
        """Record that a source's body is still the one of its blob."""
        update = {
            "$set": {"next_at": next_at, "tries": 0},
            "$unset": {**_NO_CLAIM, "error": "", "waiting": ""},
        }
        self._sources.update_one({"_id": Binary(source_id), "token": token}, update)

    @translate_errors
    def record_failure(self, source_id: bytes, token: str, error: str, next_at: dt.datetime) -> bool:
        """Record a failed fetch or drawing; a source that was ready stays so.

        Returns:
            Whether the claim was still valid.
        """
        change: Doc = {
            "state": _unless_ready(SourceState.FAILED),
            "error": {"$literal": error},
            "tries": {"$add": [{"$ifNull": ["$tries", 0]}, 1]},
            "next_at": next_at,
        }
        update: list[Doc] = [{"$set": change}, {"$unset": [*_NO_CLAIM, "waiting"]}]
        query = {"_id": Binary(source_id), "token": token}
        return self._sources.update_one(query, update).matched_count > 0

    @translate_errors
    def finish(
        self, session: Session, source_id: bytes, token: str, blob_id: bytes, next_at: dt.datetime
    ) -> Source | None:
        """Let a source name its blob; return the source as it was, None if the claim isn't valid anymore."""
        update: Doc = {
            "$set": {
                "state": SourceState.READY.value,
                "blob": Binary(blob_id),
                "next_at": next_at,
                "tries": 0,
            },
            "$unset": {**_NO_CLAIM, "error": "", "waiting": ""},
        }
        doc = self._sources.find_one_and_update(
            {"_id": Binary(source_id), "token": token}, update, session=session
        )
        return _source(doc) if doc else None

    @translate_errors
    def find_rotten(
        self, before: dt.datetime, limit: int, after: RottenPosition | None = None, *, icons: bool = True
    ) -> tuple[list[Source], RottenPosition | None]:
        """Return sources that were last shown before a day, the oldest first, and where the next ones begin.

        Sources of entries that someone has starred, tagged or shared, and those of feeds' icons, count as
        shown today instead, so fewer than ``limit`` may be returned although there are more. The position is
        None after the last one.

        Args:
            after: the position that the last call has returned.
            icons: whether to return icons, too.
        """
        query: Doc = {"used": {"$lt": before}}
        if after is not None:
            day, last = after
            query["used"]["$gte"] = day
            query["$or"] = [{"used": {"$gt": day}}, {"_id": {"$gt": Binary(last)}}]
        if not icons:
            query["kind"] = {"$ne": Purpose.ICON.value}
        rows = list(self._sources.find(query).sort([("used", 1), ("_id", 1)]).hint("seen").limit(limit))
        position = (rows[-1]["used"], bytes(rows[-1]["_id"])) if len(rows) == limit else None
        found = [_source(doc) for doc in rows]
        entries = [source.entry for source in found if source.entry]
        wanted = {"_id": {"$in": entries}, "stars": {"$gt": 0}}
        held = {doc["_id"] for doc in self._entries.find(wanted, {"_id": 1})} if entries else set()
        shown = self._find_shown([source.id for source in found if source.purpose is Purpose.ICON])
        kept = {source.id for source in found if source.entry in held or source.id in shown}
        if kept:
            today = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
            self.touch(kept, today)
        return [source for source in found if source.id not in kept], position

    def _find_shown(self, ids: Sequence[bytes]) -> set[bytes]:
        """Return which of these sources are icons of feeds. Those are only asked for once a week."""
        if not ids:
            return set()
        query = {"icon_source": {"$in": [Binary(i) for i in ids]}}
        return {bytes(doc["icon_source"]) for doc in self._feeds.find(query, {"icon_source": 1})}

    @translate_errors
    def remove(self, session: Session, source_id: bytes) -> Source | None:
        """Delete a source and return it; None: there is none."""
        doc = self._sources.find_one_and_delete({"_id": Binary(source_id)}, session=session)
        return _source(doc) if doc else None


def _unless_ready(state: SourceState) -> Doc:
    """Return the expression of a new state; a source with a blob stays ready."""
    has_blob = {"$eq": [{"$type": "$blob"}, "binData"]}
    return {"$cond": [has_blob, SourceState.READY.value, state.value]}


def _new(source: Source) -> Doc:
    return {
        "_id": Binary(source.id),
        "url": source.url,
        "page": source.page,
        "feed": source.feed,
        "entry": source.entry,
        "kind": source.purpose.value,
        "state": source.state.value,
        "used": source.used,
        "tries": 0,
    }


def _source(doc: Doc) -> Source:
    blob = doc.get("blob")
    return Source(
        id=bytes(doc["_id"]),
        url=doc["url"],
        purpose=Purpose(doc["kind"]),
        page=doc.get("page"),
        feed=doc.get("feed"),
        entry=doc.get("entry"),
        is_waiting=doc.get("waiting", False),
        state=SourceState(doc["state"]),
        blob=bytes(blob) if blob is not None else None,
        etag=doc.get("etag"),
        modified=doc.get("modified"),
        error=doc.get("error"),
        tries=doc.get("tries", 0),
        next_at=doc.get("next_at"),
        used=doc.get("used"),
        home=doc.get("home"),
    )
