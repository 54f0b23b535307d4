"""Pause, drain, caps, charges and fences, on a real Redis and without processes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.errors import DrainingError
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, State, Task
from queue_manager.load import QueueLoads
from queue_manager.orphans import OrphanedJobs
from queue_manager.policy import DeathVerdict
from tests.jobs import support
from workers import outcome as endings
from workers.queue_client import UnregisteredError


def _job(key: int = 1, queue: Queue = Queue.PULL) -> Job:
    return Job(Task.ECHO, {"key": key}, queue)


def _switch(
    settings: Settings, queue: Queue, *, paused: bool | None = None, draining: bool | None = None
) -> None:
    support.linked(
        settings, lambda link: QueueLoads(link.client).set_switches(queue, paused=paused, draining=draining)
    )


def _stray(settings: Settings) -> dict[str, str]:
    return support.linked(settings, lambda link: OrphanedJobs(link.client, "test:1:1").requeue_jobs())


def test_from_a_paused_queue_nobody_takes(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    jobs.enqueue_many([_job(1), _job(2, Queue.DISCOVERY)])
    desk = support.desk(redis_client, settings)
    _switch(settings, Queue.DISCOVERY, paused=True)
    assert [job.queue for job in desk.claim_jobs(5, {}, ())] == ["feed-pull"]
    assert jobs.enqueue(_job(3, Queue.DISCOVERY)).fresh
    assert desk.claim_jobs(5, {}, ()) == []
    _switch(settings, Queue.DISCOVERY, paused=False)
    assert [job.args["key"] for job in desk.claim_jobs(5, {}, ())] == [2, 3]


def test_a_paused_queue_keeps_its_retries(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    ticket = jobs.enqueue(_job())
    (taken,) = desk.claim_jobs(1, {}, ())
    desk.finish([dataclasses.replace(endings.fail_job(taken, ValueError(), settings), seconds=0)])
    _switch(settings, Queue.PULL, paused=True)
    assert desk.claim_jobs(1, {}, ()) == []
    assert jobs.get_status(ticket.id).state is State.SCHEDULED
    _switch(settings, Queue.PULL, paused=False)
    assert [job.id for job in desk.claim_jobs(1, {}, ())] == [ticket.id]


def test_a_draining_queue_takes_nothing_new_and_works_off_what_waits(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    waiting = jobs.enqueue(_job(1, Queue.PULL_SYSTEM))
    _switch(settings, Queue.PULL_SYSTEM, draining=True)
    with pytest.raises(DrainingError, match="under maintenance"):
        jobs.enqueue(_job(2, Queue.PULL_SYSTEM))
    assert jobs.enqueue(_job(3)).fresh
    # Who asks for what waits or runs already joins it.
    again = jobs.enqueue(_job(1, Queue.PULL_SYSTEM))
    assert (again.fresh, again.id) == (False, waiting.id)
    desk = support.desk(redis_client, settings)
    taken = desk.claim_jobs(5, {}, ())
    assert [job.args["key"] for job in taken] == [3, 1]
    # What was accepted stays accepted: it goes back, and to its next try.
    desk.finish([endings.return_job(taken[1])])
    (again_taken,) = desk.claim_jobs(5, {}, ())
    assert desk.finish([endings.fail_job(again_taken, ValueError(), settings)]) == [True]
    assert jobs.get_status(waiting.id).state is State.SCHEDULED
    _switch(settings, Queue.PULL_SYSTEM, draining=False)
    assert jobs.enqueue(_job(2, Queue.PULL_SYSTEM)).fresh


def test_system_queues_share_their_slots(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    """Two system queues of one group must not fill twice the slots that are left to the system."""
    wanted = [Queue.PULL_SYSTEM] * 5 + [Queue.MAINTENANCE] * 5 + [Queue.PULL]
    jobs.enqueue_many([_job(key, queue) for key, queue in enumerate(wanted)])
    desk = support.desk(redis_client, settings)
    taken = desk.claim_jobs(10, {}, (), system=3)
    assert [job.queue for job in taken] == ["feed-pull"] + ["feed-pull-sys"] * 3
    taken = desk.claim_jobs(10, {str(Queue.PULL_SYSTEM): 1}, (), system=3)
    assert [job.queue for job in taken] == ["feed-pull-sys", "maintenance", "maintenance"]


def test_after_a_crash_only_what_ran_is_charged(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    tickets = jobs.enqueue_many([_job(key, Queue.MAINTENANCE) for key in range(3)])
    desk = support.desk(redis_client, settings)
    desk.claim_jobs(3, {}, ())
    ran = tickets[1].id
    became = support.linked(settings, lambda link: link.recover("w1", DeathVerdict(True, "signal 11"), [ran]))
    assert became == {tickets[0].id: "returned", ran: "suspect", tickets[2].id: "returned"}
    assert redis_client.lrange(redis_keys.make_queue_key(Queue.MAINTENANCE), 0, -1) == [
        tickets[0].id.encode(),
        tickets[2].id.encode(),
    ]
    assert [jobs.get_status(ticket.id).crashes for ticket in tickets] == [0, 1, 0]


@pytest.mark.parametrize("lost", ["inflight", "queue", "scheduled", "worker and inflight"])
def test_what_no_list_holds_any_more_is_found(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings, lost: str
) -> None:
    """A part of Redis is gone; the job that says it runs would block its identity for ever."""
    desk = support.desk(redis_client, settings)
    ticket, other = jobs.enqueue(_job(1)), jobs.enqueue(_job(2))
    if lost != "queue":
        (taken, _) = desk.claim_jobs(2, {}, ())
        if lost == "scheduled":
            desk.finish([endings.fail_job(taken, ValueError(), settings)])
            redis_client.delete(redis_keys.SCHEDULED + Queue.PULL)
        else:
            redis_client.lrem(redis_keys.make_inflight_key("w1"), 0, ticket.id)
        if lost.startswith("worker"):
            redis_client.hdel(redis_keys.WORKERS, "w1")
    else:
        redis_client.lrem(redis_keys.make_queue_key(Queue.PULL), 0, ticket.id)
    assert not jobs.enqueue(_job(1)).fresh
    said = {"queue": "queued", "scheduled": "scheduled"}.get(lost, "started")
    assert _stray(settings) == {ticket.id: said}
    heir = support.desk(redis_client, settings, "heir")
    found = heir.claim_jobs(5, {}, ())
    assert [job.id for job in found] == ([ticket.id, other.id] if lost == "queue" else [ticket.id])
    # Whoever held it may not end it any more, and nothing else was touched.
    assert heir.finish([endings.finish_job(found[0], "heir", settings)]) == [True]
    assert [outcome.value for outcome in jobs.await_many([ticket], 1)] == ["heir"]
    assert _stray(settings) == {}


def test_nothing_that_is_held_is_stray(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    jobs.enqueue_many([_job(key) for key in range(1200)])
    taken = desk.claim_jobs(700, {}, ())
    desk.finish([endings.fail_job(job, ValueError(), settings) for job in taken[:50]])
    desk.finish([endings.finish_job(job, 1, settings) for job in taken[50:100]])
    before = _everything(redis_client)
    assert len(before) > 1200
    assert _stray(settings) == {}
    assert _everything(redis_client) == before


def _everything(client: redis.Redis) -> dict[bytes, Any]:
    read: dict[bytes, Callable[[bytes], Any]] = {
        b"hash": client.hgetall,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"set": client.smembers,
        b"stream": client.xrange,
    }
    return {key: read[client.type(key)](key) for key in client.scan_iter()}  # type: ignore[index]


def test_lists_of_workers_that_nobody_knows_are_found(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    support.desk(redis_client, settings, "known")
    jobs.enqueue_many([_job(key) for key in range(4)])
    support.desk(redis_client, settings, "known").claim_jobs(2, {}, ())
    support.desk(redis_client, settings, "forgotten").claim_jobs(2, {}, ())
    redis_client.hdel(redis_keys.WORKERS, "forgotten")
    found = support.linked(settings, lambda link: OrphanedJobs(link.client, "test:1:1").find_workers())
    assert found == ["forgotten"]


def test_after_redis_was_emptied_a_zombie_ends_nothing(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    """Same task, same id, same number of the attempt: only the in-flight list tells them apart."""
    zombie = support.desk(redis_client, settings, "zombie")
    jobs.enqueue(_job())
    (lost,) = zombie.claim_jobs(1, {}, ())
    redis_client.flushall()
    ticket = jobs.enqueue(_job())
    assert ticket.fresh
    heir = support.desk(redis_client, settings, "heir")
    (taken,) = heir.claim_jobs(1, {}, ())
    assert (taken.id, taken.attempt) == (lost.id, lost.attempt)
    assert taken.token != lost.token
    assert zombie.finish([endings.finish_job(lost, "late", settings)]) == [False]
    assert zombie.finish([endings.return_job(lost)]) == [False]
    with pytest.raises(UnregisteredError):
        zombie.claim_jobs(1, {}, ())
    assert heir.finish([endings.finish_job(taken, "good", settings)]) == [True]
    assert [outcome.value for outcome in jobs.await_many([ticket], 1)] == ["good"]


def test_all_waiters_of_one_task_get_its_one_result(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    tickets = [jobs.enqueue(_job())]
    (taken,) = desk.claim_jobs(1, {}, ())
    tickets += [jobs.enqueue(_job()) for _ in range(3)]
    assert [ticket.fresh for ticket in tickets] == [True, False, False, False]
    assert desk.claim_jobs(5, {}, ()) == []
    desk.finish([endings.finish_job(taken, 7, settings)])
    assert [[o.value for o in jobs.await_many([ticket], 1)] for ticket in tickets] == [[7]] * 4
    assert support.ends(redis_client) == {taken.id: 1}


def test_the_history_tells_of_each_attempt(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ticket = jobs.enqueue(_job())
    desk = support.desk(redis_client, settings, "w1")
    (taken,) = desk.claim_jobs(1, {}, ())
    desk.finish([dataclasses.replace(endings.fail_job(taken, ValueError(), settings), seconds=0)])
    desk.claim_jobs(1, {}, ())
    support.linked(settings, lambda link: link.recover("w1", DeathVerdict(True, "signal 9")))
    history = redis_client.hget(redis_keys.make_job_key(ticket.id), "history")
    assert isinstance(history, bytes)
    lines = [json.loads(line) for line in history.splitlines()]
    told = [(line["attempt"], line["worker"], line["error"], line["where"]) for line in lines]
    assert told == [(1, "w1", "unexpected", "ValueError"), (2, "w1", "crashed", "signal 9")]
    assert all(line["at"].startswith("20") for line in lines)
