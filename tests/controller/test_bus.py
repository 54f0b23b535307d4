"""What the real engine reports, and what it leaves in Redis."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import redis

from app.adapters.redis.events import RedisEvents
from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from tests.jobs import support
from tests.support import live
from tests.support.refusal import refusing

#: Keys without an expiry, by their beginning, and what bounds them.
BOUNDED = {
    redis_keys.QUEUES: "one name per queue",
    redis_keys.EVENTS: "newest 20,000 or so",
    redis_keys.DEAD: "newest dead_max",
    redis_keys.FINISHED: "job ids, cut by each finish",
    redis_keys.FAILED: "job ids, cut by each finish",
    redis_keys.RQ_WORKERS: "one name per worker that lives",
    redis_keys.WORKERS: "one name per worker that lives",
    redis_keys.MANAGERS: "one name per manager that lives",
    "eventr:totals": "one number per counter",
    "selftest:": "of the tests",
}


def test_start_progress_result_and_failure_are_reported_by_real_workers(
    settings: Settings, redis_client: redis.Redis
) -> None:
    own = dataclasses.replace(settings, queues_file=support.groups(settings))
    wanted = [
        Job(Task.ECHO, {"key": 1}, Queue.PULL),
        Job(Task.CRASH, {"how": "feed", "key": 2}, Queue.PULL),
        Job(Task.CRASH, {"how": "raise", "key": 3}, Queue.PULL),
    ]
    with support.running("queue_manager.main", own, "manager"), contextlib.closing(RedisJobs(own)) as jobs:
        tickets = jobs.enqueue_many(wanted)
        outcomes = {o.id: o for o in jobs.await_many(tickets, 60)}
    assert [outcomes[t.id].error for t in tickets] == [None, "not_a_feed", "unexpected"]
    kinds = collections.defaultdict(list)
    rows: Any = redis_client.xrange(redis_keys.EVENTS)
    for _, row in rows:
        kinds[row[b"id"].decode()].append(row[b"kind"].decode())
    good, bad, again = (kinds[ticket.id] for ticket in tickets)
    assert good == ["started", "progress", "finished"]
    assert bad == ["started", "progress", "failed"]
    assert again == ["started", "progress", "retry"] * 2 + ["started", "progress", "failed"]
    progress = next(row for _, row in rows if row[b"kind"] == b"progress")
    assert json.loads(progress[b"data"]) == {"step": "echo"}


def test_nothing_stays_in_redis_for_ever(settings: Settings, redis_client: redis.Redis) -> None:
    """After a run with everything in it each key has an expiry, or a bound that is named here."""
    own = dataclasses.replace(settings, queues_file=support.groups(settings))
    with (
        live.inside(own),
        support.running("queue_manager.main", own, "manager") as manager,
        contextlib.closing(RedisJobs(own)) as jobs,
        contextlib.closing(RedisEvents(own)) as events,
    ):
        wanted = [Job(Task.ECHO, {"key": key}, Queue.PULL) for key in range(30)]
        wanted += [Job(Task.CRASH, {"how": "feed", "key": key}, Queue.PULL) for key in range(3)]
        assert len(list(jobs.await_many(jobs.enqueue_many(wanted), 60))) == 33
        events.notify_counts(7)
        url = "/events?pass=" + events.issue_pass(7, [1, 2, 3], events.get_position())
        with live.listening(own.events_port, url) as ear:
            events.notify_new_entries({2: 1})
            assert ear.next()[1] == "new"
        assert manager.stop() == 0
    lasting = {key.decode() for key in redis_client.scan_iter(count=1000) if redis_client.ttl(key) == -1}
    assert {key for key in lasting if not key.startswith(tuple(BOUNDED))} == set()
    # The bounds hold: who has gone is not kept, and what is cut by age is no more than was run.
    for name in (redis_keys.WORKERS, redis_keys.RQ_WORKERS, redis_keys.MANAGERS):
        assert not redis_client.exists(name.rstrip(":")), name
    assert redis_client.xlen(redis_keys.EVENTS) < redis_keys.EVENTS_KEPT
    everything = {key.decode() for key in redis_client.scan_iter(count=1000)}
    assert {redis_keys.PEOPLE, redis_keys.make_follows_key(7)} <= everything - lasting
    assert {key for key in everything if key.startswith((redis_keys.JOB, redis_keys.RESULTS))}.isdisjoint(
        lasting
    )


def test_a_controller_outlasts_a_redis_that_refuses_to_write(
    settings: Settings, run: Callable[..., live.Part], eventually: Any
) -> None:
    part = run()
    with refusing(settings.redis_url):
        eventually(lambda: "while_=heartbeat error=MISCONF" in part.log.read_text())
    assert part.stop() == 0
    assert "Traceback" not in part.log.read_text()
