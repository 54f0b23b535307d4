"""Crawls of sites for feeds: the collection ``crawls``, and ``crawl_askers``: the people who
looked for the feed.

crawls: {_id, host, url, todo: [[url, depth, is_feed]], tried, requests, attempts, found, next_at, telling,
expires}
crawl_askers: {crawl_id, user_id, expires}

``next_at`` is set until the crawl ends, and then ``telling`` until the people are notified: the time at which
a worker may go on.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence

from bson.int64 import Int64
from pymongo import ReturnDocument
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.mappers.mongo import ids
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.feeds.crawl import Crawl, CrawlFigures, CrawlTarget
from app.models.feeds.discovery import FoundFeed


class CrawlMapper:
    """Document ↔ :class:`Crawl`."""

    def __init__(self, database: Database[Doc]) -> None:
        self._crawls: Collection[Doc] = database["crawls"]
        self._askers: Collection[Doc] = database["crawl_askers"]

    @translate_errors
    def add(self, crawl: Crawl, expires: dt.datetime) -> bool:
        """Store a new crawl with a new id; return False if the site has one."""
        doc = _build(dataclasses.replace(crawl, id=ids.reserve_ids())) | {"expires": expires}
        try:
            self._crawls.insert_one(doc)
        except DuplicateKeyError:
            return False
        return True

    @translate_errors
    def find_by_host(self, host: str) -> Crawl | None:
        """Return the crawl of a site."""
        doc = self._crawls.find_one({"host": host})
        return _parse(doc) if doc else None

    @translate_errors
    def find_hosts(self, crawl_ids: Sequence[int]) -> dict[int, str]:
        """Return the hosts of crawls by id."""
        found = self._crawls.find({"_id": {"$in": list(crawl_ids)}}, {"host": 1})
        return {doc["_id"]: doc["host"] for doc in found}

    @translate_errors
    def find_due(self, now: dt.datetime, limit: int, *, running: int) -> list[int]:
        """Return the crawls for which a worker may go on: ended ones first, then the longest due.

        Args:
            running: most crawls that send requests at a time; those that began later wait.
        """
        ended = self._crawls.find({"telling": {"$lte": now}}, {"_id": 1}).sort("telling").limit(limit)
        begun = self._crawls.find({"next_at": {"$type": "date"}}, {"next_at": 1}).sort("expires")
        due = sorted((doc["next_at"], doc["_id"]) for doc in begun.limit(running) if doc["next_at"] <= now)
        return [*(doc["_id"] for doc in ended), *(crawl_id for _, crawl_id in due)][:limit]

    @translate_errors
    def claim(self, crawl_id: int, now: dt.datetime, until: dt.datetime) -> Crawl | None:
        """Return a crawl that is due, and make it due at ``until``, so that nobody else fetches for it.

        Its next request is counted now: if this worker dies, it may have been sent.
        """
        doc = self._crawls.find_one_and_update(
            {"_id": crawl_id, "next_at": {"$lte": now}},
            {"$set": {"next_at": until}, "$inc": {"requests": 1, "attempts": 1}},
            return_document=ReturnDocument.AFTER,
        )
        return _parse(doc) if doc else None

    @translate_errors
    def store_crawl(self, crawl: Crawl, until: dt.datetime, now: dt.datetime) -> bool:
        """Store the progress of a crawl; return False if another worker has claimed it.

        Args:
            until: of the claim. now: from when on people may be notified if it has ended.
        """
        change = _build(crawl)
        del change["_id"]
        update: Doc = {"$set": change}
        if crawl.next_at is None:
            del change["next_at"]
            change["telling"] = now
            update["$unset"] = {"next_at": ""}
        return self._crawls.update_one({"_id": crawl.id, "next_at": until}, update).matched_count > 0

    @translate_errors
    def claim_end(self, crawl_id: int, now: dt.datetime, until: dt.datetime) -> Crawl | None:
        """Return an ended crawl whose people aren't all notified; until then, no other worker gets it."""
        doc = self._crawls.find_one_and_update(
            {"_id": crawl_id, "telling": {"$lte": now}}, {"$set": {"telling": until}}
        )
        return _parse(doc) if doc else None

    @translate_errors
    def finish_end(self, crawl_id: int) -> None:
        """Remember that the people are notified."""
        self._crawls.update_one({"_id": crawl_id}, {"$unset": {"telling": ""}})

    @translate_errors
    def add_asker(self, crawl_id: int, user_id: int, expires: dt.datetime) -> None:
        """Remember that a person looked for the feed, so that they are notified."""
        key = {"crawl_id": Int64(crawl_id), "user_id": Int64(user_id)}
        self._askers.update_one(key, {"$set": {"expires": expires}}, upsert=True)

    @translate_errors
    def find_askers(self, crawl_id: int, limit: int) -> list[int]:
        """Return the people who looked for the feed."""
        found = self._askers.find({"crawl_id": crawl_id}, {"_id": 0, "user_id": 1}).limit(limit)
        return [doc["user_id"] for doc in found]

    @translate_errors
    def count_asked(self, user_id: int) -> int:
        """Return for how many sites that are being crawled a person looked for the feed."""
        return self._askers.count_documents({"user_id": user_id})

    @translate_errors
    def remove_askers(self, crawl_id: int, user_ids: Sequence[int]) -> None:
        """Forget these people who looked for the feed, once they are notified."""
        self._askers.delete_many({"crawl_id": crawl_id, "user_id": {"$in": list(user_ids)}})

    @translate_errors
    def count_all(self) -> CrawlFigures:
        """Return the numbers of all crawls that haven't expired."""
        is_running = {"$cond": [{"$ifNull": ["$next_at", False]}, 1, 0]}
        has_feed = {"$cond": [{"$gt": [{"$size": "$found"}, 0]}, 1, 0]}
        sums = {"running": is_running, "all": 1, "successful": has_feed, "requests": "$requests"}
        group: Doc = {"_id": None, **{name: {"$sum": value} for name, value in sums.items()}}
        for doc in self._crawls.aggregate([{"$group": group}]):
            ended = doc["all"] - doc["running"]
            return CrawlFigures(doc["running"], ended, doc["successful"], doc["requests"])
        return CrawlFigures()


def _build(crawl: Crawl) -> Doc:
    return {
        "_id": Int64(crawl.id),
        "host": crawl.host,
        "url": crawl.url,
        "todo": [list(target) for target in crawl.todo],
        "tried": list(crawl.tried),
        "requests": crawl.requests,
        "attempts": crawl.attempts,
        "found": [feed.to_json() for feed in crawl.found],
        "next_at": crawl.next_at,
    }


def _parse(doc: Doc) -> Crawl:
    return Crawl(
        id=int(doc["_id"]),
        host=doc["host"],
        url=doc["url"],
        todo=tuple(CrawlTarget(*target) for target in doc["todo"]),
        tried=tuple(doc["tried"]),
        requests=doc["requests"],
        attempts=doc.get("attempts", 0),
        found=tuple(map(FoundFeed.from_json, doc["found"])),
        next_at=doc.get("next_at"),
    )
