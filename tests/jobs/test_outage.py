"""What an outage of MongoDB does to jobs: they are tried again, and nobody is blamed for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, State, Task
from tests.jobs import support


@pytest.fixture
def settings(settings: Settings) -> Settings:
    # A socket that is not there: each call waits for the driver's whole patience. Less patience with a
    # worker than three such calls in a row take.
    away = "mongodb://%2Fnonexistent%2Fmongodb.sock/?directConnection=true"
    return dataclasses.replace(settings, mongodb_uri=away, worker_stall=8.0, job_backoff=60.0)


def test_pulls_and_searches_without_mongodb_are_tried_again_and_crash_no_worker(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Any
) -> None:
    wanted = [Job(Task.PULL, {"feed_ids": [n]}, Queue.PULL) for n in range(1, 5)]
    wanted += [Job(Task.DISCOVER, {"key": n}, Queue.DISCOVERY) for n in range(1, 3)]
    with support.running("queue_manager.main", settings, "manager"):
        tickets = jobs.enqueue_many(wanted)
        eventually(lambda: all(jobs.get_status(t.id).state is State.SCHEDULED for t in tickets))
    views = [jobs.get_status(ticket.id) for ticket in tickets]
    assert [(v.failures, v.crashes, v.error) for v in views] == [(1, 0, "store_unavailable")] * len(views)
    rows: list[Any] = redis_client.xrange(redis_keys.EVENTS)  # type: ignore[assignment]
    kinds = {fields[b"kind"] for _, fields in rows}
    assert b"suspect" not in kinds
