"""Subscriptions with ``reopen``: their readers want changed entries to become unread again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pymongo.collection import Collection

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc


class ReopenMapper:
    """Finds feeds and readers."""

    def __init__(self, cells: Cells) -> None:
        self._subscriptions = cells.get_table("subscriptions")

    @translate_errors
    def find_wanted(self, feed_ids: Sequence[int]) -> set[int]:
        """Return the feeds among these that have such a reader."""
        query = {"feed_id": {"$in": list(feed_ids)}, "reopen": True, "paused": None}

        def _read_cell(subscriptions: Collection[Doc]) -> list[int]:
            found = subscriptions.find(query, {"_id": 0, "feed_id": 1}).hint("reopen")
            return [doc["feed_id"] for doc in found]

        return set(itertools.chain.from_iterable(self._subscriptions.read_each(_read_cell)))

    @translate_errors
    def find_readers(self, feed_id: int, after: int, limit: int) -> list[int]:
        """Return the next such readers of a feed, by ascending user id.

        Args:
            after: the last reader of the previous batch, or 0.
        """
        query = {"feed_id": feed_id, "reopen": True, "paused": None, "user_id": {"$gt": after}}

        def _read_cell(subscriptions: Collection[Doc]) -> list[int]:
            found = subscriptions.find(query, {"_id": 0, "user_id": 1}).hint("reopen")
            return [doc["user_id"] for doc in found.sort("user_id").limit(limit)]

        # Someone who is being moved is in two cells.
        return sorted(set(itertools.chain.from_iterable(self._subscriptions.read_each(_read_cell))))[:limit]
