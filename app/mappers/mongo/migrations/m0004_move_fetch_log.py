"""The fetch log moves from its own collection into the feeds: last fetches, and counts per hour and day."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import islice

import pymongo
from pymongo import UpdateOne
from pymongo.collection import Collection

from app import clock
from app.mappers.feeds.fetch_log import FIELD, build_slow_fields, name_counts, pack_counts, pack_fetch
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.indexes import BUILD_SECONDS
from app.mappers.mongo.migrations.run import Run
from app.mappers.mongo.store import Doc
from app.models.feeds.feed import FetchRecord
from app.models.feeds.fetch_log import DAYS, HOURS, KEPT, FetchCounts

_SECONDS = {"h": 3600, "d": 86400}
#: Holds the last fetches, newest first, until they get their places.
_MOVING = "moving"
#: Feeds per batch of updates.
_BATCH = 1000


@translate_errors
def apply(run: Run) -> None:
    """Move the log, period by period, and drop the old collection; a repetition skips what is moved."""
    old, feeds = run.database["fetches"], run.database["feeds"]
    now = int(clock.now().timestamp())
    with pymongo.timeout(BUILD_SECONDS):
        if not old.find_one({}, {"_id": 1}):
            old.drop()
            return
        # The newest day first, so that older fetches follow newer ones.
        periods = [("d", now // 86400 - back) for back in range(DAYS)]
        periods += [("h", now // 3600 - back) for back in range(HOURS)]
        for kind, number in periods:
            run.check_cancelled()
            _move(old, feeds, kind, number)
        feeds.update_many({f"{FIELD}.{_MOVING}": {"$exists": True}}, _build_placing())
        old.drop()


def _move(old: Collection[Doc], feeds: Collection[Doc], kind: str, number: int) -> None:
    updates = _build_updates(old, kind, number)
    while some := list(islice(updates, _BATCH)):
        feeds.bulk_write(some, ordered=False)


def _build_updates(old: Collection[Doc], kind: str, number: int) -> Iterator[UpdateOne]:
    kept = DAYS if kind == "d" else HOURS
    name = f"{FIELD}.{name_counts(kind, number, kept)}"
    for doc in old.aggregate(_build_pipeline(kind, number), allowDiskUse=True):
        counts = FetchCounts(doc["fetches"], doc["failed"], doc["new"])
        update: Doc = {"$set": {name: pack_counts(number, counts)}}
        if kind == "d":
            records = [_record(doc["_id"], line) for line in doc["last"]]
            update["$push"] = {
                f"{FIELD}.{_MOVING}": {"$each": [pack_fetch(r) for r in records], "$sort": -1, "$slice": KEPT}
            }
            update["$set"] |= build_slow_fields(max(records, key=lambda r: r.ms))
        yield UpdateOne(
            {"_id": doc["_id"], name: {"$not": {"$gte": pack_counts(number, FetchCounts())}}}, update
        )


def _build_pipeline(kind: str, number: int) -> list[Doc]:
    seconds = _SECONDS[kind]
    begin = dt.datetime.fromtimestamp(number * seconds, dt.UTC)
    one: Doc = {"$sum": 1}
    group: Doc = {
        "_id": "$of.f",
        "fetches": one,
        "failed": {"$sum": {"$cond": [{"$gt": ["$of.e", None]}, 1, 0]}},
        "new": {"$sum": "$of.n"},
    }
    if kind == "d":
        group["last"] = {"$topN": {"n": KEPT, "sortBy": {"of.at": -1}, "output": "$of"}}
    return [
        {"$match": {"at": {"$gte": begin, "$lt": begin + dt.timedelta(seconds=seconds)}}},
        {"$unwind": "$of"},
        {"$group": group},
    ]


def _record(feed_id: int, line: Doc) -> FetchRecord:
    get = line.get
    return FetchRecord(feed_id, line["at"], line["s"], line["ms"], get("b", 0), get("n", 0), get("e"))


def _build_placing() -> list[Doc]:
    """Return the pipeline that gives the fetches their places, the oldest first."""
    moving = f"${FIELD}.{_MOVING}"
    size: Doc = {"$size": moving}
    place: Doc = {
        "k": {"$toString": "$$place"},
        "v": {"$arrayElemAt": [moving, {"$subtract": [size, {"$add": ["$$place", 1]}]}]},
    }
    places: Doc = {"$map": {"input": {"$range": [0, size]}, "as": "place", "in": place}}
    moved = {"$mergeObjects": [f"${FIELD}", {"$arrayToObject": places}, {"n": size}]}
    return [{"$set": {FIELD: moved}}, {"$unset": f"{FIELD}.{_MOVING}"}]
