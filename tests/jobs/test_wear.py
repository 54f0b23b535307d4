"""Workers serve their time and leave; stuck ones and lost servers are found; memory is refused in time."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import psutil
import pytest

from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from queue_manager import fork_server, supervisor
from queue_manager.control import listen
from tests.jobs import repl, support
from tests.jobs.conftest import Engine
from tests.support.imports import REPO

GROUPS = """
[solo]
queues = ["maintenance"]
mode = "solo"
slots = 3
[queue.maintenance]
timeout = 4
retries = 1
"""


@pytest.fixture
def engine(engine: Engine, eventually: Any) -> Engine:
    """The running manager, when it can be talked to."""
    eventually(lambda: listen.list_running(engine.settings) == [engine.manager.pid])
    return engine


def _set(engine: Engine, group: str, key: str, value: int) -> None:
    """Change a setting; what comes after that its workers know already."""
    repl.ask(engine.settings, f"set {group}.{key} {value}")


def _worker(engine: Engine, group: str) -> list[int]:
    """The one worker of a group; none while another one takes its place."""
    pids = support.pids(engine.manager, group)
    return pids if len(pids) == 1 else []


def _left(engine: Engine, reason: str) -> int:
    lines = engine.manager.log.read_text().splitlines()
    return sum("worker_leaving" in line and f"reason={reason}" in line for line in lines)


@pytest.mark.parametrize(("group", "queue"), [("feeds", Queue.PULL), ("solo", Queue.MAINTENANCE)])
def test_workers_leave_after_so_many_jobs_and_lose_none(engine: Engine, group: str, queue: Queue) -> None:
    before = _left(engine, "max_jobs")
    _set(engine, group, "max_jobs", 6)
    try:
        jobs = [Job(Task.ECHO, {"worn": n, "group": group}, queue) for n in range(60)]
        tickets = engine.jobs.enqueue_many(jobs)
        assert [o.error for o in engine.jobs.await_many(tickets, 90)] == [None] * 60
    finally:
        _set(engine, group, "max_jobs", 1000)
    # A loop worker ends what it holds; so it may do some more than its share.
    assert _left(engine, "max_jobs") - before >= 3
    assert {engine.jobs.get_status(ticket.id).crashes for ticket in tickets} == {0}
    ends = support.ends(engine.client)
    assert {ends[ticket.id] for ticket in tickets} == {1}


@pytest.mark.parametrize("group", ["feeds", "solo"])
def test_a_worker_whose_lifetime_is_over_is_replaced(engine: Engine, eventually: Any, group: str) -> None:
    (old,) = eventually(lambda: _worker(engine, group))
    before = _left(engine, "lifetime")
    _set(engine, group, "lifetime", 10)
    try:
        queue, number = Queue.PULL if group == "feeds" else Queue.MAINTENANCE, 0
        while _left(engine, "lifetime") == before:
            number += 1
            # Not so short that it would leave for the number of its jobs.
            ticket = engine.jobs.enqueue(Job(Task.SLEEP, {"seconds": 0.2, "key": number}, queue))
            assert [o.error for o in engine.jobs.await_many([ticket], 60)] == [None]
    finally:
        _set(engine, group, "lifetime", 3600)
    eventually(lambda: (pids := support.pids(engine.manager, group)) and old not in pids)


def test_workers_share_what_was_loaded_for_all_of_them(engine: Engine, eventually: Any) -> None:
    """Looking for garbage among it writes to each of its pages, and each worker had a copy of them all."""
    ticket = engine.jobs.enqueue(Job(Task.ECHO, {"shared": 1}, Queue.MAINTENANCE))
    assert [o.error for o in engine.jobs.await_many([ticket], 60)] == [None]
    (worker,) = eventually(lambda: _worker(engine, "solo"))
    memory = psutil.Process(worker).memory_full_info()
    assert memory.uss < memory.rss / 3
    helpers = {p.cmdline()[0].rstrip("\0 "): p for p in psutil.Process(engine.manager.pid).children()}
    # Copies of the manager; where a copy was never tried, multiprocessing starts programs.
    copies = ("eventr forkserver", "eventr resource_tracker") if fork_server.is_python_known() else ()
    assert set(copies) == {
        name for name in helpers if name in ("eventr forkserver", "eventr resource_tracker")
    }
    for name in copies:
        memory = helpers[name].memory_full_info()
        assert memory.uss < memory.rss / 2


def test_a_solo_worker_that_is_stuck_is_killed_and_the_next_ones_jobs_run(engine: Engine) -> None:
    stuck = engine.jobs.enqueue(Job(Task.CRASH, {"how": "stall"}, Queue.MAINTENANCE))
    others = engine.jobs.enqueue_many([Job(Task.ECHO, {"behind": n}, Queue.MAINTENANCE) for n in range(5)])
    ends = {o.id: o.error for o in engine.jobs.await_many([stuck, *others], 90)}
    assert ends.pop(stuck.id) == "crashed"
    assert set(ends.values()) == {None}
    history = engine.client.hget(redis_keys.make_job_key(stuck.id), "history")
    assert isinstance(history, bytes)
    assert b'"where":"timeout"' in history
    assert {engine.jobs.get_status(ticket.id).crashes for ticket in others} == {0}


def test_a_lost_server_is_noticed_in_ninety_seconds() -> None:
    """Its heartbeat runs out, and the others look once in each beat of theirs."""
    assert Settings().manager_lease + 2 * supervisor._BEAT <= 90


_GREEDY = """
import resource
from workers.rlimits import limit_memory
limit_memory(200 << 20)
try:
    bytearray(1 << 30)
except MemoryError:
    print("refused", resource.getrlimit(resource.RLIMIT_CORE))
"""


def test_J05_memory_far_above_the_limit_is_refused_and_no_core_is_written() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _GREEDY], cwd=REPO, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "refused (0, 0)\n"
