"""The hourly report that administrators get on their phone. Pure: figures in, a few lines out."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator, Mapping

from app.models.operations import hourly_stats
from app.models.operations.hourly_stats import HOUR_MS

#: Most error words listed.
_WORDS_MAX = 5


@dataclasses.dataclass(frozen=True, slots=True)
class ReportFigures:
    """The figures of a report.

    Attributes:
        hour: its number, hours since 1970.
        until: end of the counted period: the end of the hour, or now.
        counters: of that hour, see :mod:`app.models.operations.hourly_stats`.
        waiting: queue → waiting jobs, and the seconds that the first has waited.
        dead: permanently failed tasks.
        updater: what the updater saw at its last look, see ``keys.UPDATER_STATS``; empty if none runs.
    """

    hour: int
    until: dt.datetime
    counters: Mapping[str, int]
    waiting: Mapping[str, tuple[int, float]]
    dead: int
    updater: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class HourlyReport:
    """A title that suffices when all is well, and a body of one line per subject."""

    title: str
    body: str


def compose(situation: ReportFigures, name: str) -> HourlyReport:
    """Write the report.

    Args:
        situation: the figures.
        name: of the server, its host name.
    """
    found = hourly_stats.summarise_hour(situation.counters)
    start = dt.datetime.fromtimestamp(situation.hour * HOUR_MS / 1000, dt.UTC)
    time = f"{start:%H:%M}–{situation.until:%H:%M} UTC"
    title = f"Eventr {name} {time}: {'; '.join(_alarms(situation, found)) or 'all well'}"
    lines = [_pulls(found), _jobs(found), _errors(found), _waits(found), *_now(situation)]
    lines.append(f"Memory: peak of {found['memory_peak_mb']:g} MB for all workers on a server")
    return HourlyReport(title, "\n".join(filter(None, lines)))


def _alarms(situation: ReportFigures, found: Mapping[str, object]) -> Iterator[str]:
    if not situation.updater:
        yield "no updater is running"
    if found["failed"]:
        yield f"{found['failed']} jobs failed"
    if found["crashed"]:
        yield f"{found['crashed']} jobs crashed a worker"


def _pulls(found: Mapping[str, int]) -> str:
    feeds = found["feeds"]
    saved = f" ({found['not_modified'] * 100 // feeds}% by HTTP 304)" if feeds else ""
    return (
        f"Feeds: {feeds} checked, {found['unchanged']} unchanged{saved}, {found['new']} "
        f"new entries, {found['feed_errors']} with errors"
    )


def _jobs(found: Mapping[str, object]) -> str:
    jobs = found["jobs"]
    ended = sum(jobs.values()) if isinstance(jobs, dict) else 0
    return (
        f"Jobs: {ended} ended, {found['failed']} failed, {found['retried']} retried, "
        f"{found['crashed']} crashed"
    )


def _errors(found: Mapping[str, Mapping[str, int]]) -> str:
    words = sorted(found["errors"].items(), key=lambda pair: (-pair[1], pair[0]))
    if not words:
        return ""
    more = f", {len(words) - _WORDS_MAX} other types" if len(words) > _WORDS_MAX else ""
    return "Errors: " + ", ".join(f"{word} {count}" for word, count in words[:_WORDS_MAX]) + more


def _waits(found: Mapping[str, float | None]) -> str:
    parts = [
        f"{who} median {found[half]:.3g} s, 95th percentile {found[most]:.3g} s"
        for who, half, most in (
            ("user jobs", "wait_p50_s", "wait_p95_s"),
            ("system jobs", "system_wait_p50_s", "system_wait_p95_s"),
        )
        if found[half] is not None
    ]
    return f"Wait times: {'; '.join(parts)}" if parts else ""


def _now(situation: ReportFigures) -> Iterator[str]:
    waiting = [
        f"{queue} {length} (oldest {oldest:.0f} s)"
        for queue, (length, oldest) in situation.waiting.items()
        if length
    ]
    yield f"Queues now: {', '.join(waiting) or 'empty'}"
    if situation.updater:
        backlog, late = (float(situation.updater.get(field, 0)) for field in ("backlog", "late_s"))
        yield f"Feeds due, not yet queued: {backlog:.0f}; the oldest is {late:.0f} s late"
    if situation.dead:
        yield f"Failed jobs to review: {situation.dead} (eventr repl -c dead)"
