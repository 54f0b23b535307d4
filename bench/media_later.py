"""Delayed tasks on real Redis and MongoDB: touches, due tasks, and the writes that debouncing saves.

``later.touches`` is one client that requests tasks in batches; ``later.touches_single`` waits for each reply.
``later.due_seconds`` is the time in which the updater's side queues 10,000 due tasks. ``later.runs_1000`` is
how often a task runs for 1,000 parts of one upload, one per second.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import time

from app import clock
from app.bootstrap import services as bootstrap
from app.models.jobs.jobs import Job, Queue, Task
from app.models.jobs.later import Touch
from app.services.later import LaterKind, LaterRunner
from bench.harness import Bench, benchmark

TOUCHES, DUE, PARTS = 20_000, 10_000, 1000
KIND = "bench.echo"
_START = dt.datetime(2027, 1, 1, 12, 0, 30, tzinfo=dt.UTC)


@benchmark("later")
def measure_later(bench: Bench) -> None:
    """Publish the rates of delayed tasks."""
    touches, due, parts = (100, 100, 50) if bench.quick else (TOUCHES, DUE, PARTS)
    rates, single, seconds, runs = [], [], [], []
    with bench.servers() as running, contextlib.closing(bootstrap.build(running.settings)) as services:
        services.migrate()
        kind = LaterKind(KIND, lambda args: Job(Task.ECHO, dict(args), Queue.MAINTENANCE), lambda _: ())
        runner = LaterRunner(services.later, services.jobs, services.mappers.dead_letters, [kind])
        for _ in range(bench.repeats):
            rates.append(touches / _time_touches(services, touches))
            single.append(touches / 10 / _time_single_touches(services, touches // 10))
            services.jobs._client.flushall()
            seconds.append(_time_due(services, runner, due))
            services.jobs._client.flushall()
            runs.append(_count_runs(services, runner, parts))
            services.jobs._client.flushall()
    bench.figure("later.touches", rates, "1/s", at_least=2000)
    bench.figure("later.touches_single", single, "1/s")
    bench.figure("later.due_seconds", seconds, "s", at_most=10)
    bench.figure("later.runs_1000", runs, "runs", at_most=10)


def _time_touches(services: bootstrap.Services, count: int) -> float:
    began = time.perf_counter()
    services.later.touch_many(
        Touch(kind=KIND, key=str(n % 5000), args={"key": n % 5000}, delay=30, limit=600) for n in range(count)
    )
    return time.perf_counter() - began


def _time_single_touches(services: bootstrap.Services, count: int) -> float:
    began = time.perf_counter()
    for n in range(count):
        services.later.touch(KIND, str(n), {"key": n}, delay=30, limit=600)
    return time.perf_counter() - began


def _time_due(services: bootstrap.Services, runner: LaterRunner, count: int) -> float:
    services.later.touch_many(
        Touch(kind=KIND, key=str(n), args={"key": n}, delay=0, limit=0) for n in range(count)
    )
    began = time.perf_counter()
    while runner.run_due(clock.now()) is not None:
        pass
    return time.perf_counter() - began


def _count_runs(services: bootstrap.Services, runner: LaterRunner, parts: int) -> int:
    """Return how many jobs are queued for these parts, one per second, each job being run at once."""
    count, queue = 0, services.jobs._client
    for second in range(parts + 60):
        now = _START + dt.timedelta(seconds=second)
        with clock.set_source(lambda now=now: now):  # type: ignore[misc]
            if second < parts:
                services.later.touch(KIND, "1", {"key": 1}, delay=30, limit=600)
            runner.run_due(now)
        if queue.llen(f"rq:queue:{Queue.MAINTENANCE}"):
            count += 1
            for key in queue.scan_iter("rq:*"):
                queue.delete(key)
    return count
