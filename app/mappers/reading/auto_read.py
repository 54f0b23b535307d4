"""Subscriptions whose entries are marked as read after some days.

They are documents of ``subscriptions`` with ``read_after``, the days, and ``read_after_done``: numbers up to
this one have had their turn. So entries that the user has marked as unread again stay unread.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from bson.int64 import Int64
from pymongo import UpdateOne
from pymongo.collection import Collection

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.reading.auto_read import AutoRead

_QUERY: Doc = {"read_after": {"$gt": 0}}


class AutoReadMapper:
    """Document ↔ :class:`AutoRead`."""

    def __init__(self, cells: Cells) -> None:
        self._subscriptions = cells.get_table("subscriptions")

    @translate_errors
    def find_users(self, after: int, limit: int) -> list[int]:
        """Return the next users with such subscriptions, by ascending id.

        Args:
            after: the last user of the previous batch, or 0.
            limit: most subscriptions that are read; at least one user is found, if there is one.
        """

        def _read_cell(subscriptions: Collection[Doc]) -> list[int]:
            query = {**_QUERY, "user_id": {"$gt": after}}
            found = subscriptions.find(query, {"_id": 0, "user_id": 1}).hint("read_after")
            return [doc["user_id"] for doc in found.sort("user_id").limit(limit)]

        found = sorted(itertools.chain.from_iterable(self._subscriptions.read_each(_read_cell)))
        return list(dict.fromkeys(found[:limit]))

    @translate_errors
    def find_by_user(self, user_id: int) -> Sequence[AutoRead]:
        """Return a user's subscriptions of this kind."""
        shown = {"feed_id": 1, "read_after": 1, "read_after_done": 1}
        found = self._subscriptions.get(user_id).find({**_QUERY, "user_id": user_id}, shown)
        return [
            AutoRead(doc["feed_id"], doc["_id"], doc["read_after"], doc.get("read_after_done", 0))
            for doc in found.hint("read_after")
        ]

    @translate_errors
    def set_done(self, user_id: int, last_seqs: Mapping[int, int]) -> None:
        """Store the last number that has had its turn, by feed."""
        self._subscriptions.get(user_id).bulk_write(
            [
                UpdateOne({"user_id": user_id, "feed_id": feed_id}, {"$max": {"read_after_done": Int64(seq)}})
                for feed_id, seq in last_seqs.items()
            ],
            ordered=False,
        )
