"""Lists of all feeds for administrators, from the collection ``feeds``."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any

from pymongo import DESCENDING
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.feeds.fetch_log import FIELD, unpack_log
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.feeds.feed import Feed, FeedKind
from app.models.operations.feed_list import SLOW_MOST, FeedFilter, FeedOrder, FeedQuery

_FIELDS = dict.fromkeys(
    (
        *("title", "url", "error", "errors", "error_since", "checked_at", "next_check_at", "subscribers"),
        *("paused", "url_key", "created", "site_url"),
    ),
    1,
)
#: Feeds with a slow fetch that are compared, those with the latest one first.
_SLOW_READ = 1000
#: Longer numbers can't be ids.
_ID_DIGITS = 18
#: Polled feeds: neither merged feeds nor shared streams.
_OURS: Doc = {"merged_into": None, "kind": FeedKind.WEB.value}
_IN_ERROR: Doc = {"error": {"$type": "string"}}
_MATCHES: dict[FeedFilter, Doc] = {
    FeedFilter.ALL: {},
    FeedFilter.ERRORS: _IN_ERROR,
    FeedFilter.DEAD: {**_IN_ERROR, "next_check_at": None},
    FeedFilter.NEVER: {"last_seq": 0, "checked_at": None},
    FeedFilter.PAUSED: {"paused": True},
    FeedFilter.ORPHANED: {"subscribers": 0, "kind": FeedKind.WEB.value},
}


def _find_text(text: str) -> list[Doc]:
    """Return the ways in which a feed may match a text: part of its title or its address, or its id."""
    part = re.escape(text)
    ways: list[Doc] = [
        {"title": {"$regex": part, "$options": "i"}},
        {"url": {"$regex": f"^[^?#]*{part}", "$options": "i"}},
    ]
    if text.isdecimal() and len(text) <= _ID_DIGITS:
        ways.append({"_id": int(text)})
    return ways


def _build_match(query: FeedQuery) -> Doc:
    match: Doc = {**_OURS, **_MATCHES[query.filter]}
    if query.word:
        match["error"] = query.word
    if query.text:
        match["$and"] = [{"$or": _find_text(query.text)}]
    return match


class FeedListMapper:
    """Reads lists of feeds, and pauses, resumes and clears feeds."""

    def __init__(self, database: Database[Doc]) -> None:
        self._feeds: Collection[Doc] = database["feeds"]

    @translate_errors
    def list_feeds(self, query: FeedQuery, after: tuple[int, int] | None, limit: int) -> list[Feed]:
        """Return feeds, newest first, or those with the most subscribers.

        Args:
            after: subscribers and id of the last feed on the previous page.
        """
        match = _build_match(query)
        popular = query.order is FeedOrder.SUBSCRIBERS
        if after is not None:
            match |= _after(after, popular)
        order = [("subscribers", DESCENDING), ("_id", DESCENDING)] if popular else [("_id", DESCENDING)]
        return [_feed(d) for d in self._feeds.find(match, _FIELDS).sort(order).limit(limit)]

    @translate_errors
    def find_many(self, feed_ids: Sequence[int]) -> dict[int, Feed]:
        """Return these feeds by id; those that were merged or deleted are left out."""
        found = self._feeds.find({"_id": {"$in": list(feed_ids)}, **_OURS}, _FIELDS)
        return {doc["_id"]: _feed(doc) for doc in found}

    @translate_errors
    def find_slow(self, query: FeedQuery, since: dt.datetime) -> dict[int, int]:
        """Return the feeds of a query that were slow since a time, slowest first, with their longest fetch
        in ms.
        """
        match, fields = {**_build_match(query), "slow_at": {"$gt": since}}, {FIELD: 1, "slow_ms": 1}
        found = self._feeds.find(match, fields, hint="slow").sort("slow_at", DESCENDING)
        slowest = ((doc["_id"], _find_longest(doc, since)) for doc in found.limit(_SLOW_READ))
        return dict(sorted(slowest, key=lambda pair: (-pair[1], -pair[0]))[:SLOW_MOST])

    @translate_errors
    def count_error_words(self) -> list[tuple[str, int]]:
        """Return the error codes of all feeds with their counts, most frequent first."""
        found = self._feeds.aggregate(
            [
                {"$match": {**_IN_ERROR, **_OURS}},
                {"$group": {"_id": "$error", "count": {"$sum": 1}}},
                {"$sort": {"count": -1, "_id": 1}},
            ]
        )
        return [(doc["_id"], doc["count"]) for doc in found]

    @translate_errors
    def count(self, feed_filter: FeedFilter) -> int:
        """Return how many feeds match a filter."""
        return self._feeds.count_documents({**_OURS, **_MATCHES[feed_filter]})

    @translate_errors
    def count_planned(self, now: dt.datetime, until: dt.datetime, minutes: int) -> dict[dt.datetime, int]:
        """Return how many polls are planned from now on, by the start of slots of ``minutes`` minutes."""
        slot = {"$dateTrunc": {"date": "$next_check_at", "unit": "minute", "binSize": minutes}}
        found = self._feeds.aggregate(
            [
                {
                    "$match": {
                        "subscribers": {"$gt": 0},
                        "next_check_at": {"$gt": now, "$lt": until},
                        "paused": {"$ne": True},
                    }
                },
                {"$group": {"_id": slot, "count": {"$sum": 1}}},
            ]
        )
        return {doc["_id"]: doc["count"] for doc in found}

    @translate_errors
    def pause(self, feed_id: int) -> bool:
        """Pause a feed, so that it isn't due; return False if there is no such feed."""
        return self._change(feed_id, {"$set": {"paused": True}})

    @translate_errors
    def resume(self, feed_id: int, now: dt.datetime) -> bool:
        """Resume a feed, which is due now; return False if there is no such feed."""
        return self._change(feed_id, {"$unset": {"paused": ""}, "$set": {"next_check_at": now}})

    @translate_errors
    def clear(self, feed_id: int, now: dt.datetime) -> bool:
        """Clear a feed's errors and make it due now; return False if there is no such feed."""
        cleared = {"error": None, "error_detail": "", "error_since": None, "errors": 0, "next_check_at": now}
        return self._change(feed_id, {"$set": cleared})

    def _change(self, feed_id: int, update: Doc) -> bool:
        return self._feeds.update_one({"_id": feed_id, **_OURS}, update).matched_count == 1


def _find_longest(doc: Doc, since: dt.datetime) -> int:
    """Return the duration of the last slow fetch, or of a longer one among the last fetches, in ms."""
    log = unpack_log(doc["_id"], doc)
    longest: int = max([doc["slow_ms"], *(fetch.ms for fetch in log.fetches if fetch.at > since)])
    return longest


def _after(after: tuple[int, int], popular: bool) -> Doc:
    readers, feed_id = after
    if not popular:
        return {"_id": {"$lt": feed_id}}
    return {
        "$or": [{"subscribers": {"$lt": readers}}, {"subscribers": readers, "_id": {"$lt": feed_id}}],
    }


def _feed(doc: Doc) -> Feed:
    plain: dict[str, Any] = {name: doc[name] for name in _FIELDS if name in doc}
    return Feed(id=doc["_id"], **plain)
