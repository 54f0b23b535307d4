"""A server that is lost with its manager; no engine runs beside, its workers would use the same Redis."""

from __future__ import annotations

import contextlib
import dataclasses

import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import State
from queue_manager.policy import DeathVerdict
from tests.jobs import support
from workers import outcome
from workers.context import Context, Resources
from workers.job import ClaimedJob
from workers.queue_client import QueueClient


def test_of_a_lost_server_only_time_tells_and_its_jobs_come_back_uncounted(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    tickets = jobs.enqueue_many(support.effects(3))
    desk = support.desk(redis_client, settings, "far")
    redis_client.hset(redis_keys.WORKERS, "far", "elsewhere-1:77:88")
    assert len(desk.claim_jobs(3, {}, ())) == 3
    now, _ = redis_client.time()
    redis_client.zadd(redis_keys.MANAGERS, {"elsewhere-1:77:88": now + settings.manager_lease})
    assert support.linked(settings, lambda link: link.sweep()) == {}
    # Its last heartbeat is too long ago.
    redis_client.zadd(redis_keys.MANAGERS, {"elsewhere-1:77:88": now - 1})
    found = support.linked(settings, lambda link: link.sweep())
    assert found == {ticket.id: "returned" for ticket in tickets}
    assert {(v.state, v.crashes, v.failures) for v in (jobs.get_status(t.id) for t in tickets)} == {
        (State.QUEUED, 0, 0)
    }
    assert redis_client.zcard(redis_keys.MANAGERS) == 0
    assert not support.workers(redis_client)


def _claim(client: QueueClient) -> ClaimedJob:
    (job,) = client.claim_jobs(1, {}, ())
    return job


def test_a_worker_whose_job_was_put_back_does_not_hold_it_any_more(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    def is_held(job: ClaimedJob) -> bool:
        return Context(job, settings, 60, resources, lambda _: None).is_held()

    jobs.enqueue_many(support.effects(1))
    frozen = support.desk(redis_client, settings, "frozen")
    with contextlib.closing(Resources(settings)) as resources:
        first = _claim(frozen)
        assert is_held(first)
        support.linked(
            settings, lambda link: link.recover("frozen", DeathVerdict(is_crash=False, reason="stall"))
        )
        assert not is_held(first), "it waits in its queue"
        heir = support.desk(redis_client, settings, "heir")
        second = _claim(heir)
        assert [is_held(first), is_held(second)] == [False, True], "another worker took it"
        assert heir.finish([outcome.finish_job(second, None, settings)]) == [True]
        assert not is_held(second), "it has ended"
        redis_client.flushall()
        assert not is_held(second), "nobody knows it"


def test_while_redis_is_away_a_worker_holds_its_jobs(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    jobs.enqueue_many(support.effects(1))
    job = _claim(support.desk(redis_client, settings))
    away = dataclasses.replace(settings, redis_url=f"unix://{settings.home}/away.sock")
    with contextlib.closing(Resources(away)) as resources:
        assert Context(job, away, 60, resources, lambda _: None).is_held()
