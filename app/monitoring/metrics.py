"""Metrics: the names of all Prometheus metrics, and how a process builds its own.

Import this only where the admin port is on: the client library takes 12 MB. A metric is about one of

 system    the whole system, from Redis: each manager reports the same, and totals outlive processes
 manager   this manager and its workers
 process   the process that serves the request
"""

from __future__ import annotations

import dataclasses
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from app import errors
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Queue, Task
from app.models.operations import hourly_stats

#: Replaces unknown names: data from Redis must not create a thousand series.
OTHER: Final = "other"
ENDS: Final = ("finished", "failed", "retry", "returned", "suspect")
#: Upper bounds of the histograms as powers of two in ms: waits 4 ms to 9 h, runs 4 ms to 17 min.
WAITS: Final = tuple(range(2, 26))
RUNS: Final = tuple(range(2, 21, 2))
#: Error words that no table of :mod:`app.errors` contains.
_WORDS: Final = frozenset(("unexpected", "crashed", "bad_arguments", "bad_result", "unknown_task"))
_HTTP = re.compile(r"http_([45])[0-9]{2}")
_KINDS = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table of metrics."""

    name: str
    kind: str
    about: str
    labels: tuple[str, ...]
    help: str


def _rows(about: str, *rows: tuple[str, str, str, str]) -> list[Figure]:
    return [Figure(f"eventr_{name}", kind, about, tuple(of.split()), text) for name, kind, of, text in rows]


#: All our metrics, as docs/operations.md lists them; ``process_*`` come from the client library.
TABLE: Final[Mapping[str, Figure]] = {
    figure.name: figure
    for figure in [
        *_rows(
            "system",
            ("queue_length", "gauge", "queue", "Jobs that are waiting or due for a retry"),
            ("queue_oldest_seconds", "gauge", "queue", "Seconds that the oldest job in the queue has waited"),
            ("queue_running", "gauge", "queue", "Jobs that workers currently hold"),
            ("queue_paused", "gauge", "queue", "1 while the queue is paused"),
            ("queue_draining", "gauge", "queue", "1 while the queue is draining"),
            (
                "dead_tasks",
                "gauge",
                "",
                "Permanently failed jobs that wait for an admin to retry or delete them",
            ),
            ("managers", "gauge", "", "Queue managers that are running"),
            ("jobs_total", "counter", "task end", "Job attempts by outcome; suspect: the worker crashed"),
            ("job_failures_total", "counter", "error", "Failed job attempts by error word"),
            ("job_wait_seconds", "histogram", "class", "Seconds from queueing a job to its first start"),
            ("job_seconds", "histogram", "task", "Run time of job attempts in seconds"),
            ("feeds_pulled_total", "counter", "", "Feeds checked"),
            ("polls_unmodified_total", "counter", "", "Feed checks answered with HTTP 304"),
            (
                "polls_unchanged_total",
                "counter",
                "",
                "Feed checks with nothing new: HTTP 304 or an unchanged body",
            ),
            ("feed_errors_total", "counter", "error", "Feed checks that failed, by error word"),
            ("entries_new_total", "counter", "", "Entries stored"),
            ("later_missed_total", "counter", "", "Delayed tasks that ran more than a minute late"),
            ("updater_up", "gauge", "", "1 while an updater is active"),
            ("updater_backlog", "gauge", "", "Feeds that are due but not yet queued"),
            ("updater_late_seconds", "gauge", "", "Seconds that the longest overdue feed has been due"),
            ("updater_queued_seconds", "gauge", "", "Seconds of work waiting in the queue of system pulls"),
            ("updater_pace", "gauge", "", "Feeds per second that the workers check"),
        ),
        *_rows(
            "manager",
            ("workers", "gauge", "group state", "Workers by state: starting, ready, leaving, killed"),
            ("workers_wanted", "gauge", "group", "Workers needed for the current load"),
            ("worker_resident_bytes", "gauge", "group", "Total resident memory of the workers"),
            ("worker_jobs", "gauge", "group", "Jobs that the workers are running"),
        ),
        *_rows(
            "process",
            ("info", "gauge", "process version python", "1"),
            ("lease_held", "gauge", "", "Updater: 1 while this process holds the lease"),
            (
                "media_bytes",
                "gauge",
                "kind",
                "Updater: bytes of stored pictures, files, and pictures that may be evicted (cache)",
            ),
            ("cell_users", "gauge", "cell", "Updater: people who live in each cell; only with EVENTR_CELLS"),
            ("moves", "gauge", "step", "Updater: moves of people in progress; only with EVENTR_CELLS"),
            (
                "media_problems",
                "gauge",
                "kind",
                "Updater: contents in no store (lost), and old files that the database doesn't know (stray)",
            ),
            (
                "mongodb_write_conflicts_total",
                "counter",
                "",
                "Updater: write conflicts in MongoDB since its start",
            ),
            ("event_streams", "gauge", "", "Controller: open event streams to browsers"),
        ),
    ]
}


class _Collected(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def build_family(name: str, values: Mapping[tuple[str, ...], float] | float) -> Metric:
    """Return a metric with its values.

    Args:
        name: a key of :data:`TABLE`.
        values: by the values of its labels; a number if it has no labels.
    """
    figure = TABLE[name]
    found: Any = _KINDS[figure.kind](name, figure.help, labels=figure.labels)
    for labels, value in (values if isinstance(values, Mapping) else {(): values}).items():
        found.add_metric(list(labels), value)
    return found  # type: ignore[no-any-return]


def collect_process_metrics(process: str) -> list[Metric]:
    """Return the metrics of the process itself: memory, CPU time, open files, version."""
    label = (process, metadata.version("eventr"), platform.python_version())
    return [
        build_family("eventr_info", {label: 1}),
        *ProcessCollector(registry=None, pid=os.getpid).collect(),
    ]


def render(families: Iterable[Metric]) -> bytes:
    """Return metrics in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(list(families)))
    return generate_latest(registry)


def build_totals(counters: Mapping[str, int]) -> list[Metric]:
    """Return the totals since Redis was last empty; :mod:`app.models.operations.hourly_stats` explains
    the counters.
    """
    ends: dict[tuple[str, ...], float] = {}
    failures: dict[tuple[str, ...], float] = {}
    feeds: dict[tuple[str, ...], float] = {}
    for key, value in counters.items():
        what, _, rest = key.partition(":")
        if what == "end":
            end, _, task = rest.partition(":")
            _add(ends, (_known(task, set(Task)), _known(end, ENDS)), value)
        elif what == "error":
            _add(failures, (_word(rest),), value)
        elif what == "feed_error":
            _add(feeds, (_word(rest),), value)
    # An earlier version counted errors without their words; those become "other".
    if (unnamed := counters.get("pull:errors", 0) - sum(feeds.values())) > 0:
        _add(feeds, (OTHER,), unnamed)
    pulls = {
        "eventr_feeds_pulled_total": "feeds",
        "eventr_polls_unmodified_total": "not_modified",
        "eventr_polls_unchanged_total": "unchanged",
        "eventr_entries_new_total": "new",
    }
    return [
        build_family("eventr_jobs_total", ends),
        build_family("eventr_job_failures_total", failures),
        build_family("eventr_feed_errors_total", feeds),
        build_family("eventr_later_missed_total", counters.get(redis_keys.LATER_MISSED, 0)),
        *(build_family(name, counters.get(f"pull:{what}", 0)) for name, what in pulls.items()),
        _histogram("eventr_job_wait_seconds", counters, "wait", ("user", "system"), WAITS),
        _histogram("eventr_job_seconds", counters, "run", set(Task), RUNS),
    ]


def _histogram(
    name: str, counters: Mapping[str, int], what: str, known: Iterable[str], powers: Sequence[int]
) -> Metric:
    figure = TABLE[name]
    found = HistogramMetricFamily(name, figure.help, labels=figure.labels)
    known = set(known)
    times: dict[str, dict[int, int]] = {}
    sums: dict[tuple[str, ...], float] = {}
    for key, value in counters.items():
        kind, _, rest = key.partition(":")
        if kind == what:
            of, _, number = rest.rpartition(":")
            of_one = times.setdefault(_known(of, known), {})
            of_one[int(number)] = of_one.get(int(number), 0) + value
        elif kind == f"{what}_ms":
            _add(sums, (_known(rest, known),), value / 1000)
    for of, buckets in sorted(times.items()):
        bounds = [(f"{bound:g}", float(count)) for bound, count in hourly_stats.count_within(buckets, powers)]
        everything = [*bounds, ("+Inf", float(sum(buckets.values())))]
        found.add_metric([of], everything, sums.get((of,), 0.0))
    return found


def build_queue_metrics(rows: Iterable[Mapping[str, Any]]) -> list[Metric]:
    """Return the metrics of queues, as ``Controls.list_queues`` returns them."""
    fields = {
        "eventr_queue_length": "length",
        "eventr_queue_oldest_seconds": "oldest_s",
        "eventr_queue_running": "running",
        "eventr_queue_paused": "paused",
        "eventr_queue_draining": "draining",
    }
    known = {row["name"]: row for row in rows if row["name"] in set(Queue)}
    return [
        build_family(name, {(queue,): float(row[field]) for queue, row in known.items()})
        for name, field in fields.items()
    ]


def build_updater_metrics(stats: Mapping[str, str]) -> list[Metric]:
    """Return what the active updater saw at its last look; without one, only that there is none."""
    fields = {
        "eventr_updater_backlog": "backlog",
        "eventr_updater_late_seconds": "late_s",
        "eventr_updater_queued_seconds": "queued_s",
        "eventr_updater_pace": "pace",
    }
    seen = [build_family(name, float(stats[field])) for name, field in fields.items() if field in stats]
    return [build_family("eventr_updater_up", 1 if stats else 0), *seen]


def _add(values: dict[tuple[str, ...], float], labels: tuple[str, ...], value: float) -> None:
    values[labels] = values.get(labels, 0) + value


def _known(name: str, names: Iterable[str]) -> str:
    return name if name in names else OTHER


def _word(word: str) -> str:
    """Return an error word; HTTP errors become ``http_4xx`` and ``http_5xx``."""
    if match := _HTTP.fullmatch(word):
        return f"http_{match[1]}xx"
    return (
        word
        if word in _WORDS or word in errors.FEED_MESSAGES or word in _codes(errors.EventrError)
        else OTHER
    )


def _codes(root: type[errors.EventrError]) -> set[str]:
    return {root.code}.union(*(_codes(kind) for kind in root.__subclasses__()))
