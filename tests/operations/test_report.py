"""The hourly report: what it says, that each hour is reported once, and that no address leaks."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from app import clock
from app.adapters.redis.jobs import hash_job
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import InvalidError
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from app.models.operations import hourly_report, hourly_stats
from app.models.operations.hourly_report import ReportFigures
from app.models.operations.hourly_stats import HOUR_MS
from tests.jobs import support
from tests.support.imports import REPO
from tests.support.manager import environment
from tests.support.rawserver import RawServer, Reply

Eventually = Callable[..., Any]
SECRET = "canary-3f9a"
MAINTENANCE = '\n[maintenance]\nqueues = ["maintenance"]\nmode = "solo"\nmin_workers = 0\nmax_workers = 1\n'
COUNTERS = {
    "end:finished:feeds.pull_system": 400,
    "end:failed:feeds.discover": 3,
    "end:retry:feeds.pull": 2,
    "end:suspect:feeds.pull": 1,
    "error:timeout": 2,
    "error:crashed": 4,
    "pull:feeds": 20_000,
    "pull:not_modified": 15_000,
    "pull:unchanged": 16_000,
    "pull:new": 321,
    "pull:errors": 12,
    "wait:user:40": 10,
    "memory:a": 300 << 20,
}
STORED: dict[Any, Any] = dict(COUNTERS)
HOUR = int(dt.datetime(2026, 5, 4, 17, tzinfo=dt.UTC).timestamp() * 1000) // HOUR_MS


def _situation(**changes: Any) -> ReportFigures:
    usual = ReportFigures(
        hour=HOUR,
        until=dt.datetime(2026, 5, 4, 18, tzinfo=dt.UTC),
        counters=COUNTERS,
        waiting={"feed-pull": (0, 0.0), "feed-pull-sys": (7, 12.4)},
        dead=5,
        updater={"backlog": "3", "late_s": "41.5"},
    )
    return dataclasses.replace(usual, **changes)


def test_what_the_report_says() -> None:
    found = hourly_report.compose(_situation(), "reader.example")
    assert found.title == "Eventr reader.example 17:00–18:00 UTC: 3 jobs failed; 1 jobs crashed a worker"
    assert found.body.splitlines() == [
        "Feeds: 20000 checked, 16000 unchanged (75% by HTTP 304), 321 new entries, 12 with errors",
        "Jobs: 403 ended, 3 failed, 2 retried, 1 crashed",
        "Errors: crashed 4, timeout 2",
        "Wait times: user jobs median 0.939 s, 95th percentile 0.939 s",
        "Queues now: feed-pull-sys 7 (oldest 12 s)",
        "Feeds due, not yet queued: 3; the oldest is 42 s late",
        "Failed jobs to review: 5 (eventr repl -c dead)",
        "Memory: peak of 300 MB for all workers on a server",
    ]


def test_an_hour_without_anything() -> None:
    found = hourly_report.compose(_situation(counters={}, waiting={}, dead=0), "here")
    assert found.title.endswith("all well")
    assert "Feeds: 0 checked, 0 unchanged, 0 new entries" in found.body
    assert "Queues now: empty" in found.body
    assert hourly_report.compose(_situation(counters={}, updater={}), "x").title.endswith(
        "no updater is running"
    )


@pytest.fixture
def inbox() -> Iterator[RawServer]:
    """Takes what apprise's json:// sends; /refuse does not."""
    with RawServer(default=Reply(status=200)) as server:
        server.set(f"/refuse/{SECRET}", Reply(status=500))
        yield server


def _urls(inbox: RawServer, *paths: str) -> str:
    return " ".join(f"json://user:{SECRET}@127.0.0.1:{inbox.port}{path}/{SECRET}" for path in paths)


def _received(inbox: RawServer, path: str = "/in") -> list[Any]:
    return [json.loads(request.body) for request in inbox.requests if request.path.startswith(f"{path}/")]


def _of(hour: int) -> str:
    """Return what a title says of its hour."""
    start = dt.datetime.fromtimestamp(hour * HOUR_MS / 1000, dt.UTC)
    return f"{start:%H}:00–{start + dt.timedelta(hours=1):%H}:00 UTC"


@pytest.fixture
def settings(settings: Settings, inbox: RawServer) -> Settings:
    table = support.groups(settings, extra=MAINTENANCE)
    urls = _urls(inbox, "/refuse", "/in")
    return dataclasses.replace(settings, queues_file=table, report_urls=urls, log_level="debug")


def test_each_hour_is_reported_once_by_a_worker(
    settings: Settings,
    services: Services,
    redis_client: redis.Redis,
    inbox: RawServer,
    eventually: Eventually,
) -> None:
    due = int((clock.now() - dt.timedelta(seconds=30)).timestamp() * 1000) // HOUR_MS - 1
    for number in (due, due + 1):  # another hour may become due meanwhile
        redis_client.hset(redis_keys.make_hour_key(number), mapping=STORED)
    with (
        support.running("workers.updater.updater", settings, "updater") as updater,
        support.running("workers.updater.updater", settings, "standby") as standby,
        support.running("queue_manager.main", settings, "manager") as manager,
    ):
        hour = int(eventually(lambda: redis_client.get(redis_keys.REPORTED)))
        assert hour in (due, due + 1)
        # Another updater takes over, or somebody asks by hand: it is done.
        updater.stop()
        again = services.jobs.enqueue(Job(Task.REPORT, {"hour": hour}, Queue.MAINTENANCE))
        (outcome,) = services.jobs.await_many([again], 60)
        assert outcome.value == {"sent": 0, "refused": 0}
        logs = "".join(process.log.read_text() for process in (updater, standby, manager))
    (sent,) = [hourly_report for hourly_report in _received(inbox) if _of(hour) in hourly_report["title"]]
    assert len({hourly_report["title"] for hourly_report in _received(inbox)}) == len(_received(inbox))
    assert "20000 checked" in sent["message"]
    assert "3 jobs failed" in sent["title"]
    # At the most talkative level of the logs no address is in them.
    assert "report_undelivered" in logs
    assert "place=1 kind=JSON" in logs
    assert SECRET not in logs


def test_what_nobody_takes_is_tried_again(
    settings: Settings,
    services: Services,
    redis_client: redis.Redis,
    inbox: RawServer,
    eventually: Eventually,
) -> None:
    only = dataclasses.replace(settings, report_urls=_urls(inbox, "/refuse") + " nonsense://" + SECRET)
    job = Job(Task.REPORT, {"hour": HOUR}, Queue.MAINTENANCE)
    with support.running("queue_manager.main", only, "manager") as manager:
        (outcome,) = services.jobs.await_many([services.jobs.enqueue(job)], 90)
        assert outcome.error == "unsent"
        assert len(_received(inbox, "/refuse")) == only.job_retries
        log = manager.log.read_text()
    assert redis_client.get(redis_keys.REPORTED) is None
    assert "kind=unknown" in log
    assert SECRET not in log
    record: Any = redis_client.hgetall(redis_keys.make_job_key(hash_job(job.task, job.args)))
    assert SECRET.encode() not in b"".join(record.values())


def test_the_hour_that_has_ended_is_due_half_a_minute_later(services: Services) -> None:
    def hours_due(*moments: dt.datetime) -> list[int]:
        with contextlib.closing(bootstrap.build(services.settings)) as fresh:
            found = []
            for moment in moments:
                due = fresh.report.find_due_jobs(moment)
                fresh.report.mark_queued(due)
                found += [job.args["hour"] for job in due]
            return found

    def at(minute: int, second: int) -> dt.datetime:
        return dt.datetime(2026, 5, 4, 18, minute, second, tzinfo=dt.UTC)

    assert hours_due(at(0, 29)) == [HOUR - 1]
    assert hours_due(at(0, 30), at(0, 31), at(59, 59)) == [HOUR]
    assert hours_due(at(0, 29), at(0, 30), at(30, 0)) == [HOUR - 1, HOUR]
    with contextlib.closing(bootstrap.build(services.settings)) as fresh:
        # Redis was away in between: it is due still.
        assert fresh.report.find_due_jobs(at(0, 30)) == fresh.report.find_due_jobs(at(0, 31)) != []
    services.figures.set_reported_hour(HOUR)
    assert hours_due(at(0, 30)) == []
    silent = dataclasses.replace(services.settings, report_urls="")
    with contextlib.closing(bootstrap.build(silent)) as nobody:
        assert nobody.report.find_due_jobs(at(40, 0)) == []
        with pytest.raises(InvalidError, match="EVENTR_REPORT_URLS"):
            nobody.report.send_now()


def _eventr(settings: Settings, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app", *words],
        cwd=REPO,
        env={**os.environ, **environment(settings)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_by_hand_it_is_printed_or_sent(
    settings: Settings, redis_client: redis.Redis, inbox: RawServer
) -> None:
    now = int(clock.now().timestamp() * 1000) // HOUR_MS
    for number in (now, now + 1):  # the hour may turn meanwhile
        redis_client.hset(redis_keys.make_hour_key(number), mapping=STORED)
    printed = _eventr(settings, "report", "--dry-run")
    assert printed.returncode == 0, printed.stderr
    assert "Feeds: 20000 checked" in printed.stdout
    assert not inbox.requests
    sent = _eventr(settings, "report", "--now")
    assert (sent.returncode, sent.stdout) == (0, "Sent to 1 of 2 addresses.\n"), sent.stderr
    (message,) = _received(inbox)
    assert message["message"].splitlines()[0] == printed.stdout.splitlines()[2]
    shown = _eventr(settings, "settings").stdout
    assert "EVENTR_REPORT_URLS = •••" in shown
    assert SECRET not in printed.stdout + printed.stderr + sent.stdout + sent.stderr + shown


def test_the_counters_of_a_report_are_those_that_are_counted() -> None:
    rows = [(HOUR * HOUR_MS, {b"kind": b"finished", b"task": b"feeds.pull"}, {"feeds": 4, "not_modified": 3})]
    counters = hourly_stats.sum_by_hour(rows)[HOUR]
    assert "Feeds: 4 checked" in hourly_report.compose(_situation(counters=counters), "x").body
