"""The controller under load, with real processes: results for waiters, events for browsers.

``engine.deliver_p95_ms``: 1,000 waiters (threads, in two processes like the web tier) await 10,000 jobs; 500
jobs per second end through the workers' own finish. Measured from the millisecond in which Redis recorded an
end (its own stamp, rounded down) until the waiter has the outcome. ``engine.controller_mb`` is the
controller's resident memory while all jobs are awaited.

``engine.sse_*``: 2,000 streams of 2,000 users who follow 100 feeds each. ``sse_p95_ms`` is the time from an
event for one user to their browser; ``sse_fanout_p95_ms`` from an event about a feed that all follow to each.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import multiprocessing
import random
import resource
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

import psutil
import redis

from app.adapters.redis.events import RedisEvents
from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task, Ticket
from bench.harness import Bench, benchmark
from controller.client import ResultReader
from tests.jobs import support
from tests.support import live
from tests.support.up import free_port
from workers import outcome as endings
from workers.queue_client import QueueClient

WAITERS, TASKS, PROCESSES = 1000, 10_000, 2
STREAMS, FEEDS = 2000, 100
#: Ends per second, and ends in one call: a worker records ends in batches.
RATE, TOGETHER = 500, 5
SHARED_FEED = 1
_SPAWN = multiprocessing.get_context("spawn")


@benchmark("controller")
def controller(bench: Bench) -> None:
    """Publish ``engine.deliver_p95_ms``, ``engine.controller_mb`` and ``engine.sse_*``."""
    tasks, streams = (200, 50) if bench.quick else (TASKS, STREAMS)
    with bench.servers() as running:
        settings = dataclasses.replace(
            running.settings,
            events_port=free_port(),
            secret_key="pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca",
            events_per_address=streams + 10,
            events_streams=streams + 10,
            result_ttl=600,
        )
        runs = [_deliver(settings, tasks, number) for number in range(1 if bench.quick else 3)]
        bench.figure("engine.deliver_p95_ms", [run.p95 for run in runs], "ms", at_most=10)
        bench.note(
            f"p50 {statistics.median(run.p50 for run in runs):.2f} ms, {TASKS:,} awaited by {WAITERS:,}"
        )
        bench.figure("engine.controller_mb", [run.megabytes for run in runs], "MB", at_most=150)
        heard = _stream(settings, streams, bench.quick)
        bench.figure("engine.sse_streams", [heard.streams], "streams", at_least=streams)
        bench.figure("engine.sse_kb", [heard.kilobytes], "KB/stream")
        bench.figure("engine.sse_p95_ms", [_p95(heard.single)], "ms")
        bench.figure("engine.sse_fanout_p95_ms", [_p95(heard.all)], "ms")


# -- results


@dataclasses.dataclass(frozen=True, slots=True)
class Delivered:
    """One run: milliseconds from finish to waiter, and the controller's memory."""

    p50: float
    p95: float
    megabytes: float


def _deliver(settings: Settings, tasks: int, number: int) -> Delivered:
    with redis.Redis.from_url(settings.redis_url) as client, contextlib.ExitStack() as stack:
        client.flushall()
        hub = live.controller(settings)
        stack.callback(hub.stop)
        jobs = stack.enter_context(contextlib.closing(RedisJobs(settings)))
        wanted = [Job(Task.ECHO, {"key": key, "run": number}, Queue.PULL) for key in range(tasks)]
        tickets = jobs.enqueue_many(wanted)
        pipes = [stack.enter_context(_process(_wait, settings, part)) for part in _parts(tickets)]
        for pipe in pipes:
            pipe.recv()  # all of them wait
        time.sleep(3)  # memory used briefly to register 10,000 waits is freed and not counted
        megabytes = psutil.Process(hub.pid).memory_info().rss / 1e6
        _end(support.desk(client, settings), settings)
        times = _latencies(client, [one for pipe in pipes for one in pipe.recv()])
    if len(times) != tasks:
        raise RuntimeError(f"{tasks - len(times)} results did not come")
    return Delivered(statistics.median(times), _p95(times), megabytes)


def _latencies(client: redis.Redis, heard: list[tuple[str, float]]) -> list[float]:
    with client.pipeline(transaction=False) as pipe:
        for job_id, _ in heard:
            pipe.xrange(redis_keys.make_results_key(job_id))
        ends = [int(rows[-1][0].partition(b"-")[0]) for rows in pipe.execute()]
    return [at - end for (_, at), end in zip(heard, ends, strict=True)]


def _parts(tickets: Sequence[Ticket]) -> list[list[list[Ticket]]]:
    """Distribute tickets: processes → waiters → their tickets."""
    size = max(1, TASKS // WAITERS)
    waiters = [list(tickets[start : start + size]) for start in range(0, len(tickets), size)]
    return [waiters[n::PROCESSES] for n in range(PROCESSES)]


def _wait(pipe: Connection, settings: Settings, parts: list[list[Ticket]]) -> None:
    """Wait with one thread per part; send (job id, time of its outcome in Unix milliseconds)."""
    reader = ResultReader.from_settings(settings)
    times: list[tuple[str, float]] = []
    began = threading.Barrier(len(parts) + 1)

    def wait(tickets: list[Ticket]) -> None:
        began.wait()
        for outcome in reader.await_many(tickets, 120):
            times.append((outcome.id, time.time() * 1000))

    threading.stack_size(256 << 10)
    threads = [threading.Thread(target=wait, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    began.wait()
    pipe.send("waiting")
    for thread in threads:
        thread.join()
    reader.close()
    pipe.send(times)


def _end(desk: QueueClient, settings: Settings) -> None:
    """End all jobs at a steady pace."""
    due = time.monotonic()
    while taken := desk.claim_jobs(TOGETHER, {}, ()):
        due += TOGETHER / RATE
        time.sleep(max(0.0, due - time.monotonic()))
        desk.finish([endings.finish_job(job, {"id": job.id}, settings) for job in taken])


# -- events


@dataclasses.dataclass(frozen=True, slots=True)
class Heard:
    """Milliseconds to one browser and to all of them, and the memory of a stream."""

    streams: int
    kilobytes: float
    single: list[float]
    all: list[float]


def _stream(settings: Settings, streams: int, quick: bool) -> Heard:
    hub = live.controller(settings)
    events = RedisEvents(settings)
    try:
        memory = psutil.Process(hub.pid).memory_info
        before = memory().rss
        urls = [_url(events, user) for user in range(1, streams + 1)]
        with _process(_listen, settings, urls) as pipe:
            opened = pipe.recv()
            kilobytes = (memory().rss - before) / 1000 / opened
            _tell_each(events, opened, 5 if quick else 600)
            _tell_all(events, 1 if quick else 8)
            pipe.send("enough")
            single, everybody = pipe.recv()
    finally:
        events.close()
        hub.stop()
    return Heard(opened, kilobytes, single, everybody)


def _url(events: RedisEvents, user: int) -> str:
    feeds = [SHARED_FEED, *range(user * FEEDS, user * FEEDS + FEEDS - 1)]
    return "/events?pass=" + events.issue_pass(user, feeds, events.get_position())


def _tell_each(events: RedisEvents, users: int, count: int) -> None:
    dice = random.Random(1)
    for number in range(count):
        events.notify_progress(dice.randint(1, users), number, {"at": time.monotonic()})
        time.sleep(0.02)  # the pace of the measurement, 50 per second
    time.sleep(2)  # let the last events arrive, so that late ones are measured too


def _tell_all(events: RedisEvents, count: int) -> None:
    for _ in range(count):
        # The number of new entries carries the time of sending: it passes through unchanged.
        events.notify_new_entries({SHARED_FEED: int(time.monotonic() * 1e6)})
        time.sleep(2)  # let one fan-out reach everyone before the next, or their queues are measured


class _Browser(asyncio.Protocol):
    def __init__(self, url: str, opened: Callable[[], None], heard: Callable[[float, bytes], None]) -> None:
        self._url, self._opened, self._heard = url, opened, heard
        self._rest = b""
        self._streams = False

    def connection_made(self, transport: Any) -> None:
        transport.write(live.get(self._url).encode())

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for text in events:
            if not self._streams and b"HTTP/1.1 200" in text:
                self._streams = True
                self._opened()
            elif b"data: " in text:
                self._heard(now, text)


def _listen(pipe: Connection, settings: Settings, urls: list[str]) -> None:
    """Open all streams; send how many are open, then the milliseconds."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (16_384, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    single: list[float] = []
    everybody: list[float] = []
    count = 0

    def opened() -> None:
        nonlocal count
        count += 1

    def heard(now: float, text: bytes) -> None:
        data = json.loads(text.partition(b"data: ")[2])
        if "at" in data:
            single.append((now - data["at"]) * 1000)
        elif str(SHARED_FEED) in data.get("feeds", ()):
            everybody.append((now - data["feeds"][str(SHARED_FEED)] / 1e6) * 1000)

    async def main() -> None:
        loop, port = asyncio.get_running_loop(), settings.events_port
        for start in range(0, len(urls), 100):
            connects = [
                loop.create_connection(functools.partial(_Browser, url, opened, heard), "127.0.0.1", port)
                for url in urls[start : start + 100]
            ]
            await asyncio.gather(*connects)
        deadline = loop.time() + 30
        while count < len(urls) and loop.time() < deadline:
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)  # memory used for connecting is freed before it is measured
        pipe.send(count)
        while not pipe.poll():
            await asyncio.sleep(0.05)

    asyncio.run(main())
    pipe.recv()
    pipe.send((single, everybody))


# -- both


@contextlib.contextmanager
def _process(work: Callable[..., None], *args: Any) -> Iterator[Connection]:
    """Run a function in its own process; yield the pipe to it."""
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=work, args=(theirs, *args))
    process.start()
    try:
        yield ours
    finally:
        process.join(30)
        process.kill()


def _p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]
