"""A job that fills its worker's memory is found and given up, and the others are done."""

from __future__ import annotations

from tests.jobs import support
from tests.jobs.conftest import Engine

# On a busy machine a job may take long to fill the memory, which must not look like a stall.
SETTINGS = {"worker_stall": 60.0, "worker_memory": 200 << 20}


def test_who_fills_the_memory_ends_dead_after_three_crashes_alone(engine: Engine) -> None:
    assert support.crash_to_death(engine.jobs, engine.client, "hog", first=1000) == {"memory"}
