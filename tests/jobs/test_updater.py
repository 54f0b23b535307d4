"""The updater: queues what is due, once, keeps the queue short, and hands over; on MongoDB and Redis."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
from typing import Any

import pytest
import redis
from pymongo.database import Database

from app import bootstrap, clock
from app.config import Settings
from app.jobs import RedisJobs
from app.models import keys
from app.models.jobs import Job, Queue, Task
from tests.jobs import support
from workers import endings
from workers.desk import Desk
from workers.updater import Lease, Updater

WAITING = keys.queue(Queue.PULL_SYSTEM)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(
        settings, pull_batch=4, updater_backlog=3, updater_interval=0.2, updater_lease=1.0
    )


@pytest.fixture
def updater(settings: Settings, services: bootstrap.Services, redis_client: redis.Redis) -> Updater:
    return Updater(settings, redis_client, services.pull, services.jobs)


def _feeds(services: bootstrap.Services, db: Database[dict[str, Any]], count: int) -> set[int]:
    now = clock.now()
    made = [services.gateways.feeds.get_or_create(f"https://{n}.example/feed", now=now) for n in range(count)]
    db.feeds.update_many({}, {"$set": {"subscribers": 1}})
    return {feed.id for feed in made}


def _take(client: redis.Redis, settings: Settings) -> tuple[Desk, list[Any]]:
    desk = support.desk(client, settings)
    return desk, desk.take(100, {}, ())


def test_due_feeds_are_queued_once_while_they_are_in_hand(
    updater: Updater,
    services: bootstrap.Services,
    db: Database[dict[str, Any]],
    redis_client: redis.Redis,
    settings: Settings,
) -> None:
    ids = _feeds(services, db, 10)
    assert updater.look() == 3
    desk, taken = _take(redis_client, settings)
    assert {i for job in taken for i in job.args["feed_ids"]} == ids
    assert sum(len(job.args["feed_ids"]) for job in taken) == 10
    assert {job.task for job in taken} == {Task.PULL_SYSTEM}
    # Nothing waits, all is being pulled: the same feeds are not queued again …
    assert updater.look() == 0
    desk.finish([endings.finished(job, None, settings) for job in taken])
    # … until their jobs have ended, and they are due still.
    assert updater.look() == 3


def test_the_queue_is_kept_short(
    updater: Updater, services: bootstrap.Services, db: Database[dict[str, Any]], redis_client: redis.Redis
) -> None:
    _feeds(services, db, 40)
    assert updater.look() == 3
    assert updater.look() == 0
    assert redis_client.llen(WAITING) == 3
    redis_client.lpop(WAITING)
    assert updater.look() == 1
    assert redis_client.llen(WAITING) == 3


def test_only_the_holder_of_the_lease_queues(
    updater: Updater,
    services: bootstrap.Services,
    db: Database[dict[str, Any]],
    redis_client: redis.Redis,
    settings: Settings,
) -> None:
    _feeds(services, db, 4)
    other = Lease(redis_client, keys.UPDATER_LEASE, 60)
    assert other.hold()
    assert updater.look() == 0
    assert not updater.hold()
    other.release()
    assert updater.look() == 1
    assert not other.hold()
    other.release()  # of a lease that is somebody else's: nothing happens
    assert updater.hold()


def test_a_standby_takes_over_from_a_killed_updater(
    services: bootstrap.Services,
    db: Database[dict[str, Any]],
    redis_client: redis.Redis,
    settings: Settings,
    eventually: Any,
) -> None:
    _feeds(services, db, 4)
    with (
        support.running("workers.updater", settings, "first") as first,
        support.running("workers.updater", settings, "second") as second,
    ):
        eventually(lambda: _alive(redis_client) == {first.pid, second.pid}, timeout=90)
        eventually(lambda: redis_client.llen(WAITING) == 1)
        holder = next(p for p in (first, second) if "feeds_queued" in p.log.read_text())
        standby = second if holder is first else first
        assert "feeds_queued" not in standby.log.read_text()
        holder.stop(signal.SIGKILL)
        _desk, taken = _take(redis_client, settings)
        assert len(taken) == 1
        redis_client.delete(keys.job(taken[0].id))
        eventually(lambda: "feeds_queued" in standby.log.read_text(), timeout=30)
        assert standby.stop() == 0
    # Its sign and its lease are gone at once; those of the killed one run out.
    assert standby.pid not in _alive(redis_client)
    assert redis_client.get(keys.UPDATER_LEASE) is None


def _alive(client: redis.Redis) -> set[int]:
    signs = [client.get(key) for key in client.scan_iter(keys.alive("updater", "*"))]
    return {json.loads(sign)["pid"] for sign in signs if sign}  # type: ignore[arg-type]


def test_waiting_pulls_of_people_do_not_count(
    updater: Updater, services: bootstrap.Services, db: Database[dict[str, Any]], settings: Settings
) -> None:
    _feeds(services, db, 4)
    with contextlib.closing(RedisJobs(settings)) as jobs:
        jobs.enqueue_many([Job(Task.PULL, {"feed_ids": [n]}, Queue.PULL) for n in range(50)])
    assert updater.look() == 1
