"""What the system gets done, by the minute and over a day: rows for charts and tables. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

from app.models.jobs.jobs import Queue
from app.models.operations import hourly_stats
from app.models.operations.hourly_stats import HOUR_MS, MINUTE_MS

_HOUR = HOUR_MS // MINUTE_MS
#: Minutes over which the pace of a queue is taken.
PACE_MINUTES = 5

#: Hour → what is counted by its minutes.
Minutes = Mapping[int, Mapping[str, int]]


@dataclasses.dataclass(frozen=True, slots=True)
class Minute:
    """One minute, or several together.

    Attributes:
        at: its start.
        seconds: how long it is; the running one is shorter.
        feeds: asked for; ``unmodified`` answered 304, ``errors`` could not be read.
        new: entries stored.
        jobs: ended, ``failed`` of them not well; ``busy``: how many ran at once, on average.
    """

    at: dt.datetime
    seconds: float
    feeds: int
    unmodified: int
    errors: int
    new: int
    jobs: int
    failed: int
    busy: float

    @property
    def rate(self) -> float:
        """Feeds per second."""
        return self.feeds / self.seconds if self.seconds else 0.0

    @property
    def share(self) -> float | None:
        """Part of the feeds that answered 304, percent; None without feeds."""
        return 100 * self.unmodified / self.feeds if self.feeds else None


@dataclasses.dataclass(frozen=True, slots=True)
class Throughput:
    """The last hour by the minute, the oldest first, the running one last; jobs per minute by queue."""

    minutes: tuple[Minute, ...]
    pace: Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Hour:
    """One hour, from its start; ``figures`` as :func:`app.models.operations.hourly_stats.summary` returns
    them.
    """

    at: dt.datetime
    figures: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """A quarter of an hour; ``planned``: feeds that are to be asked in it, for slots still to come."""

    done: Minute
    planned: int = 0


def list_last_minutes(found: Minutes, now: dt.datetime, count: int) -> tuple[Minute, ...]:
    """Return the last ``count`` minutes with the running one."""
    newest = int(now.timestamp() * 1000) // MINUTE_MS
    left = now.timestamp() % 60
    return tuple(
        sum_minutes(found, number, 1, left if number == newest else 60.0)
        for number in range(newest - count + 1, newest + 1)
    )


def sum_minutes(found: Minutes, first: int, count: int, seconds: float) -> Minute:
    """Return ``count`` minutes as one, from minute ``first`` since 1970."""
    sums = {what: 0 for what in ("feeds", "not_modified", "errors", "new", "jobs", "failed", "run_ms")}
    for number in range(first, first + count):
        row = found.get(number // _HOUR, {})
        for what in sums:
            sums[what] += row.get(f"{number % _HOUR:02}:{what}", 0)
    return Minute(
        at=dt.datetime.fromtimestamp(first * MINUTE_MS / 1000, dt.UTC),
        seconds=seconds,
        feeds=sums["feeds"],
        unmodified=sums["not_modified"],
        errors=sums["errors"],
        new=sums["new"],
        jobs=sums["jobs"],
        failed=sums["failed"],
        busy=round(sums["run_ms"] / 1000 / seconds, 2) if seconds else 0.0,
    )


def compute_pace(found: Minutes, now: dt.datetime) -> dict[str, float]:
    """Return how many jobs of each queue ended per minute, over the last five whole minutes."""
    newest = int(now.timestamp() * 1000) // MINUTE_MS
    rows = [(found.get(n // _HOUR, {}), n % _HOUR) for n in range(newest - PACE_MINUTES, newest)]
    return {
        str(queue): sum(row.get(f"{minute:02}:ended-{queue}", 0) for row, minute in rows) / PACE_MINUTES
        for queue in Queue
    }


def list_day_slots(
    found: Minutes, planned: Mapping[dt.datetime, int], now: dt.datetime, ahead: int
) -> tuple[Slot, ...]:
    """Return the quarters of the last 24 hours and ``ahead`` of those to come; the running one is both."""
    size = 15
    newest = int(now.timestamp()) // 60 // size
    slots = []
    for number in range(newest - 24 * 60 // size, newest + ahead):
        seconds = float(size * 60) if number < newest else max(1.0, now.timestamp() % (size * 60))
        done = sum_minutes(found, number * size, size, seconds)
        slots.append(Slot(done, planned.get(done.at, 0)))
    return tuple(slots)


def list_hours(found: Mapping[int, Mapping[str, int]]) -> tuple[Hour, ...]:
    """Return hours by their numbers, the newest first."""
    return tuple(
        Hour(_start(number), hourly_stats.summarise_hour(found[number]))
        for number in sorted(found, reverse=True)
    )


def summarise_hours(found: Iterable[Mapping[str, int]]) -> dict[str, Any]:
    """Return all hours as one."""
    return hourly_stats.summarise_hour(hourly_stats.sum_hours(found))


def _start(hour: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(hour * HOUR_MS / 1000, dt.UTC)
