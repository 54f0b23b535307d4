"""An engine at work as Redis shows it, without its processes: for pictures and for tests of screens."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import redis

from app.bootstrap.services import Services
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from app.models.operations.hourly_stats import HOUR_MS, MINUTE_MS
from tests.jobs import support
from workers import outcome
from workers.outcome import BadJobError

MANAGER = "farm-4026531836:812:170000"


def fill(services: Services, now: dt.datetime) -> str:
    """Let a manager with workers, a controller and an updater say that they live, with figures of two days.

    Returns:
        The id of a dead task.
    """
    with redis.Redis.from_url(services.settings.redis_url) as client:
        seconds = now.timestamp()
        client.zadd(redis_keys.MANAGERS, {MANAGER: seconds + 1e9})
        client.set(redis_keys.make_manager_key(MANAGER), json.dumps(_status(now)))
        client.zadd(redis_keys.CONTROLLERS, {"farm-813": seconds + 1e9})
        sign = {"host": "farm", "pid": 813, "since": now.isoformat(), "streams": 214, "awaited": 3}
        client.set(redis_keys.make_alive_key("controller", "farm-813"), json.dumps(sign))
        client.hset(
            redis_keys.UPDATER_STATS,
            mapping={
                "backlog": 37,
                "late_s": 4.2,
                "waiting": 300,
                "running": 100,
                "pace": 41.5,
                "queued_s": 7,
            },
        )
        _minutes(client, now)
        _hours(client, now)
        dead = _dead(services, client)
        jobs = [Job(Task.PULL_SYSTEM, {"feed_ids": [n]}, Queue.PULL_SYSTEM) for n in range(4)]
        services.jobs.enqueue_many([*jobs, Job(Task.ECHO, {"key": 9}, Queue.PULL)])
        support.desk(client, services.settings, "w7").claim_jobs(1, {}, ())
        client.sadd(redis_keys.PAUSED, "import")
    return dead


def _status(now: dt.datetime) -> dict[str, Any]:
    worker = {"group": "feeds", "state": "ready", "jobs_done": 812, "rss_mb": 142.5, "age_s": 1830.0}
    current = [{"id": "a" * 32, "task": "feeds.pull_system", "for_s": 2.4}]
    group = {"mode": "loop", "queues": ["discovery", "feed-pull"], "min_workers": 1, "max_workers": 4}
    return {
        "manager": MANAGER,
        "host": "farm",
        "pid": 812,
        "since": (now - dt.timedelta(hours=31)).isoformat(),
        "groups": [
            {**group, "name": "feeds", "serving": 2, "wanted": 2},
            {**group, "name": "suspects", "serving": 0, "wanted": 0, "min_workers": 0},
        ],
        "workers": [
            {**worker, "name": "farm-1", "pid": 901, "current": current},
            {**worker, "name": "farm-2", "pid": 902, "current": [], "jobs_done": 23, "age_s": 41.0},
        ],
    }


def _minutes(client: redis.Redis, now: dt.datetime) -> None:
    newest = int(now.timestamp() * 1000) // MINUTE_MS
    with client.pipeline(transaction=False) as pipe:
        for number in range(newest - 25 * 60, newest + 1):
            # Never nothing, whatever the hour is: the page is to show that something moved.
            wave = 1.6 + math.sin(number / 97) + 0.4 * math.sin(number / 7)
            feeds = max(0, round(900 * wave))
            counts = {
                "feeds": feeds,
                "not_modified": feeds * 7 // 10,
                "errors": feeds // 45 if number % 3 else 0,
                "new": feeds // 30,
                "jobs": feeds // 80 + 1,
                "failed": 0,
                "run_ms": feeds * 110,
                "ended-feed-pull-sys": feeds // 80,
            }
            key, minute = redis_keys.make_minutes_key(number // 60), f"{number % 60:02}"
            pipe.hset(key, mapping={f"{minute}:{what}": count for what, count in counts.items()})
        pipe.execute()


def _hours(client: redis.Redis, now: dt.datetime) -> None:
    newest = int(now.timestamp() * 1000) // HOUR_MS
    with client.pipeline(transaction=False) as pipe:
        for number in range(newest - 47, newest + 1):
            feeds = round(52_000 + 21_000 * math.sin(number / 4))
            pipe.hset(
                redis_keys.make_hour_key(number),
                mapping={
                    "pull:feeds": feeds,
                    "pull:not_modified": feeds * 7 // 10,
                    "pull:new": feeds // 28,
                    "pull:errors": feeds // 60,
                    "end:finished:feeds.pull_system": feeds // 90,
                    "end:failed:feeds.pull": int(number % 5 == 0),
                    "wait:user:28": 40,
                    "wait:user:40": 3,
                    f"memory:{MANAGER}": 300 << 20,
                },
            )
        pipe.execute()


def _dead(services: Services, client: redis.Redis) -> str:
    ids = [fail(services, client, number) for number in (17, 18, 19)]
    return ids[0]


def fail(services: Services, client: redis.Redis, number: int, queue: Queue = Queue.PULL) -> str:
    """Let a task fail for good, as a worker does; return its id."""
    services.jobs.enqueue(Job(Task.ECHO, {"key": number}, queue))
    desk = support.desk(client, services.settings)
    (taken,) = desk.claim_jobs(1, {}, ())
    error = BadJobError("bad_result", "The task returned an invalid result.")
    desk.finish([outcome.fail_job(taken, error, services.settings)])
    # Not always the one just enqueued: older jobs of the queue come first.
    return taken.id
