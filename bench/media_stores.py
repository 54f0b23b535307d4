"""Media stores: files of 100 kB put and read per second, by folder, WebDAV (wsgidav) and S3 (moto).

The servers share the machine with the client, and moto is made for tests: its figures only show that the
client isn't what takes the time.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from app.adapters.media.dav import DavStore
from app.adapters.media.disk import DiskStore
from app.adapters.media.s3 import S3Store
from app.adapters.media.store_set import StoreSet
from app.models.media.blob import build_key
from app.ports import MediaStore
from app.runtime.pieces import read_piece
from bench.harness import Bench, benchmark
from tests.support.media_servers import DavServer, S3Server

SIZE = 100_000
_TIMEOUT = 30.0


@benchmark("media_stores")
def measure_stores(bench: Bench) -> None:
    """Publish ``media_stores.*``: puts and reads per second, and our CPU time for each."""
    with tempfile.TemporaryDirectory(prefix="eventr-bench-") as name:
        folder = Path(name)
        with DavServer(folder / "dav") as dav, S3Server() as s3:
            disk = DiskStore(folder / "disk", "disk")
            remote = DavStore(dav.address(), timeout=_TIMEOUT)
            _measure(bench, "disk", disk, 300)
            _measure(bench, "dav", remote, 100)
            _measure(bench, "s3", S3Store(s3.address(), timeout=_TIMEOUT), 30)
            both = StoreSet([disk, remote], copies=2)
            with contextlib.closing(both):
                body = os.urandom(SIZE)
                keys = _make_keys(5 if bench.quick else 100)
                runs = [_rate(lambda key: both.put(key, body, SIZE), keys)[0] for _ in range(bench.repeats)]
                bench.figure("media_stores.two_put_s", runs, "/s")


def _measure(bench: Bench, name: str, store: MediaStore, count: int) -> None:
    body = os.urandom(SIZE)
    puts, gets, costs = [], [], []
    for _ in range(bench.repeats):
        keys = _make_keys(3 if bench.quick else count)
        rate, _ = _rate(lambda key: store.put(key, io.BytesIO(body), SIZE), keys)
        puts.append(rate)
        rate, cpu = _rate(lambda key: _read(store, key), keys)
        gets.append(rate)
        costs.append(cpu * 1000)
    bench.figure(f"media_stores.{name}_put_s", puts, "/s")
    bench.figure(f"media_stores.{name}_get_s", gets, "/s")
    bench.figure(f"media_stores.{name}_get_cpu_ms", costs, "ms")


def _make_keys(count: int) -> list[str]:
    return [build_key(os.urandom(32), 1, "original") for _ in range(count)]


def _read(store: MediaStore, key: str) -> None:
    if sum(map(len, read_piece(store.open(key)))) != SIZE:
        raise ValueError("bytes are missing")


def _rate(action: Callable[[str], object], keys: list[str]) -> tuple[float, float]:
    """Return how often per second the action runs, and the CPU seconds of one run."""
    began, cpu = time.perf_counter(), time.process_time()
    for key in keys:
        action(key)
    return len(keys) / (time.perf_counter() - began), (time.process_time() - cpu) / len(keys)
