"""The running system: updater, queue, manager and two workers poll due feeds; the stores share their cores.

``engine.system_feeds`` is the wall-clock rate of feeds polled by the system as ``eventr up`` runs it; every
feed has its own host and answers 304. ``engine.system_vs_core`` divides this by one core's rate in the same
run, measured as in ``refresh.304`` (the pull alone, by CPU time of itself and MongoDB) before and after. The
feeds' server shares the two cores, so it does as little as possible: one answer for all, three system calls.

``engine.system_most_vs_core`` is the upper bound: two processes that only pull the same feeds, with the same
stores and cores, but without updater, queue, manager or controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import multiprocessing
import socket
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any

import psutil
import redis

from app import clock
from app.bootstrap import services as bootstrap
from app.config import Settings
from app.models.jobs import redis_keys
from app.runtime.gc import freeze_loaded
from bench.engine import SECRET, parts
from bench.harness import Bench, benchmark
from bench.pulling import pull_all
from bench.refresh import ETAG, Rig, rig
from tests.support import live

#: Feeds for measuring one core's rate, and copies of each for the system to poll.
FEEDS, COPIES = 1000, 150
QUICK_FEEDS, QUICK_COPIES = 100, 10
_FIRST, _AT_ONCE = 1 << 40, 2000  #: first id of the copies; number deleted per call
#: Waiting feeds that count as a full queue, longest time to fill it, and seconds measured.
FULL, PATIENCE = 5000, 90.0
MEASURED = 15.0
#: MongoDB is idle when it uses less than this percentage of a core for one second.
IDLE_PERCENT = 3.0
GROUPS = """
[feeds]
queues = ["discovery", "feed-pull", "import", "feed-pull-sys"]
workers = 2
max_jobs = 1000000
"""
_ANSWER = f"HTTP/1.1 304 Not Modified\r\nETag: {ETAG}\r\nConnection: close\r\n\r\n".encode()


@benchmark("throughput")
def throughput(bench: Bench) -> None:
    """Publish the system's rate, and its ratio to one core's."""
    feeds, copies = (QUICK_FEEDS, QUICK_COPIES) if bench.quick else (FEEDS, COPIES)
    rates, ratios, most = [], [], []
    with rig(bench) as found:
        found.fresh(feeds)
        found.pull()
        found.server.stop()
        with _server(found.server.port):
            for _ in range(min(3, bench.repeats)):
                core = [_one_core(found)]
                rates.append(_run(bench, found, copies))
                alone = _pull_alone(found, feeds * copies // 4)
                core.append(_one_core(found))
                ratios.append(rates[-1] / statistics.mean(core))
                most.append(alone / statistics.mean(core))
                bench.note(f"one core: {core[0]:,.0f} and {core[1]:,.0f} feeds/s")
    bench.figure("engine.system_feeds", rates, "feeds/s")
    bench.figure("engine.system_vs_core", ratios, "×", at_least=1.5)
    bench.figure("engine.system_most_vs_core", most, "×")


def _one_core(found: Rig) -> float:
    """Return feeds per CPU second of the pull alone, after MongoDB has finished earlier work.

    MongoDB keeps writing and deleting for a while after a hundred thousand documents were added or removed,
    and all its work during a pull counts as the pull's.
    """
    process, deadline = psutil.Process(found.mongod), time.monotonic() + PATIENCE
    while process.cpu_percent(1.0) > IDLE_PERCENT:
        if time.monotonic() > deadline:
            raise RuntimeError("MongoDB does not come to rest")
    return found.rate({"unchanged": len(found.feed_ids)})


def _run(bench: Bench, found: Rig, copies: int) -> float:
    """Return feeds per second of the running system while very many feeds are due."""
    full, measured = (1, 2.0) if bench.quick else (FULL, MEASURED)
    settings = dataclasses.replace(found.settings, secret_key=SECRET)
    with parts(settings, GROUPS), redis.Redis.from_url(settings.redis_url) as client:
        _copy(found, copies)
        updater = live.Part("updater", settings)
        try:
            _settle(client, full)
            began, before = time.perf_counter(), _polled(client)
            busy = _cpu()
            time.sleep(measured)
            count, seconds = _polled(client) - before, time.perf_counter() - began
            bench.note(_shares(busy, _cpu(), seconds))
        finally:
            updater.stop()
        left = found.services.gateways.feeds.count_due(clock.now(), 1)
    if not left and not bench.quick:
        raise RuntimeError("the system ran out of feeds")
    _drop(found, copies)
    return count / seconds


def _pull_alone(found: Rig, feeds: int) -> float:
    """Return feeds per second of two processes that only pull, each one half of the copies."""
    _copy(found, feeds // len(found.feed_ids))
    ids = tuple(range(_FIRST, _FIRST + feeds))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        times = pool.starmap(_pull_half, [(found.settings, ids[number::2]) for number in range(2)], 1)
    _drop(found, feeds // len(found.feed_ids))
    return feeds / (max(end for _, end in times) - min(begin for begin, _ in times))


def _pull_half(settings: Settings, ids: tuple[int, ...]) -> tuple[float, float]:
    """Pull like a worker; return start and end by the machine's clock."""
    services = bootstrap.build(settings)
    try:
        with bootstrap.build_fetcher(settings) as fetcher:
            freeze_loaded()
            began = time.monotonic()
            asyncio.run(pull_all(services.pull, ids, fetcher, settings))
            return began, time.monotonic()
    finally:
        services.close()


def _settle(client: redis.Redis, full: int) -> None:
    """Wait until this many feeds are queued: from then on the workers never wait for work."""
    deadline = time.monotonic() + PATIENCE
    while int(client.hget(redis_keys.UPDATER_STATS, "waiting") or 0) < full:
        if time.monotonic() > deadline:
            raise RuntimeError("the updater does not fill the queue")
        time.sleep(0.2)


def _polled(client: redis.Redis) -> int:
    """Return the number of feeds polled so far, from the Prometheus figures."""
    counts: Any = client.hmget(redis_keys.TOTALS, "pull:not_modified", "pull:errors")
    if int(counts[1] or 0):
        raise RuntimeError("polls ended in errors")
    return int(counts[0] or 0)


def _cpu() -> dict[str, float]:
    """Return the CPU seconds of all child processes by kind."""
    found: dict[str, float] = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            name, times = _name(process), process.cpu_times()
            found[name] = found.get(name, 0.0) + times.user + times.system
    return found


def _name(process: psutil.Process) -> str:
    line = " ".join(process.cmdline())
    known = ("mongod", "redis", "worker", "manager", "updater", "controller", "spawn_main")
    name = next((name for name in known if name in line), "other")
    return "feeds' server" if name == "spawn_main" else name


def _shares(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> str:
    used = {name: (after[name] - before.get(name, 0.0)) / seconds for name in after}
    shares = sorted(used.items(), key=lambda pair: -pair[1])
    return "cores: " + ", ".join(f"{name} {share:.2f}" for name, share in shares if share >= 0.005)


def _copy(found: Rig, copies: int) -> None:
    """Copy each polled feed many times; each copy is due and has its own host."""
    feeds = found.services.store.database["feeds"]
    due = clock.now() - dt.timedelta(seconds=1)
    originals, number = list(feeds.find()), 0
    for _ in range(copies):
        rows = []
        for feed in originals:
            url = f"http://127.{2 + (number >> 16)}.{number >> 8 & 255}.{number & 255}:{found.server.port}/"
            changed = {"_id": _FIRST + number, "url": url, "url_key": url, "subscribers": 1}
            rows.append({**feed, **changed, "next_check_at": due})
            number += 1
        feeds.insert_many(rows, ordered=False)


def _drop(found: Rig, copies: int) -> None:
    feeds = found.services.store.database["feeds"]
    for first in range(_FIRST, _FIRST + copies * len(found.feed_ids), _AT_ONCE):
        feeds.delete_many({"_id": {"$gte": first, "$lt": first + _AT_ONCE}})


@contextlib.contextmanager
def _server(port: int) -> Iterator[None]:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Accept a connection only when its request has arrived.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)
    listener.bind(("0.0.0.0", port))
    listener.listen(4096)
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(listener,), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()
        listener.close()


def _serve(listener: socket.socket) -> None:
    """Answer each connection once."""
    while True:
        line, _ = listener.accept()
        with contextlib.closing(line), contextlib.suppress(ConnectionError):
            line.recv(4096)
            line.send(_ANSWER)
