"""Discoveries of feeds behind addresses: the collection ``discoveries``, a cache that expires."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pymongo import ASCENDING, DESCENDING, ReturnDocument
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.models.feeds.discovery import Discovered, FoundFeed, StoredDiscovery

Doc = dict[str, Any]

#: Most characters of the reason for which an address was refused.
DETAIL_MAX = 500


class DiscoveryMapper:
    """Stores discoveries by key; a TTL index on ``expires`` removes them, at most a minute late."""

    def __init__(self, database: Database[Doc]) -> None:
        self._rows: Collection[Doc] = database["discoveries"]

    @translate_errors
    def ensure_indexes(self) -> None:
        """Create the indexes; safe to call again."""
        self._rows.create_index([("expires", ASCENDING)], expireAfterSeconds=0, name="expires")
        self._rows.create_index([("pages", ASCENDING)], sparse=True, name="pages")

    @translate_errors
    def get_or_create(
        self, key: int, address: str, now: dt.datetime, expires: dt.datetime
    ) -> StoredDiscovery:
        """Return the row of a key; create one if there is none or it has expired. One atomic step.

        An expired row that isn't removed yet is reset.
        """
        fresh = {"$and": [{"$ifNull": ["$expires", False]}, {"$gt": ["$expires", now]}]}
        keep = {name: {"$cond": [fresh, f"${name}", None]} for name in ("feeds", "error")}
        # Typed text may start with "$", which would name a field in a pipeline.
        kept = {"$cond": [fresh, "$address", {"$literal": address}]}
        until = {"$cond": [fresh, "$expires", expires]}
        doc = self._rows.find_one_and_update(
            {"_id": key},
            [{"$set": {**keep, "address": kept, "expires": until}}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        assert doc is not None  # noqa: S101 — this upsert returns what it wrote
        return _row(doc)

    @translate_errors
    def find(self, key: int, now: dt.datetime) -> StoredDiscovery | None:
        """Return a row that has not expired, or None."""
        doc = self._rows.find_one({"_id": key, "expires": {"$gt": now}})
        return _row(doc) if doc else None

    @translate_errors
    def store_result(self, key: int, result: Discovered, expires: dt.datetime) -> None:
        """Store the result of a search; a row that was removed meanwhile is created again."""
        change: Doc = {
            "feeds": [feed.to_json() for feed in result.feeds],
            "error": result.error,
            "detail": result.detail[:DETAIL_MAX],
            "more": result.more,
            "address": result.address,
            "expires": expires,
        }
        update: dict[str, Doc] = {"$set": change}
        if result.pages:
            change |= {"pages": list(result.pages), "icons": list(result.icons)}
        else:
            update["$unset"] = {"pages": "", "icons": ""}
        self._rows.update_one({"_id": key}, update, upsert=True)

    @translate_errors
    def find_icons(self, page: str, now: dt.datetime) -> list[str] | None:
        """Return the icons of a page that a search has read lately, by the page's key; None: none has."""
        query = {"pages": page, "expires": {"$gt": now}}
        doc = self._rows.find_one(query, {"icons": 1}, sort=[("expires", DESCENDING)])
        return doc["icons"] if doc else None


def _row(doc: Doc) -> StoredDiscovery:
    address = doc["address"]
    if doc.get("feeds") is None and doc.get("error") is None:
        return StoredDiscovery(doc["_id"], address, None)
    feeds = tuple(FoundFeed.from_json(feed) for feed in doc.get("feeds") or ())
    more, detail = doc.get("more", False), doc.get("detail", "")
    found = Discovered(address, feeds, doc.get("error"), more=more, detail=detail)
    return StoredDiscovery(doc["_id"], address, found)
