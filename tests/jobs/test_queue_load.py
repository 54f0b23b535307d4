"""The load of the queues in Redis: what waits, how long the first job has waited, which switches are on."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from queue_manager.load import QueueLoads, QueueState
from tests.jobs import support

PULLS, SCHEDULED = redis_keys.make_queue_key(Queue.PULL), redis_keys.SCHEDULED + Queue.PULL
#: Far more seconds than a test takes.
LONG = 1_000_000


def _read(settings: Settings, queue: Queue = Queue.PULL) -> QueueState:
    found = support.linked(settings, lambda link: QueueLoads(link.client).read_queues(list(Queue)))
    assert list(found) == list(map(str, Queue))
    return found[queue]


def _now(client: redis.Redis) -> float:
    seconds, micros = client.time()
    return seconds + micros / 1_000_000


def _queue(jobs: RedisJobs, client: redis.Redis, ages: list[float]) -> None:
    """Queue one job per age, in this order."""
    for key, age in enumerate(ages):
        ticket = jobs.enqueue(Job(Task.ECHO, {"key": key}, Queue.PULL))
        client.hset(redis_keys.make_job_key(ticket.id), "since", int((_now(client) - age) * 1000))


def _schedule(client: redis.Redis, *, due: list[float]) -> None:
    """Schedule one retry for each number of seconds since it became due."""
    client.zadd(SCHEDULED, {f"retry{n}": _now(client) - seconds for n, seconds in enumerate(due)})


def _about(seconds: float) -> Any:
    return pytest.approx(seconds, abs=LONG / 10)


def test_the_load_of_a_queue_is_its_waiting_jobs_and_the_wait_of_the_first(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    assert _read(settings) == QueueState("feed-pull", 0, 0.0, paused=False, draining=False)
    _queue(jobs, redis_client, [LONG, 2 * LONG, 0])
    found = _read(settings)
    assert (found.length, found.oldest, found.planned) == (3, _about(LONG), 0)
    _schedule(redis_client, due=[-LONG])
    assert (_read(settings).length, _read(settings).planned) == (3, 1)
    assert _read(settings, Queue.DISCOVERY).length == 0


@pytest.mark.parametrize("waiting", [[], [2.0 * LONG]], ids=["empty queue", "older job"])
def test_retries_that_are_due_count_as_waiting_and_later_ones_do_not(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings, waiting: list[float]
) -> None:
    _queue(jobs, redis_client, waiting)
    _schedule(redis_client, due=[LONG, -LONG])
    found = _read(settings)
    assert (found.length, found.oldest) == (len(waiting) + 1, _about(2 * LONG if waiting else LONG))
    _schedule(redis_client, due=[4 * LONG, 3 * LONG])
    found = _read(settings)
    assert (found.length, found.oldest) == (len(waiting) + 2, _about(4 * LONG)), "the retry waits longest"


@pytest.mark.parametrize(
    "record", [None, "a list", {"status": "queued"}, {"since": "soon"}, {"since": 1e15}],
    ids=["missing", "not a hash", "without a stamp", "unreadable stamp", "clock set back"],
)  # fmt: skip
def test_a_first_job_without_a_usable_stamp_counts_but_has_waited_no_time(
    redis_client: redis.Redis, settings: Settings, record: Any
) -> None:
    if isinstance(record, str):
        redis_client.rpush(redis_keys.make_job_key("first"), record)
    elif record:
        redis_client.hset(redis_keys.make_job_key("first"), mapping=record)
    redis_client.rpush(PULLS, "first")
    found = _read(settings)
    assert (found.length, found.oldest) == (1, 0)


def test_the_wait_includes_fractions_of_a_second(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    _queue(jobs, redis_client, [0.75])
    assert _read(settings).oldest >= 0.749


@pytest.mark.parametrize("switch", ["paused", "draining"])
def test_a_switch_is_reported_for_its_own_queue_only(
    redis_client: redis.Redis, settings: Settings, switch: str
) -> None:
    on: dict[str, bool] = {switch: True}
    support.linked(settings, lambda link: QueueLoads(link.client).set_switches(Queue.PULL, **on))
    found = _read(settings)
    assert (found.paused, found.draining) == (switch == "paused", switch == "draining")
    other = _read(settings, Queue.DISCOVERY)
    assert (other.paused, other.draining) == (False, False)
