"""Open abuse reports: the collection ``reports``. Decided reports are deleted; the log has the decisions."""

from __future__ import annotations

from bson.int64 import Int64
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.errors import ExistsError
from app.mappers.mongo import ids
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, is_duplicate
from app.models.discussion.moderation import Reason, Report, ReportSubject


class ReportMapper:
    """Document ↔ :class:`Report`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._reports: Collection[Doc] = database["reports"]

    @translate_errors
    def add(self, report: Report) -> None:
        """Store a report under a new id.

        Raises:
            ExistsError: this person has an open report about this thing.
        """
        doc: Doc = {
            "_id": Int64(ids.reserve_ids()),
            "user_id": Int64(report.user_id),
            "about": report.about.value,
            "thing": Int64(report.thing_id),
            "whom": Int64(report.accused_id),
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
                    raise ExistsError("You've already reported this. An admin will review it.") from e
                doc["_id"] = Int64(ids.reserve_ids())

    @translate_errors
    def list_reports(self, limit: int) -> list[Report]:
        """Return open reports, oldest first."""
        return [_report(d) for d in self._reports.find().sort("_id", 1).limit(limit)]

    @translate_errors
    def find_accused(self, about: ReportSubject, thing: int) -> int | None:
        """Return the person whom open reports about a thing accuse; None: there are no such reports."""
        found = self._reports.find_one({"about": about.value, "thing": thing}, {"whom": 1})
        return found["whom"] if found else None

    @translate_errors
    def close(self, accused_id: int, about: ReportSubject | None = None, thing: int = 0) -> int:
        """Delete the reports about one thing of a person, or about all; return how many there were."""
        query: Doc = {"whom": accused_id}
        if about is not None:
            query |= {"about": about.value, "thing": thing}
        return self._reports.delete_many(query).deleted_count


def _report(doc: Doc) -> Report:
    return Report(
        id=doc["_id"],
        user_id=doc["user_id"],
        about=ReportSubject(doc["about"]),
        thing_id=doc["thing"],
        accused_id=doc["whom"],
        reason=Reason(doc["reason"]),
        text=doc["text"],
        quote=doc["quote"],
        at=doc["at"],
    )
