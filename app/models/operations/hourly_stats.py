"""Hourly statistics, counted from the events of jobs. Pure: no clock, no Redis.

An hour is a flat table of counters, so that any number of managers can add to it:

 end:KIND:TASK        ends of attempts: finished, failed, retry, returned, suspect
 error:WORD           failed attempts, by error word
 pull:WHAT            feeds, not_modified, unchanged, new, errors, as pulls report them
 feed_error:WORD      … the errors by their words
 wait:CLASS:BUCKET    jobs by their wait before the first start; CLASS is user or system
 wait_ms:CLASS        … and the sum of their waits, ms
 run:TASK:BUCKET      attempts by how long they ran
 run_ms:TASK          … and the sum of their times, ms
 memory:MANAGER       peak of the resident memory of all its workers together, bytes

All but the peaks are also kept as a total since Redis was last empty, see ``keys.TOTALS``.

For charts some of them are also kept by the minute, as ``MINUTE:WHAT`` (``07:feeds``) in a table per hour:
the counts of pulls, ended ``jobs`` and ``failed`` ones, ``run_ms``, the sum of their times, and
``ended-QUEUE``.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from app.models.jobs.jobs import USER_QUEUES, Queue, Task

HOURS_KEPT = 48
#: Hours whose minutes are kept.
MINUTES_KEPT = 25
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
#: Buckets per doubling: each reaches 19 % further than the one before, so quantiles are within 9 %.
_PER_DOUBLE: Final = 4
_BUCKETS = 140  # the last one: 8 hours and more
_ENDS = frozenset({"finished", "failed", "retry", "returned", "suspect"})
_PULLS = frozenset({Task.PULL, Task.PULL_SYSTEM, Task.WEBSUB_PULL})
_QUEUES = frozenset(map(str, Queue))
_PULL_COUNTS = ("feeds", "not_modified", "unchanged", "new", "errors")
#: Most characters of a word from Redis. Foreign words must not create a thousand counters.
_WORD_MAX = 64

Row = Mapping[bytes, bytes]
Counters = collections.Counter[str]


def is_pull_result(row: Row) -> bool:
    """Return whether an event reports the end of a pull, whose result holds counts."""
    return row.get(b"kind") == b"finished" and _text(row, b"task") in _PULLS


def parse_stream_ms(stream_id: bytes) -> int:
    """Return the Unix time of an entry of the stream, ms."""
    return int(stream_id.partition(b"-")[0])


def sum_by_hour(events: Iterable[tuple[int, Row, Mapping[str, Any] | None]]) -> dict[int, Counters]:
    """Return the counters that events add to their hours.

    Args:
        events: the time of each event (Unix time, ms), the event, and the result of an ended pull.
    """
    found: dict[int, Counters] = {}
    for ms, row, result in events:
        hour = ms // HOUR_MS
        for key, number in _counters(ms, row, result):
            counters = found.setdefault(hour, Counters())
            counters[key] += number
    return found


def sum_by_minute(events: Iterable[tuple[int, Row, Mapping[str, Any] | None]]) -> dict[int, Counters]:
    """Return the counters that events add to the minutes of their hours; arguments as :func:`sum_by_hour`."""
    found: dict[int, Counters] = {}
    for ms, row, result in events:
        kind = _text(row, b"kind")
        if kind in _ENDS:
            counters = found.setdefault(ms // HOUR_MS, Counters())
            minute = f"{ms % HOUR_MS // MINUTE_MS:02}"
            counters[f"{minute}:jobs"] += 1
            counters[f"{minute}:failed"] += kind != "finished"
            if (queue := _text(row, b"queue")) in _QUEUES:
                counters[f"{minute}:ended-{queue}"] += 1
            counters[f"{minute}:run_ms"] += int(row[b"ms"]) if row.get(b"ms", b"").isdigit() else 0
            for key, number in _positive(minute, {w: (result or {}).get(w) for w in _PULL_COUNTS}):
                counters[key] += number
    return {hour: +counters for hour, counters in found.items()}


def _counters(ms: int, row: Row, result: Mapping[str, Any] | None) -> Iterator[tuple[str, int]]:
    kind = _text(row, b"kind")
    if kind in _ENDS:
        yield f"end:{kind}:{_text(row, b'task')}", 1
        if error := _text(row, b"error"):
            yield f"error:{error}", 1
        if (ran := row.get(b"ms", b"")).isdigit():
            yield from _time("run", _text(row, b"task"), int(ran))
    elif kind == "started" and row.get(b"attempt") == b"1" and (since := row.get(b"since", b"")).isdigit():
        who = "user" if _text(row, b"queue") in USER_QUEUES else "system"
        yield from _time("wait", who, ms - int(since))
    if result:
        yield from _positive("pull", {what: result.get(what) for what in _PULL_COUNTS})
        words = result.get("words")
        yield from _positive("feed_error", words if isinstance(words, dict) else {})


def _positive(what: str, counts: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for of, value in counts.items():
        if isinstance(value, int) and value > 0:
            yield f"{what}:{of[:_WORD_MAX]}", value


def _time(what: str, of: str, ms: int) -> Iterator[tuple[str, int]]:
    yield f"{what}:{of}:{find_bucket(ms)}", 1
    if ms > 0:
        yield f"{what}_ms:{of}", ms


def find_bucket(ms: float) -> int:
    """Return the bucket of a time in ms."""
    return 0 if ms <= 1 else min(_BUCKETS, math.ceil(_PER_DOUBLE * math.log2(ms)))


def count_within(buckets: Mapping[int, int], powers: Iterable[int]) -> list[tuple[float, int]]:
    """Return for each power of two in ms: its value in seconds, and how many times were at most that long."""
    return [
        (2.0**power / 1000, sum(count for number, count in buckets.items() if number <= _PER_DOUBLE * power))
        for power in powers
    ]


def compute_quantile(buckets: Mapping[int, int], fraction: float) -> float | None:
    """Return the time, in seconds, that ``fraction`` of the jobs didn't exceed; None without jobs."""
    rank = math.ceil(fraction * sum(buckets.values()))
    for number in sorted(buckets):
        rank -= buckets[number]
        if rank <= 0:
            return round(math.pow(2, (number - 0.5) / _PER_DOUBLE) / 1000, 4)
    return None


def summarise_hour(counters: Mapping[str, int]) -> dict[str, Any]:
    """Return a summary of an hour for people and programs.

    Returns:
        ``jobs`` (task → finished or failed), ``failed``, ``retried``, ``crashed`` (numbers), ``errors``
        (word → attempts), ``feeds``, ``not_modified``, ``unchanged``, ``new``, ``feed_errors`` (numbers),
        ``feed_error_words`` (word → feeds),
        ``wait_p50_s``, ``wait_p95_s``, ``system_wait_p50_s``, ``system_wait_p95_s`` (None without jobs)
        and ``memory_peak_mb`` (of the manager with the most).
    """
    parts = [(key.split(":", 2), value) for key, value in counters.items()]
    kinds, jobs, errors, words = Counters(), Counters(), Counters(), Counters()
    waits: dict[str, dict[int, int]] = {"user": {}, "system": {}}
    peak = 0
    for (what, *rest), value in parts:
        if what == "end":
            kinds[rest[0]] += value
            jobs[rest[1]] += value if rest[0] in ("finished", "failed") else 0
        elif what == "error":
            errors[":".join(rest)] += value
        elif what == "feed_error":
            words[":".join(rest)] += value
        elif what == "wait":
            waits[rest[0]][int(rest[1])] = value
        elif what == "memory":
            peak = max(peak, value)
    return {
        "jobs": {task: number for task, number in sorted(jobs.items()) if number},
        "failed": kinds["failed"],
        "retried": kinds["retry"],
        "crashed": kinds["suspect"],
        "errors": dict(sorted(errors.items())),
        "feeds": counters.get("pull:feeds", 0),
        "not_modified": counters.get("pull:not_modified", 0),
        "unchanged": counters.get("pull:unchanged", 0),
        "new": counters.get("pull:new", 0),
        "feed_errors": counters.get("pull:errors", 0),
        "feed_error_words": dict(sorted(words.items())),
        "wait_p50_s": compute_quantile(waits["user"], 0.5),
        "wait_p95_s": compute_quantile(waits["user"], 0.95),
        "system_wait_p50_s": compute_quantile(waits["system"], 0.5),
        "system_wait_p95_s": compute_quantile(waits["system"], 0.95),
        "memory_peak_mb": round(peak / (1 << 20), 1),
    }


def sum_hours(hours: Iterable[Mapping[str, int]]) -> Counters:
    """Return the sum of all hours; for memory, the highest peak."""
    found = Counters()
    for counters in hours:
        for key, value in counters.items():
            found[key] = max(found[key], value) if key.startswith("memory:") else found[key] + value
    return found


def _text(row: Row, field: bytes) -> str:
    return row.get(field, b"").decode("utf-8", "replace")[:_WORD_MAX]
