"""F22: the primary of a set of Redis servers is killed, Sentinels name another one, and no job is lost."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.errors import StoreError
from app.models.jobs.jobs import Job, Queue, Task
from tests.jobs import support
from tests.support import redis_set
from tests.support.redis_set import RedisSet

pytestmark = pytest.mark.timeout(3000)


@pytest.fixture
def settings(settings: Settings, redis_group: RedisSet) -> Settings:
    """A job counts when one replica has it."""
    found = dataclasses.replace(
        settings,
        redis_url=redis_group.url(),
        redis_replicas=1,
        job_backoff=0.05,
        stop_grace=1.0,
        worker_nice=0,
    )
    return dataclasses.replace(found, queues_file=support.groups(found))


def _job(key: int) -> Job:
    return Job(Task.EFFECT, {"keys": [key]}, Queue.PULL)


def test_a_fail_over_loses_no_job(redis_group: RedisSet, settings: Settings, scale: int) -> None:
    """A manager and its workers are at work, and somebody queues jobs before and during each fail-over."""
    rounds = 2 * scale
    tickets = []
    with (
        support.running("queue_manager.main", settings, "manager"),
        contextlib.closing(RedisJobs(settings)) as jobs,
    ):
        for round_ in range(rounds):
            tickets += [_insist(jobs, round_ * 100 + key) for key in range(50)]
            old = redis_group.find_primary()
            redis_group.fail_over()
            tickets += [_insist(jobs, round_ * 100 + key) for key in range(50, 100)]
            redis_group.start(old)
            redis_set.wait_until(redis_group.is_whole)
        found = {outcome.id: outcome.error for outcome in _await(jobs, tickets)}
    assert len(found) == 100 * rounds
    assert set(found.values()) == {None}


def _insist(jobs: RedisJobs, key: int) -> Any:
    """Queue a job as a caller that repeats does; return the first ticket that counts."""
    found: list[Any] = []

    def attempt() -> bool:
        with contextlib.suppress(StoreError):
            found.append(jobs.enqueue(_job(key)))
        return bool(found)

    redis_set.wait_until(attempt)
    return found[0]


def _await(jobs: RedisJobs, tickets: list[Any]) -> Iterator[Any]:
    seen: set[str] = set()

    def attempt() -> bool:
        with contextlib.suppress(StoreError):
            for outcome in jobs.await_many([t for t in tickets if t.id not in seen], 20):
                if outcome.error != "wait_expired":
                    seen.add(outcome.id)
                    out.append(outcome)
        return len(seen) == len(tickets)

    out: list[Any] = []
    redis_set.wait_until(attempt, 120)
    return iter(out)
