"""Trends of shared entries: the collection ``trends``, one document per shared entry.

    {_id: root entry, of_feed, score, at}

A public share made at time t weighs 2^(t / H), where H is the half-life. So aging needs no new weights,
because the order stays right forever. ``score`` is the binary logarithm of the sum of weights, which one
update changes when a share comes or goes. (The sum itself would exceed the range of a double after a thousand
half-lives.)
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database

from app.clock import UTC
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session
from app.models.sharing.sharing import Origin

_EPOCH = dt.datetime(2026, 1, 1, tzinfo=UTC)
#: The smallest part of a score that remains after a removal: anything below is a rounding error.
_NOTHING = 1e-6


class TrendMapper:
    """Changes scores, and reads the highest.

    Args:
        half_life: time after which a share weighs half as much as a new one.
    """

    def __init__(self, database: Database[Doc], half_life: dt.timedelta) -> None:
        self._trends: Collection[Doc] = database["trends"]
        self._half_life = half_life

    @translate_errors
    def add(self, origin: Origin, at: dt.datetime, expires: dt.datetime, session: Session) -> None:
        """Count a share made at time ``at``."""
        weight = self._weight(at)
        known = {"$ifNull": ["$score", None]}
        high, low = {"$max": ["$score", weight]}, {"$min": ["$score", weight]}
        both = {"$add": [high, _log(1, {"$pow": [2, {"$subtract": [low, high]}]})]}
        changes = {
            "of_feed": Int64(origin.feed_id),
            "score": {"$cond": [{"$eq": [known, None]}, weight, both]},
            "expires": {"$max": ["$expires", expires]},
        }
        self._trends.update_one({"_id": origin.entry_id}, [{"$set": changes}], upsert=True, session=session)

    @translate_errors
    def remove(self, origin: Origin, at: dt.datetime, session: Session) -> None:
        """Remove a share from the score."""
        part = {"$pow": [2, {"$subtract": [self._weight(at), "$score"]}]}
        rest: Doc = {"$subtract": [1, part]}
        less = {"$add": ["$score", {"$log": [{"$max": [rest, _NOTHING]}, 2]}]}
        self._trends.update_one({"_id": origin.entry_id}, [{"$set": {"score": less}}], session=session)

    def _weight(self, at: dt.datetime) -> float:
        return (at - _EPOCH) / self._half_life

    @translate_errors
    def find_top(self, limit: int, now: dt.datetime) -> list[Origin]:
        """Return the most shared entries, highest score first."""
        found = self._trends.find({"expires": {"$gt": now}}, {"of_feed": 1}).sort("score", -1)
        return [Origin(d["_id"], d["of_feed"]) for d in found.hint("score").limit(limit)]


def _log(one: float, more: Any) -> Doc:
    return {"$log": [{"$add": [one, more]}, 2]}
