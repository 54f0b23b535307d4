"""Open reports: the collection ``reports``. What is decided leaves it; the log says who decided what."""

from __future__ import annotations

from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.errors import ExistsError
from app.mappers.mongo import ids
from app.mappers.mongo.errors import translated
from app.mappers.mongo.store import Doc, is_duplicate
from app.models.discussion.moderation import About, Reason, Report


class ReportMapper:
    """Document ↔ :class:`Report`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._reports: Collection[Doc] = database["reports"]

    @translated
    def add(self, report: Report) -> None:
        """Store a report under an id of its own.

        Raises:
            ExistsError: this person has reported this, and it is not decided yet.
        """
        doc: Doc = {
            "_id": Int64(ids.take()),
            "user_id": Int64(report.user_id),
            "about": report.about.value,
            "thing": Int64(report.thing),
            "whom": Int64(report.whom),
            "reason": report.reason.value,
            "text": report.text,
            "quote": report.quote,
            "at": report.at,
        }
        while True:
            try:
                self._reports.insert_one(doc)
                return
            except DuplicateKeyError as e:
                if not is_duplicate(e, "_id"):
                    raise ExistsError("You have reported this already. It will be looked at.") from e
                doc["_id"] = Int64(ids.take())

    @translated
    def all(self, limit: int) -> list[Report]:
        """Return open reports, the oldest first."""
        return [_report(d) for d in self._reports.find().sort("_id", 1).limit(limit)]

    @translated
    def whom(self, about: About, thing: int) -> int | None:
        """Return whom open reports about one thing accuse, None: there are none."""
        found = self._reports.find_one({"about": about.value, "thing": thing}, {"whom": 1})
        return found["whom"] if found else None

    @translated
    def close(self, whom: int, about: About | None = None, thing: int = 0) -> int:
        """Forget the reports about one thing of a person, or about all of his; return how many."""
        query: Doc = {"whom": whom}
        if about is not None:
            query |= {"about": about.value, "thing": thing}
        return self._reports.delete_many(query).deleted_count


def _report(doc: Doc) -> Report:
    return Report(
        id=doc["_id"],
        user_id=doc["user_id"],
        about=About(doc["about"]),
        thing=doc["thing"],
        whom=doc["whom"],
        reason=Reason(doc["reason"]),
        text=doc["text"],
        quote=doc["quote"],
        at=doc["at"],
    )
