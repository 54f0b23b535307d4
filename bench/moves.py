"""Moving a person between two replica sets on one machine.

The person has 1,000 subscriptions and 5,000 marks. ``moves.refused_s``: seconds for which their writes are
refused, with the wait until all processes have noticed the move. ``moves.whole_s``: the whole move, without
the 15 s before the old cell is emptied. ``moves.large_refused_s``: refused seconds with 100,000 marks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bson import Int64

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.embedded import MongoDB
from app.models.operations.cells import HOME
from app.models.operations.moves import CLEAN_AFTER
from bench.harness import Bench, benchmark

USER, FIRST = 1_700_000_000_000_001, 1_700_000_000_000_000
CELL = "c1"


@benchmark("moves")
def moves(bench: Bench) -> None:
    """Publish ``moves.*``."""
    with bench.servers() as running, _second_server() as address:
        spread = dataclasses.replace(running.settings, cells=f"{CELL}={address}")
        with contextlib.closing(bootstrap.build(spread)) as services:
            services.migrate()
            _fill(services, subscriptions=100 if bench.quick else 1000, marks=100 if bench.quick else 5000)
            found = [_move(services) for _ in range(bench.repeats)]
            bench.figure("moves.refused_s", [refused for refused, _ in found], "s", at_most=1)
            bench.figure("moves.whole_s", [whole for _, whole in found], "s")
            _fill(services, subscriptions=0, marks=100 if bench.quick else 95_000, first=10_000)
            large = [_move(services)[0] for _ in range(1 if bench.quick else min(3, bench.repeats))]
            bench.figure("moves.large_refused_s", large, "s")


@contextlib.contextmanager
def _second_server() -> Iterator[str]:
    home = Path(tempfile.mkdtemp(prefix="eventr-bench-cell-"))
    server = MongoDB(Settings(home=home))
    try:
        server.start()
        server.wait()
        yield server.address
    finally:
        server.stop()
        shutil.rmtree(home)


def _fill(services: Services, *, subscriptions: int, marks: int, first: int = 0) -> None:
    """Insert documents of the sizes that the mappers write, where the person lives."""
    services.cells.forget_places()
    database = services.cells.get_database(USER)
    ids = range(FIRST + first, FIRST + first + max(subscriptions, marks))
    mine = {"user_id": Int64(USER)}
    if subscriptions:
        database["subscriptions"].insert_many(
            {"_id": Int64(i), **mine, "feed_id": Int64(i), "start": 0, "read": b"\1" * 60, "folder_ids": []}
            for i in ids[:subscriptions]
        )
    database["marks"].insert_many(
        {"_id": Int64(i), **mine, "entry_id": Int64(i), "feed_id": Int64(FIRST), "starred_at": clock.now()}
        for i in ids[:marks]
    )


def _move(services: Services) -> tuple[float, float]:
    """Move the person to the other cell; return the seconds of refused writes, and of the whole move."""
    place = services.cells.places.read_place(USER)
    services.mover.start(USER, HOME if place is not None and place.cell == CELL else CELL)
    began = time.perf_counter()
    moved = services.mover.run(USER, clock.now())
    services.mover.run(USER, clock.now() + CLEAN_AFTER * 2)
    return moved.refused_s, time.perf_counter() - began
