"""Uploads in the application: reservations, parts, counting, and storing, on one MongoDB and a disk store.

``media_tus.begin_s``: uploads that 8 threads begin per second, all of one user, each with a reservation.
``media_tus.part_ms``: storing a part of 4 MiB durably. ``media_tus.part_writes``: database writes for 1,000
parts and the count after them. ``media_tus.seal_mb_s``: hashing and storing a complete file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.media.upload import NewUpload
from bench.harness import Bench, benchmark

PART = 4 << 20
THREADS = 8


@benchmark("media_tus")
def media_tus(bench: Bench) -> None:
    """Publish ``media_tus.*``."""
    begun, parts, small = (16, 2, 50) if bench.quick else (400, 64, 1000)
    with bench.servers() as running:
        wide = dataclasses.replace(running.settings, quota=0, uploads_open=1000, uploads_per_hour=100_000)
        with contextlib.closing(bootstrap.build(wide)) as services:
            services.migrate()
            rates = [_begin_uploads(services, number, begun) for number in range(bench.repeats)]
            bench.figure("media_tus.begin_s", rates, "/s")
            found = [_send_file(services, parts) for _ in range(bench.repeats)]
            bench.figure("media_tus.part_ms", [ms for ms, _ in found], "ms")
            bench.figure("media_tus.seal_mb_s", [rate for _, rate in found], "MB/s")
            bench.figure("media_tus.part_writes", [_count_writes(services, small)], "", at_most=10)


def _begin_uploads(services: Services, number: int, count: int) -> float:
    """Return how many uploads of one user begin per second."""
    actor, start = Actor(1000 + number), time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(services.uploads.create, actor, NewUpload(size=10)) for _ in range(count)]:
            future.result()
    return count / (time.perf_counter() - start)


def _send_file(services: Services, parts: int) -> tuple[float, float]:
    """Return the milliseconds of a part, and the megabytes per second of storing the whole file."""
    actor, data = Actor(1), os.urandom(PART)
    upload = services.uploads.create(actor, NewUpload(size=parts * PART)).upload
    start = time.perf_counter()
    for part in range(parts):
        services.uploads.append(actor, upload.id, part * PART, data)
    sent = time.perf_counter()
    services.sealing.seal_upload(upload.id)
    return (sent - start) / parts * 1000, parts * PART / 1e6 / (time.perf_counter() - sent)


def _count_writes(services: Services, parts: int) -> float:
    """Return the writes of parts of one file and of the count after them."""
    actor, database = Actor(2), services.store.database
    upload = services.uploads.create(actor, NewUpload(size=2 * parts)).upload
    database.command("profile", 2)
    for part in range(parts):
        services.uploads.append(actor, upload.id, part, b"x")
    services.uploads.flush(actor.user_id)
    database.command("profile", 0)
    writes: dict[str, Any] = {"op": {"$in": ["update", "insert", "remove"]}}
    return float(database["system.profile"].count_documents(writes))
