"""The fetch log in a feed's document: expressions that add a fetch, and reading it.

    {"n": number of fetches, "0": fetch, …, "19": fetch, "h0": counts, …, "h23": …, "d0": …, "d13": …}

The statement that stores the result of a poll also adds the fetch: fetch number ``n`` is stored in the field
``n mod 20``. So MongoDB replicates one small field, where a shifted array would be replicated as a whole.
A fetch is ``[time, ms, status, bytes, new, error word]``, with the time in ms since 1970; 304 and zeros at
the end are omitted.

Counts are one integer: the number of the hour or day since 1970 (20 bits), fetches and failed fetches
(12 bits each), and new entries (19 bits). An hour is stored in the field ``h`` plus its number mod 24. If
that field holds another hour, it is replaced.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any, Final

from bson.int64 import Int64
from pymongo import UpdateOne

from app.mappers.mongo.store import Doc
from app.models.feeds.feed import FetchRecord
from app.models.feeds.fetch_log import DAYS, HOURS, KEPT, FetchCounts, FetchLog
from app.models.operations.feed_list import SLOW_MS

#: The field of a feed's document.
FIELD: Final = "log"
#: For reading feeds without their log.
WITHOUT_LOG: Final = {FIELD: 0}
_HOUR, _DAY = 3600, 86400
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)
_FAILED, _FETCHES, _START = 19, 31, 43
_FETCHES_MAX, _NEW_MAX = (1 << 12) - 1, (1 << 19) - 1


def build_log_update(record: FetchRecord) -> Doc:
    """Return the new values of the fields of a feed that had this fetch, as expressions of a pipeline."""
    counts = FetchCounts(1, int(record.error is not None), record.new)
    return {FIELD: _add({"$literal": pack_fetch(record)}, record.at, counts), **build_slow_fields(record)}


def build_unchanged_log_update(records: Sequence[FetchRecord], now: dt.datetime) -> Doc:
    """Return the new values of the fields of many feeds, each of which had one fetch without news."""
    place = {"$indexOfArray": [{"$literal": [record.feed_id for record in records]}, "$_id"]}
    fetch = {"$arrayElemAt": [{"$literal": [pack_fetch(record) for record in records]}, place]}
    return {FIELD: _add(fetch, now, FetchCounts(1))}


def build_slow_fields(record: FetchRecord) -> Doc:
    """Return the fields that the list of slow feeds needs; none for a fast fetch."""
    return {"slow_at": record.at, "slow_ms": record.ms} if record.ms > SLOW_MS else {}


def build_slow_updates(records: Sequence[FetchRecord]) -> list[UpdateOne]:
    """Return the updates that list the slow feeds among these."""
    slow = ((record.feed_id, build_slow_fields(record)) for record in records)
    return [UpdateOne({"_id": feed_id}, {"$set": fields}) for feed_id, fields in slow if fields]


def _add(fetch: Doc, at: dt.datetime, counts: FetchCounts) -> Doc:
    number: Doc = {"$ifNull": [f"${FIELD}.n", 0]}
    seconds = int(at.timestamp())
    fields = {
        "n": {"$add": [number, 1]},
        **_add_counts("h", seconds // _HOUR, HOURS, counts),
        **_add_counts("d", seconds // _DAY, DAYS, counts),
    }
    place = {"$toString": {"$mod": [number, KEPT]}}
    return {"$mergeObjects": [f"${FIELD}", fields, {"$arrayToObject": [[[place, fetch]]]}]}


def _add_counts(kind: str, number: int, kept: int, counts: FetchCounts) -> Doc:
    name, value = name_counts(kind, number, kept), pack_counts(number, counts)
    old, begin, end = (
        f"${FIELD}.{name}",
        pack_counts(number, FetchCounts()),
        pack_counts(number + 1, FetchCounts()),
    )
    is_same = {"$and": [{"$gte": [old, begin]}, {"$lt": [old, end]}]}
    return {name: {"$cond": [is_same, {"$add": [old, Int64(value - begin)]}, value]}}


def name_counts(kind: str, number: int, kept: int) -> str:
    """Return the field of the counts of an hour or day; ``kind`` is "h" or "d"."""
    return f"{kind}{number % kept}"


def pack_counts(number: int, counts: FetchCounts) -> Int64:
    """Return the stored form of the counts of an hour or day with this number."""
    fetches, failed = min(counts.fetches, _FETCHES_MAX), min(counts.failed, _FETCHES_MAX)
    return Int64(number << _START | fetches << _FETCHES | failed << _FAILED | min(counts.new, _NEW_MAX))


def pack_fetch(record: FetchRecord) -> list[Any]:
    """Return the stored form of a fetch."""
    at = Int64(round(record.at.timestamp() * 1000))
    values = [at, record.ms, record.status, record.bytes, record.new, record.error]
    while len(values) > 3 and not values[-1]:
        values.pop()
    return values[:2] if values[2:] == [304] else values


def unpack_log(feed_id: int, doc: Doc) -> FetchLog:
    """Return the fetch log in a feed's document, which may have none."""
    log: Doc = doc.get(FIELD) or {}
    fetches = [_unpack_fetch(feed_id, log[name]) for name in map(str, range(KEPT)) if name in log]
    # Two workers may store their fetches in the other order.
    fetches.sort(key=lambda record: record.at, reverse=True)
    return FetchLog(
        tuple(fetches), dict(_unpack_counts(log, "h", HOURS)), dict(_unpack_counts(log, "d", DAYS))
    )


def _unpack_fetch(feed_id: int, values: Sequence[Any]) -> FetchRecord:
    missing: tuple[Any, ...] = (304, 0, 0, None)
    at, ms, status, size, new, error = (*values, *missing[len(values) - 2 :])
    return FetchRecord(feed_id, _EPOCH + dt.timedelta(milliseconds=at), status, ms, size, new, error)


def _unpack_counts(log: Doc, kind: str, kept: int) -> Iterator[tuple[int, FetchCounts]]:
    for place in range(kept):
        if value := log.get(f"{kind}{place}"):
            fetches, failed = value >> _FETCHES & _FETCHES_MAX, value >> _FAILED & _FETCHES_MAX
            yield value >> _START, FetchCounts(fetches, failed, value & _NEW_MAX)
