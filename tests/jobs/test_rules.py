"""What a queue sets for its own jobs holds in the workers; real processes."""

from __future__ import annotations

import collections
import os
import signal
from typing import Any

import psutil
import pytest

from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, State, Task
from app.models.jobs.workers import QueueRules, WorkerSpec, decode_orders, encode_orders
from queue_manager.groups import sort_queues
from tests.jobs import support
from tests.jobs.conftest import Engine
from workers.loop import compute_caps
from workers.middleware.timeout import compute_time_limit
from workers.registry import find_task
from workers.runner import apply_rules

SETTINGS = {"worker_nice": 5}
GROUPS = """
[solo]
queues = ["maintenance"]
mode = "solo"
slots = 4
system_slots = 4
max_idle = 1
[queue.discovery]
timeout = 0.3
retries = 1
failure_ttl = 77
[queue.import]
buffer = 2
result_ttl = 44
"""


def _rules(**changes: Any) -> QueueRules:
    plain: dict[str, Any] = {
        "retries": 3,
        "backoff_first": 2.0,
        "backoff_factor": 2.0,
        "backoff_most": 60.0,
        "backoff_jitter": 0.2,
        "result_ttl": 60,
        "failure_ttl": 600,
    }
    return QueueRules(**{**plain, **changes})


def test_a_queue_limits_the_time_and_the_tries_of_its_jobs(engine: Engine) -> None:
    ticket = engine.jobs.enqueue(Job(Task.SLEEP, {"seconds": 25, "key": 1}, Queue.DISCOVERY))
    (outcome,) = engine.jobs.await_many([ticket], 60)
    assert outcome.error == "timeout"
    assert engine.jobs.get_status(ticket.id).failures == 1
    assert 0 < int(engine.client.ttl(redis_keys.make_job_key(ticket.id))) <= 77  # type: ignore[arg-type]
    # The same task in another queue has the time it asks for.
    other = engine.jobs.enqueue(Job(Task.SLEEP, {"seconds": 1, "key": 2}, Queue.PULL))
    assert [o.error for o in engine.jobs.await_many([other], 60)] == [None]


def _held(engine: Engine, ids: list[str]) -> dict[bytes, int]:
    """Return how many of these jobs each worker held at most, by the stream of events."""
    rows: list[Any] = engine.client.xrange(redis_keys.EVENTS)  # type: ignore[assignment]
    now, most = collections.Counter[bytes](), dict[bytes, int]()
    for _, row in rows:
        if row[b"id"].decode() in ids and row[b"kind"] != b"progress":
            worker = row[b"worker"]
            now[worker] += 1 if row[b"kind"] == b"started" else -1
            most[worker] = max(most.get(worker, 0), now[worker])
    return most


def test_a_worker_holds_no_more_of_a_queue_than_its_buffer(engine: Engine) -> None:
    jobs = [Job(Task.SLEEP, {"seconds": 1.5, "key": 100 + n}, Queue.IMPORT) for n in range(5)]
    tickets = engine.jobs.enqueue_many(jobs)
    ids = [ticket.id for ticket in tickets]
    assert [o.error for o in engine.jobs.await_many(tickets, 60)] == [None] * 5
    # Of each worker: where jobs wait for long, there is more than one.
    assert max(_held(engine, ids).values()) == 2
    assert 0 < int(engine.client.ttl(redis_keys.make_job_key(ids[0]))) <= 44  # type: ignore[arg-type]


def test_a_solo_worker_gives_back_what_it_has_in_hand(engine: Engine, eventually: Any) -> None:
    engine.client.sadd(redis_keys.PAUSED, str(Queue.MAINTENANCE))
    # The first one lasts, so that it still runs when it is looked at and its worker is killed.
    jobs = [Job(Task.SLEEP, {"seconds": 0 if n else 12, "key": 200 + n}, Queue.MAINTENANCE) for n in range(6)]
    tickets = engine.jobs.enqueue_many(jobs)
    ids = [ticket.id for ticket in tickets]
    engine.client.srem(redis_keys.PAUSED, str(Queue.MAINTENANCE))
    # One runs and three are in hand, all taken at once; the others wait.
    eventually(lambda: support.states(engine.client, ids) == {"started": 4, "queued": 2})
    # Taken is not begun: only of what says how far it is the manager knows that it runs.
    eventually(lambda: engine.client.hget(redis_keys.make_job_key(ids[0]), "progress"))
    (pid,) = support.pids(engine.manager, "solo")
    stands_back = psutil.Process(pid).nice() - psutil.Process().nice()
    assert stands_back == engine.settings.worker_nice, "pages come first"
    # A crash now: the one that ran is a suspect, those in hand are nobody's fault.
    os.kill(pid, signal.SIGKILL)
    assert [o.error for o in engine.jobs.await_many(tickets, 90)] == [None] * 6
    assert [engine.jobs.get_status(i).crashes for i in ids] == [1, 0, 0, 0, 0, 0]
    assert {engine.jobs.get_status(i).state for i in ids} == {State.FINISHED}


@pytest.mark.parametrize(
    ("own", "of_queue", "limit"),
    [
        (Task.SLEEP, None, 30),
        (Task.SLEEP, 50.0, 30),
        (Task.SLEEP, 5.0, 5),
        (Task.ECHO, None, 99),
        (Task.ECHO, 500.0, 500),
    ],
)
def test_the_shorter_time_holds(own: Task, of_queue: float | None, limit: float) -> None:
    settings = Settings(job_timeout=99)
    assert compute_time_limit(find_task(own), settings, _rules(timeout=of_queue)) == limit


def test_rules_replace_the_settings_of_a_job() -> None:
    changed = apply_rules(Settings(), _rules(retries=9, backoff_most=7.0, failure_ttl=88))
    assert (changed.job_retries, changed.job_backoff_most, changed.failure_ttl) == (9, 7.0, 88)
    assert changed.home == Settings().home


@pytest.mark.parametrize(
    ("queues", "priority", "wanted"),
    [
        (["feed-pull-sys", "feed-pull"], {}, ["feed-pull", "feed-pull-sys"]),
        (
            ["maintenance", "import", "feed-pull-sys", "discovery"],
            {},
            ["import", "discovery", "maintenance", "feed-pull-sys"],
        ),
        (["import", "discovery"], {"discovery": 1}, ["discovery", "import"]),
        (["import", "discovery"], {"import": -1}, ["discovery", "import"]),
        # No number brings the system before people.
        (["import", "maintenance"], {"maintenance": 1000, "import": -1000}, ["import", "maintenance"]),
    ],
)
def test_people_come_first_then_priority_then_the_order_of_the_file(
    queues: list[str], priority: dict[str, int], wanted: list[str]
) -> None:
    rules = {queue: _rules(priority=priority.get(queue, 0)) for queue in queues}
    assert sort_queues(tuple(queues), rules) == tuple(wanted)


def test_caps_are_what_is_left_of_the_buffers() -> None:
    spec = _spec(rules={"import": _rules(buffer=3), "discovery": _rules(buffer=1), "feed-pull": _rules()})
    assert compute_caps(spec, {"import": 1, "discovery": 4}) == {"import": 2, "discovery": 0}


@pytest.mark.parametrize(("slots", "most"), [(16, 11), (8, 6), (2, 1), (1, 1)])
def test_imports_leave_places_for_the_pulls_that_they_wait_for(slots: int, most: int) -> None:
    spec = _spec(slots=slots, rules={"import": _rules()})
    assert compute_caps(spec, {}) == {"import": most}
    assert compute_caps(spec, {"import": most}) == {"import": 0}


def _spec(**changes: Any) -> WorkerSpec:
    plain: dict[str, Any] = {
        "name": "feeds-1",
        "manager": "host:1:1",
        "group": "feeds",
        "queues": ("feed-pull", "import"),
        "mode": "loop",
        "slots": 3,
        "system_slots": 2,
        "memory": 1 << 28,
        "lifetime": 60.5,
        "max_jobs": 10,
        "grace": 1.5,
        "wear": 1.03,
    }
    return WorkerSpec(**{**plain, **changes})


def test_orders_arrive_as_they_were_given() -> None:
    spec = _spec(rules={"import": _rules(buffer=3, timeout=1.5), "feed-pull": _rules()})
    assert decode_orders(encode_orders(spec)) == spec


@pytest.mark.parametrize(
    "packet", [b"", b"7", b"{}", b'{"queues": [], "rules": {}}', b'{"queues": 1, "rules": []}']
)
def test_what_is_no_order_is_refused(packet: bytes) -> None:
    with pytest.raises(ValueError):
        decode_orders(packet)
