"""References to stored content, and its cleaning, on one MongoDB and a disk store.

``media_blobs.ops_s``: 8 threads use and release 5 blobs while a cleaner runs; each operation is one
transaction with the file's document. ``media_blobs.clean_*_s``: seconds in which one cleaner deletes 10,000
records that nothing needs. ``media_blobs.walk_files_s``: files that a walk over the store compares with the
database per second, while others are being stored; it deletes none of them.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.media.blob import Purpose
from app.models.media.source import Source
from bench.harness import Bench, benchmark, time_call
from tests.support.media import add_file, find_faults, find_strays, make_content

THREADS, BLOBS = 8, 5
OPERATIONS, ROTTEN, STORED = 10_000, 10_000, 2000
HOURS = dt.timedelta(hours=2)


@benchmark("media_blobs")
def media_blobs(bench: Bench) -> None:
    """Publish ``media_blobs.ops_s``, ``media_blobs.clean_*`` and ``media_blobs.walk_files_s``."""
    operations, rotten, stored = (80, 20, 10) if bench.quick else (OPERATIONS, ROTTEN, STORED)
    now = [dt.datetime.now(dt.UTC).replace(microsecond=0)]
    with (
        bench.servers() as running,
        contextlib.closing(bootstrap.build(running.settings)) as services,
        clock.set_source(lambda: now[0]),
    ):
        services.migrate()
        rates = [_count_references(services, operations, now) for _ in range(bench.repeats)]
        bench.figure("media_blobs.ops_s", rates, "/s", at_least=300)
        _require_sound(services)
        bench.figure("media_blobs.clean_files_s", [_clean_files(services, rotten, now)], "s", at_most=60)
        bench.figure("media_blobs.clean_sources_s", [_clean_sources(services, rotten, now)], "s", at_most=60)
        _require_sound(services)
        now[0] = dt.datetime.now(dt.UTC)  # the ages of files are real
        bench.figure("media_blobs.walk_files_s", [_walk(services, stored)], "/s")
        _require_sound(services)


def _require_sound(services: Services) -> None:
    faults = [*find_faults(services), *find_strays(services)]
    if faults:
        raise AssertionError(faults[:5])


def _count_references(services: Services, operations: int, now: list[dt.datetime]) -> float:
    """Return operations per second of threads that add and delete files of the same few blobs."""
    done = threading.Event()

    def use(thread: int) -> None:
        for turn in range(operations // THREADS // 2):
            content = make_content((thread + turn) % BLOBS)
            file = add_file(services, 100 + thread, content)
            services.gateways.files.delete(100 + thread, file.id)

    def clean() -> None:
        while not done.wait(0.05):
            now[0] += HOURS
            services.media_cleaning.run(seconds=5)

    cleaner = threading.Thread(target=clean)
    cleaner.start()
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            seconds = time_call(lambda: list(pool.map(use, range(THREADS)))) / 1000
    finally:
        done.set()
        cleaner.join()
    now[0] += HOURS
    services.media_cleaning.run()
    return operations / seconds


def _clean_files(services: Services, count: int, now: list[dt.datetime]) -> float:
    """Return the seconds in which files that nothing uses go, and an hour later their contents."""
    _fill(count, lambda number: add_file(services, 200 + number % 50, make_content(1000 + number)))
    now[0] += dt.timedelta(days=30)
    return time_call(lambda: _clean_all(services, now)) / 1000


def _clean_sources(services: Services, count: int, now: list[dt.datetime]) -> float:
    """Return the seconds in which pictures that nobody has seen go, and an hour later their contents."""

    def add(number: int) -> None:
        source_id, token, sources = number.to_bytes(16, "big"), "token", services.gateways.sources
        url = f"https://example.org/{number}.png"
        services.mappers.sources.add([Source(id=source_id, url=url, purpose=Purpose.PICTURE, used=now[0])])
        sources.claim([source_id], token, now[0])
        services.gateways.blobs.keep(
            make_content(100_000 + number),
            lambda session, blob_id: sources.finish(session, source_id, token, blob_id, now[0]),
        )

    _fill(count, add)
    now[0] += dt.timedelta(days=30)
    return time_call(lambda: _clean_all(services, now)) / 1000


def _fill(count: int, add: object) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(add, range(count)))  # type: ignore[arg-type]


def _clean_all(services: Services, now: list[dt.datetime]) -> None:
    services.gateways.media_cleaning.clean(now[0], lambda: False)
    now[0] += HOURS
    services.gateways.media_cleaning.clean(now[0], lambda: False)


def _walk(services: Services, stored: int) -> float:
    """Return files per second of walks beside 50 puts per second."""
    _fill(stored, lambda number: add_file(services, 300, make_content(200_000 + number), ["share:1"]))
    done = threading.Event()

    def store() -> None:
        for number in _pace(done, 50):
            add_file(services, 300, make_content(300_000 + number), ["share:1"])

    storing = threading.Thread(target=store)
    storing.start()
    started = time.perf_counter()
    found = services.media_cleaning.walk_stores(apply=True)
    seconds = time.perf_counter() - started
    done.set()
    storing.join()
    if found.deleted or found.lost:
        raise AssertionError(found)
    return found.files / seconds


def _pace(done: threading.Event, rate: float) -> Iterator[int]:
    number = 0
    while not done.wait(1 / rate):
        yield number
        number += 1
