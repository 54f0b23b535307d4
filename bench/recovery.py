"""Recovery of ``eventr up`` when its parts are killed one by one, and the memory of its idle processes.

``engine.recover_worker_s`` is the time from the kill of a worker until its job runs again. For every other
part it is the time until its successor answers and a job queued then has its result. Each part is killed once
per run, since ``eventr up`` waits longer before a second start.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

import psutil

from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from bench.harness import Bench, benchmark
from tests.faults.system import PARTS, System

#: Seconds in which the job of a killed worker must run again, on the same server.
WORKER = 5
RUNS = 3


@benchmark("recovery")
def recovery(bench: Bench) -> None:
    """Publish ``engine.recover_*`` and the memory of idle processes."""
    runs = 1 if bench.quick else min(RUNS, bench.repeats)
    seconds: dict[str, list[float]] = {part: [] for part in ("worker", *PARTS)}
    megabytes: dict[str, list[float]] = {"manager": [], "controller": [], "worker": []}
    for run in range(runs):
        home = Path(tempfile.mkdtemp(prefix="eventr-bench-"))
        system = System(home, run, poll_max=30)
        try:
            system.probe()
            for name, weight in _weights(system).items():
                megabytes[name].append(weight)
            seconds["worker"].append(_worker(system, run))
            for part in PARTS:
                seconds[part] += system.strike(part)
        finally:
            system.close()
            shutil.rmtree(home, ignore_errors=True)
    for part, times in seconds.items():
        bench.figure(f"engine.recover_{part}_s", times, "s", at_most=WORKER if part == "worker" else None)
    for name, weights in megabytes.items():
        bench.figure(f"engine.{name}_idle_mb", weights, "MB")


def _weights(system: System) -> dict[str, float]:
    """Return the memory in MB that would be freed by ending each process (USS)."""
    pids = system.up.pids()
    chosen = {"manager": pids["manager"], "controller": pids["controller"], "worker": system.workers()[0]}
    return {name: psutil.Process(pid).memory_full_info().uss / 1e6 for name, pid in chosen.items()}


def _worker(system: System, run: int) -> float:
    """Kill the worker that runs a job; return the seconds until the job runs again, by Redis' clock."""
    ticket = system.services.jobs.enqueue(Job(Task.SLEEP, {"seconds": 20, "key": run}, Queue.PULL))
    _began(system, ticket.id, 1)
    for pid in system.workers():
        os.kill(pid, signal.SIGKILL)
    at, micro = system.client.time()
    return _began(system, ticket.id, 2) - (at + micro / 1e6)


def _began(system: System, job: str, times: int) -> float:
    """Wait until a job has started this many times; return the time of the last start, Unix time."""
    found: list[float] = []

    def look() -> bool:
        rows: Any = system.client.xrange(redis_keys.EVENTS)
        found[:] = [
            int(at.split(b"-")[0]) / 1000
            for at, row in rows
            if row[b"kind"] == b"started" and row[b"id"].decode() == job
        ]
        return len(found) >= times

    system.wait(look, f"the job has begun {times} times")
    return found[times - 1]
