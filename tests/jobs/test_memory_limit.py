"""A job that fills its worker's memory is found and given up, and the others are done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from queue_manager.child import measure_memory
from tests.jobs import support
from tests.jobs.conftest import Engine

# On a busy machine a job may take long to fill the memory, which must not look like a stall.
SETTINGS = {"worker_stall": 60.0, "worker_memory": 200 << 20}
SIZE = 64 << 20
HOLDER = """
import mmap, sys
kind, path, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
if kind == "file":
    with open(path, "r+b") as file:
        held = mmap.mmap(file.fileno(), size)
    sum(held[at] for at in range(0, size, 4096))
elif kind == "shared":
    held = mmap.mmap(-1, size)
    held.write(b"x" * size)
else:
    held = b"x" * size
print("ready", flush=True)
sys.stdin.read()
"""


def test_F19_who_fills_the_memory_ends_dead_after_three_crashes_alone(engine: Engine) -> None:
    assert support.crash_to_death(engine.jobs, engine.client, "hog", first=1000) == {"memory"}


def test_F19_who_takes_too_much_memory_at_once_is_refused_it_and_costs_no_worker(engine: Engine) -> None:
    """The manager would see it too late; the kernel refuses it by the limit of the process."""
    others = engine.jobs.enqueue_many(support.effects(20, seconds=0.2, start=2000))
    greedy = engine.jobs.enqueue(Job(Task.CRASH, {"how": "grab"}, Queue.PULL))

    def has_failed() -> bool:
        return engine.jobs.get_status(greedy.id).failures > 0

    ends = {outcome.id: outcome.error for outcome in engine.jobs.await_many([*others, greedy], 90)}
    assert has_failed()
    assert ends.pop(greedy.id) == "unexpected"
    assert set(ends.values()) == {None}
    assert {engine.jobs.get_status(ticket.id).crashes for ticket in [*others, greedy]} == {0}
    history = engine.client.hget(redis_keys.make_job_key(greedy.id), "history")
    assert isinstance(history, bytes)
    assert b"MemoryError" in history


@pytest.mark.parametrize(("kind", "counts"), [("own", True), ("shared", True), ("file", False)])
def test_memory_counts_without_mapped_files(tmp_path: Path, kind: str, counts: bool) -> None:
    path = tmp_path / "mapped"
    path.write_bytes(b"x" * SIZE)
    command = [sys.executable, "-c", HOLDER, kind, str(path), str(SIZE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        found = psutil.Process(process.pid)
        assert found.memory_info().rss > SIZE
        assert (measure_memory(found) > SIZE) is counts
        process.stdin.close()
