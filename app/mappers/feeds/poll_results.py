"""Results of the last polls of many feeds, for imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.imports.imports import PollResult

_FIELDS = dict.fromkeys(
    ("title", "last_seq", "errors", "error", "error_detail", "checked_at", "merged_into"), 1
)


class PollResultMapper:
    """Reads results of polls from the collection ``feeds``."""

    def __init__(self, database: Database[Doc]) -> None:
        self._feeds: Collection[Doc] = database["feeds"]

    @translate_errors
    def find_poll_results(self, feed_ids: Sequence[int]) -> dict[int, PollResult]:
        """Return feed → result of its last poll."""
        found = self._feeds.find({"_id": {"$in": list(feed_ids)}}, _FIELDS)
        return {doc["_id"]: _end(doc) for doc in found}

    @translate_errors
    def find_ids_by_keys(self, url_keys: Sequence[str]) -> dict[str, int]:
        """Return address key → feed, or the feed that it was merged into."""
        found = self._feeds.find({"url_key": {"$in": list(url_keys)}}, {"url_key": 1})
        known = {doc["url_key"]: doc["_id"] for doc in found}
        into = self.find_successors(list(known.values()))
        return {key: into.get(feed_id, feed_id) for key, feed_id in known.items()}

    @translate_errors
    def find_successors(self, feed_ids: Sequence[int]) -> dict[int, int]:
        """Return feed → the feed that it was merged into, for merged feeds."""
        into: dict[int, int] = {}
        asked = list(feed_ids)
        while asked:
            merged = {"_id": {"$in": asked}, "merged_into": {"$ne": None}}
            found = {doc["_id"]: doc["merged_into"] for doc in self._feeds.find(merged, {"merged_into": 1})}
            asked = [feed_id for feed_id in found.values() if feed_id not in into]
            into |= found
        return {feed_id: _last(into, feed_id) for feed_id in feed_ids if feed_id in into}


def _last(into: Mapping[int, int], feed_id: int) -> int:
    while feed_id in into:
        feed_id = into[feed_id]
    return feed_id


def _end(doc: Doc) -> PollResult:
    checked = doc.get("checked_at")
    read = bool(doc.get("last_seq") or checked or doc.get("merged_into"))
    error, detail = doc.get("error"), doc.get("error_detail") or ""
    return PollResult(doc.get("title") or "", read, doc.get("errors") or 0, error, checked, detail)
