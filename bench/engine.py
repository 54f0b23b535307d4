"""The job engine with real processes: its pace compared with RQ's own worker, and the waiting times of users.

``engine.loop_vs_rq`` and ``engine.solo_vs_rq``: the rate of empty jobs with one Eventr worker, divided by the
rate with one RQ ``SimpleWorker`` on the same Redis. Jobs pass through the whole system (queued, run, result
at a waiter); the three workers take turns. RQ gets help in parts that aren't compared: its jobs are queued in
one call, and one look at its registry shows that all have ended.

``engine.user_*`` is the time from requesting a job to having its result, one job after the other, on an idle
system and behind a queue full of system jobs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import statistics
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import redis
import rq
from rq.serializers import JSONSerializer

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from bench.harness import Bench, benchmark
from tests.support import live

JOBS, QUICK_JOBS = 3000, 60
#: Number of user jobs for a percentile, and of system jobs queued before them.
ASKED, FLOOD = 300, 4000
SECRET = "pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca"
#: One loop worker for user and system jobs, one solo worker for the rest.
GROUPS = """
[feeds]
queues = ["discovery", "feed-pull", "import", "feed-pull-sys"]
slots = 50
max_jobs = 1000000
[maintenance]
queues = ["maintenance"]
mode = "solo"
slots = {buffer}
max_jobs = 1000000
"""


@benchmark("engine")
def engine(bench: Bench) -> None:
    """Publish paces, ratios and latencies."""
    jobs = QUICK_JOBS if bench.quick else JOBS
    with bench.servers(log_level="warning", secret_key=SECRET) as running:
        _paces(bench, running.settings, jobs)
        _latencies(bench, running.settings)


# -- pace


def _paces(bench: Bench, settings: Settings, jobs: int) -> None:
    loop, solo, theirs = [], [], []
    with parts(settings, GROUPS.format(buffer=10)) as port, _rq(settings) as pipe:
        for run in range(bench.repeats):
            theirs.append(_rq_pace(settings, pipe, jobs // 3))
            loop.append(_pace(port, Queue.PULL, jobs, run))
            solo.append(_pace(port, Queue.MAINTENANCE, jobs // 2, run))
    bench.figure("engine.rq_jobs", theirs, "jobs/s")
    bench.figure("engine.loop_jobs", loop, "jobs/s")
    bench.figure("engine.solo_jobs", solo, "jobs/s")
    bench.figure("engine.loop_vs_rq", _ratios(loop, theirs), "×", at_least=3)
    bench.figure("engine.solo_vs_rq", _ratios(solo, theirs), "×", at_least=2)


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def _pace(port: RedisJobs, queue: Queue, count: int, run: int) -> float:
    """Return jobs per second, from queueing the first until the last result arrives."""
    # Different arguments make different jobs; none of these sleeps is as long as a clock tick.
    base = run * count + (10_000_000 if queue is Queue.PULL else 0)
    wanted = [Job(Task.NAP, {"seconds": (base + n) * 1e-12}, queue) for n in range(count)]
    started = time.perf_counter()
    outcomes = list(port.await_many(port.enqueue_many(wanted), 120))
    seconds = time.perf_counter() - started
    if len(outcomes) != count or any(outcome.error for outcome in outcomes):
        raise RuntimeError(f"{count - len(outcomes)} results missing, or failures among them")
    return count / seconds


def nothing(number: int) -> None:
    """Do nothing, as RQ's job."""


def _rq_pace(settings: Settings, pipe: Connection, count: int) -> float:
    with redis.Redis.from_url(settings.redis_url) as client:
        queue = rq.Queue("bench", connection=client, serializer=JSONSerializer)
        finished = rq.registry.FinishedJobRegistry(queue=queue)
        before = client.zcard(finished.key)
        wanted = [rq.Queue.prepare_data(nothing, args=(n,), result_ttl=500) for n in range(count)]
        started = time.perf_counter()
        queue.enqueue_many(wanted)
        while client.zcard(finished.key) < before + count:
            if pipe.poll(0.002):
                raise RuntimeError("RQ's worker has ended")
        seconds = time.perf_counter() - started
    return count / seconds


def _rq_worker(pipe: Connection, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        queue = rq.Queue("bench", connection=client, serializer=JSONSerializer)
        worker = rq.SimpleWorker([queue], connection=client, serializer=JSONSerializer)
        pipe.send("starts")
        worker.work(logging_level="ERROR")


@contextlib.contextmanager
def _rq(settings: Settings) -> Iterator[Connection]:
    """Run a warm RQ worker in its own process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_rq_worker, args=(theirs, settings.redis_url), daemon=True)
    process.start()
    try:
        ours.recv()
        _rq_pace(settings, ours, 5)
        yield ours
    finally:
        process.kill()
        process.join()


# -- latency


def _latencies(bench: Bench, settings: Settings) -> None:
    asked, flood = (10, 100) if bench.quick else (ASKED, FLOOD)
    with parts(settings, None) as port:
        _publish(bench, "idle", _asks(port, asked, 0))
        for start in range(0, flood, 500):
            effects = [{"keys": [n], "seconds": 0.05} for n in range(start, min(flood, start + 500))]
            port.enqueue_many([Job(Task.EFFECT, args, Queue.PULL_SYSTEM) for args in effects])
        _publish(bench, "flood", _asks(port, asked, asked))
        with redis.Redis.from_url(settings.redis_url) as client:
            left = client.llen(redis_keys.make_queue_key(Queue.PULL_SYSTEM))
    bench.note(f"{left} of {flood} system jobs still waited when the last person had his answer")


def _publish(bench: Bench, name: str, times: Sequence[float]) -> None:
    bench.figure(f"engine.user_{name}_p50_ms", [statistics.median(times)], "ms")
    bench.figure(f"engine.user_{name}_p95_ms", [statistics.quantiles(times, n=20)[-1]], "ms")


def _asks(port: RedisJobs, count: int, start: int) -> list[float]:
    times = []
    for n in range(start, start + count):
        started = time.perf_counter()
        ticket = port.enqueue(Job(Task.ECHO, {"asked": n}, Queue.PULL))
        if [o.error for o in port.await_many([ticket], 60)] != [None]:
            raise RuntimeError("a user's job did not end")
        times.append((time.perf_counter() - started) * 1000)
    return times


# -- both


@contextlib.contextmanager
def parts(settings: Settings, groups: str | None) -> Iterator[RedisJobs]:
    """Run a manager and a controller with ready workers on an empty Redis.

    Args:
        settings: The settings.
        groups: The queue table; None for Eventr's own.
    """
    table: Path | None = None
    if groups is not None:
        table = settings.home / "queues.toml"
        table.write_text(groups)
        settings = dataclasses.replace(settings, queues_file=table)
    with redis.Redis.from_url(settings.redis_url) as client, contextlib.ExitStack() as stack:
        client.flushall()
        hub = live.controller(settings)
        stack.callback(hub.stop)
        manager = live.Part("manager", settings)
        stack.callback(manager.stop)
        port = stack.enter_context(contextlib.closing(RedisJobs(settings)))
        queues = [Queue.PULL, Queue.MAINTENANCE] if groups and "solo" in groups else [Queue.PULL]
        warm = [Job(Task.ECHO, {"warm": str(queue)}, queue) for queue in queues]
        if len(list(port.await_many(port.enqueue_many(warm), 60))) != len(warm):
            raise RuntimeError(manager.log.read_text())
        yield port
