"""Copies of read states that live for a day: stream snapshots and undos of mass actions."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping

from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.errors import translated
from app.mappers.store import Doc
from app.models.stream import Snapshot, Sort, SourceFeed, StreamRef
from app.models.subscription import ReadState


class SnapshotMapper:
    """Document ↔ :class:`Snapshot`. Every query carries ``user_id``."""

    def __init__(self, database: Database[Doc]) -> None:
        # Losing one costs a reload, so it does not wait for the journal.
        self._snapshots: Collection[Doc] = database["snapshots"]

    @translated
    def add(self, snapshot: Snapshot, expires: dt.datetime) -> None:
        """Keep a snapshot until ``expires``."""
        self._snapshots.insert_one(
            {
                "token": snapshot.token,
                "user_id": snapshot.user_id,
                "stream": str(snapshot.ref),
                "sort": snapshot.sort.value,
                "at": snapshot.at,
                "expires": expires,
                "feeds": [_source_doc(f) for f in snapshot.feeds.values()],
            }
        )

    @translated
    def get(self, user_id: int, token: str, now: dt.datetime) -> Snapshot | None:
        """Return a user's snapshot that has not expired."""
        query = {"user_id": user_id, "token": token, "expires": {"$gt": now}}
        doc = self._snapshots.find_one(query)
        return _snapshot(doc) if doc else None

    @translated
    def lasts(self, user_id: int, token: str, now: dt.datetime) -> tuple[StreamRef, dict[int, int]] | None:
        """Return the stream of a snapshot and its feeds' last numbers, without their read states."""
        query = {"user_id": user_id, "token": token, "expires": {"$gt": now}}
        doc = self._snapshots.find_one(query, {"stream": 1, "feeds.feed_id": 1, "feeds.last": 1})
        if doc is None:
            return None
        return StreamRef.parse(doc["stream"]), {d["feed_id"]: d["last"] for d in doc["feeds"]}


@dataclasses.dataclass(frozen=True, slots=True)
class Undo:
    """The read states that a mass action replaced, by feed."""

    token: str
    user_id: int
    before: Mapping[int, tuple[ReadState, str | None]]


class UndoMapper:
    """Document ↔ :class:`Undo`. Every query carries ``user_id``."""

    def __init__(self, database: Database[Doc]) -> None:
        self._undos: Collection[Doc] = database["undos"]

    @translated
    def add(self, undo: Undo, expires: dt.datetime) -> None:
        """Keep an undo until ``expires``; written before the action it takes back."""
        feeds = [
            {"feed_id": f, "upto": s.upto, "words": s.words, "unread": list(s.unread), "mass": mass}
            for f, (s, mass) in undo.before.items()
        ]
        doc = {"token": undo.token, "user_id": undo.user_id, "expires": expires, "feeds": feeds}
        self._undos.insert_one(doc)

    @translated
    def extend(self, undo: Undo) -> None:
        """Replace the states of some feeds: they had changed before they could be replaced."""
        for feed_id, (state, mass) in undo.before.items():
            self._undos.update_one(
                {"user_id": undo.user_id, "token": undo.token, "feeds.feed_id": feed_id},
                {
                    "$set": {
                        "feeds.$": {
                            "feed_id": feed_id,
                            "upto": state.upto,
                            "words": state.words,
                            "unread": list(state.unread),
                            "mass": mass,
                        }
                    }
                },
            )

    @translated
    def get(self, user_id: int, token: str, now: dt.datetime) -> Undo | None:
        """Return a user's undo that has not expired."""
        doc = self._undos.find_one({"user_id": user_id, "token": token, "expires": {"$gt": now}})
        if doc is None:
            return None
        before = {d["feed_id"]: (_state(d), d["mass"]) for d in doc["feeds"]}
        return Undo(doc["token"], doc["user_id"], before)

    @translated
    def remove(self, user_id: int, token: str) -> None:
        """Delete an undo."""
        self._undos.delete_one({"user_id": user_id, "token": token})


def _state(doc: Doc) -> ReadState:
    return ReadState(doc["upto"], doc["words"], tuple(doc["unread"]))


def _source_doc(source: SourceFeed) -> Doc:
    return {
        "feed_id": source.feed_id,
        "first": source.first_seq,
        "last": source.last_seq,
        "newest": source.newest,
        "upto": source.state.upto,
        "words": source.state.words,
        "unread": list(source.state.unread),
    }


def _source(doc: Doc) -> SourceFeed:
    return SourceFeed(doc["feed_id"], doc["first"], doc["last"], doc["newest"], _state(doc))


def _snapshot(doc: Doc) -> Snapshot:
    return Snapshot(
        token=doc["token"],
        user_id=doc["user_id"],
        ref=StreamRef.parse(doc["stream"]),
        sort=Sort(doc["sort"]),
        at=doc["at"],
        feeds={d["feed_id"]: _source(d) for d in doc["feeds"]},
    )
