"""The statements of the entry budget: see :mod:`app.gateways.feeds.retention_budget`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import NamedTuple

from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.feeds.feed import FeedKind

_STATE = "budget"


class BudgetPosition(NamedTuple):
    """Where the walk over all feeds goes on: the step, and the last feed in it.

    ``rests_until``: all steps are done, and a new walk begins then.
    """

    step: int = 0
    after: int = 0
    rests_until: dt.datetime | None = None


class FeedRange(NamedTuple):
    """A feed with its first and last number."""

    feed_id: int
    first_seq: int
    last_seq: int


class RetentionBudgetMapper:
    """Counts entries, finds feeds that nobody has opened for long, and raises their first numbers."""

    def __init__(self, database: Database[Doc]) -> None:
        self._feeds: Collection[Doc] = database["feeds"]
        self._entries: Collection[Doc] = database["entries"]
        self._state: Collection[Doc] = database["retention"]

    @translate_errors
    def count_entries(self) -> int:
        """Return how many entries there are, from MongoDB's own count, which costs nothing."""
        return self._entries.estimated_document_count()

    @translate_errors
    def find_unopened(self, after: int, before: dt.datetime, least: int, limit: int) -> Sequence[FeedRange]:
        """Return feeds by id that nobody has opened since ``before`` and that have over ``least`` entries.

        A feed that nobody has ever opened counts from its creation. People's streams and the pages that
        they saved are left out.
        """
        unopened = [{"read_at": {"$lt": before}}, {"read_at": None, "created": {"$lt": before}}]
        is_long = {"$gte": [{"$subtract": ["$last_seq", "$first_seq"]}, least]}
        query: Doc = {"_id": {"$gt": after}, "kind": FeedKind.WEB.value, "$or": unopened, "$expr": is_long}
        found = self._feeds.find(query, {"first_seq": 1, "last_seq": 1}).sort("_id").limit(limit)
        return [FeedRange(d["_id"], d["first_seq"], d["last_seq"]) for d in found]

    @translate_errors
    def raise_first_seq(self, feed_id: int, first_seq: int) -> None:
        """Raise a feed's first number; the size of what remains is measured again."""
        update = {"$max": {"first_seq": Int64(first_seq)}, "$unset": {"stored_bytes": ""}}
        self._feeds.update_one({"_id": feed_id}, update)

    @translate_errors
    def get_position(self) -> BudgetPosition:
        """Return where the walk goes on."""
        doc = self._state.find_one({"_id": _STATE}) or {}
        return BudgetPosition(doc.get("step", 0), doc.get("after", 0), doc.get("rests_until"))

    @translate_errors
    def set_position(self, position: BudgetPosition) -> None:
        """Store where the walk goes on."""
        self._state.update_one({"_id": _STATE}, {"$set": position._asdict()}, upsert=True)
