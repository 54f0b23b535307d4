"""Throughput by the minute and over a day: rows for charts and tables. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

from app.models.jobs.jobs import Queue
from app.models.operations import hourly_stats
from app.models.operations.hourly_stats import HOUR_MS, MINUTE_MS

_HOUR = HOUR_MS // MINUTE_MS
#: Minutes over which the pace of a queue is measured.
PACE_MINUTES = 5

#: Hour → counters by minute.
Minutes = Mapping[int, Mapping[str, int]]


@dataclasses.dataclass(frozen=True, slots=True)
class Minute:
    """One minute, or the sum of several.

    Attributes:
        at: its start.
        seconds: its length; the current one is shorter.
        feeds: fetched; ``unmodified``: responses with 304; ``errors``: failed fetches.
        new: entries stored.
        jobs: ended; ``failed``: of these; ``busy``: how many ran at once, on average.
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
        """Percentage of feeds that responded with 304; None without feeds."""
        return 100 * self.unmodified / self.feeds if self.feeds else None


@dataclasses.dataclass(frozen=True, slots=True)
class Throughput:
    """The last hour by the minute, oldest first, current one last; ``pace``: jobs per minute by queue."""

    minutes: tuple[Minute, ...]
    pace: Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Hour:
    """One hour, from its start; ``figures`` as returned by
    :func:`app.models.operations.hourly_stats.summarise_hour`.
    """

    at: dt.datetime
    figures: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """A quarter of an hour; ``planned``: feeds to be polled in it, for slots in the future."""

    done: Minute
    planned: int = 0


def list_last_minutes(found: Minutes, now: dt.datetime, count: int) -> tuple[Minute, ...]:
    """Return the last ``count`` minutes, including the current one."""
    newest = int(now.timestamp() * 1000) // MINUTE_MS
    left = now.timestamp() % 60
    return tuple(
        sum_minutes(found, number, 1, left if number == newest else 60.0)
        for number in range(newest - count + 1, newest + 1)
    )


def sum_minutes(found: Minutes, first: int, count: int, seconds: float) -> Minute:
    """Return the sum of ``count`` minutes, from minute ``first`` since 1970."""
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
    """Return how many jobs of each queue ended per minute, over the last five complete minutes."""
    newest = int(now.timestamp() * 1000) // MINUTE_MS
    rows = [(found.get(n // _HOUR, {}), n % _HOUR) for n in range(newest - PACE_MINUTES, newest)]
    return {
        str(queue): sum(row.get(f"{minute:02}:ended-{queue}", 0) for row, minute in rows) / PACE_MINUTES
        for queue in Queue
    }


def list_day_slots(
    found: Minutes, planned: Mapping[dt.datetime, int], now: dt.datetime, ahead: int
) -> tuple[Slot, ...]:
    """Return the quarters of the last 24 hours and ``ahead`` future ones; the current one counts as both."""
    size = 15
    newest = int(now.timestamp()) // 60 // size
    slots = []
    for number in range(newest - 24 * 60 // size, newest + ahead):
        seconds = float(size * 60) if number < newest else max(1.0, now.timestamp() % (size * 60))
        done = sum_minutes(found, number * size, size, seconds)
        slots.append(Slot(done, planned.get(done.at, 0)))
    return tuple(slots)


def list_hours(found: Mapping[int, Mapping[str, int]]) -> tuple[Hour, ...]:
    """Return the hours by number, newest first."""
    return tuple(
        Hour(_start(number), hourly_stats.summarise_hour(found[number]))
        for number in sorted(found, reverse=True)
    )


def summarise_hours(found: Iterable[Mapping[str, int]]) -> dict[str, Any]:
    """Return a summary of all hours together."""
    return hourly_stats.summarise_hour(hourly_stats.sum_hours(found))


def _start(hour: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(hour * HOUR_MS / 1000, dt.UTC)
