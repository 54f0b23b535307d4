"""Reading statistics: the collection ``readingdays``, one document per user and day.

    {user_id, day, read?, starred?, shared?, expires}

``day`` is the midnight in UTC of a day in the user's time zone. Only users who have switched statistics on
have documents.
"""

from __future__ import annotations

import datetime as dt

from pymongo.errors import DuplicateKeyError

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.models.reading.statistics import Counted, DayCounts


class StatisticsMapper:
    """Document ↔ :class:`DayCounts`. Every query contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._days = cells.get_table("readingdays")

    @translate_errors
    def add(self, user_id: int, day: dt.date, what: Counted, count: int, expires: dt.datetime) -> None:
        """Add to a count of a day."""
        query = {"user_id": user_id, "day": _to_time(day)}
        update = {"$inc": {what.value: count}, "$setOnInsert": {"expires": expires}}
        days = self._days.get(user_id)
        try:
            days.update_one(query, update, upsert=True)
        except DuplicateKeyError:
            days.update_one(query, update)  # just created by another request

    @translate_errors
    def find_since(self, user_id: int, first: dt.date) -> list[DayCounts]:
        """Return the days that have counts, from this one on, the oldest first."""
        query = {"user_id": user_id, "day": {"$gte": _to_time(first)}}
        return [
            DayCounts(doc["day"].date(), *(doc.get(what.value, 0) for what in Counted))
            for doc in self._days.get(user_id).find(query).sort("day", 1)
        ]

    @translate_errors
    def remove_all(self, user_id: int) -> None:
        """Delete all days of a user."""
        self._days.get(user_id).delete_many({"user_id": user_id})


def _to_time(day: dt.date) -> dt.datetime:
    return dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC)
