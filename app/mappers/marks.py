"""Stars: the collection ``marks``, one document per user and entry he marked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.errors import ExistsError
from app.mappers.entrykeys import Range, millis
from app.mappers.errors import translated
from app.mappers.store import Doc, Session
from app.models.entry import EntryKey

_KEY = {"_id": 0, "entry_id": 1, "feed_id": 1, "starred_at": 1}


class MarkMapper:
    """Document ↔ star. Every query carries ``user_id``."""

    def __init__(self, database: Database[Doc]) -> None:
        self._marks: Collection[Doc] = database["marks"]

    @translated
    def star(self, user_id: int, entry: EntryKey, at: dt.datetime, session: Session) -> None:
        """Store a star.

        Raises:
            ExistsError: it is starred already; the transaction is over.
        """
        doc = {"user_id": user_id, "entry_id": entry.id, "feed_id": entry.feed_id, "starred_at": at}
        try:
            self._marks.insert_one(doc, session=session)
        except DuplicateKeyError as e:
            raise ExistsError(entry_id=entry.id) from e

    @translated
    def unstar(self, user_id: int, entry_id: int, session: Session) -> bool:
        """Delete a star; False: there was none."""
        query = {"user_id": user_id, "entry_id": entry_id}
        return bool(self._marks.delete_one(query, session=session).deleted_count)

    @translated
    def feed_of(self, user_id: int, entry_id: int) -> int | None:
        """Return the feed of an entry that the user starred."""
        doc = self._marks.find_one({"user_id": user_id, "entry_id": entry_id}, {"feed_id": 1})
        return int(doc["feed_id"]) if doc else None

    @translated
    def starred(self, user_id: int, entry_ids: Sequence[int]) -> set[int]:
        """Return those entries that the user starred."""
        query = {"user_id": user_id, "entry_id": {"$in": list(entry_ids)}}
        return {d["entry_id"] for d in self._marks.find(query, {"_id": 0, "entry_id": 1})}

    @translated
    def page(self, user_id: int, within: Range, *, newest_first: bool, limit: int) -> list[EntryKey]:
        """Return starred entries by the time of the star; ``at`` of the keys is that time, ``seq`` 0."""
        step = -1 if newest_first else 1
        bounds = within.query().get("at") or {"$type": "date"}
        found = (
            self._marks.find({"user_id": user_id, "starred_at": bounds}, _KEY)
            .sort([("starred_at", step), ("entry_id", step)])
            .limit(limit)
        )
        return [EntryKey(d["entry_id"], d["feed_id"], 0, millis(d["starred_at"])) for d in found]
