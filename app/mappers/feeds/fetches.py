"""The fetch log: the collection ``fetches``, with entries of the last 14 days.

One document holds the fetches that a pull stored together, up to a hundred feeds. Most polls find nothing
new, and a document with index entries for each of them cost more than everything else about storing them.

    {"at": …, "of": [{"f": feed id, "at": …, "s": status, "ms": …, "b": bytes, "n": new, "e": error word}, …]}

Zero or missing values of ``b``, ``n`` and ``e`` are omitted; a 304 has none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pymongo import DESCENDING, WriteConcern
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.feeds.feed import FetchRecord


class FetchMapper:
    """Document ↔ :class:`FetchRecord`."""

    def __init__(self, database: Database[Doc]) -> None:
        # Nothing depends on this log, so writes don't wait for the journal.
        self._fetches: Collection[Doc] = database["fetches"].with_options(write_concern=WriteConcern(w=1))

    @translate_errors
    def add(self, records: Sequence[FetchRecord]) -> None:
        """Append records to the log; at most one per feed in a call."""
        if records:
            newest = max(record.at for record in records)
            self._fetches.insert_one({"at": newest, "of": [_doc(record) for record in records]})

    @translate_errors
    def find_by_feed(self, feed_id: int, limit: int) -> list[FetchRecord]:
        """Return a feed's last fetches, newest first."""
        own = {"of": {"$elemMatch": {"f": feed_id}}}
        found = self._fetches.find({"of.f": feed_id}, own).sort("at", DESCENDING).limit(limit)
        return [_record(doc["of"][0]) for doc in found]


def _doc(record: FetchRecord) -> Doc:
    doc: Doc = {"f": record.feed_id, "at": record.at, "s": record.status, "ms": record.ms}
    if record.bytes:
        doc["b"] = record.bytes
    if record.new:
        doc["n"] = record.new
    if record.error is not None:
        doc["e"] = record.error
    return doc


def _record(doc: Doc) -> FetchRecord:
    get = doc.get
    return FetchRecord(doc["f"], doc["at"], doc["s"], doc["ms"], get("b", 0), get("n", 0), get("e"))
