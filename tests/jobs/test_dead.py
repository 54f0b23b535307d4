"""The dead set: what gets in, what is told of it, how it leaves; on a real Redis and without processes."""

from __future__ import annotations

import dataclasses
import json
import zlib
from typing import Any

import pytest
import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, State, Task, Ticket
from queue_manager.dead import DeadJobs
from queue_manager.policy import DeathVerdict
from tests.jobs import support
from workers import outcome
from workers.outcome import BadJobError

NO = BadJobError("bad_result", "It is no good.")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, dead_max=3)


def _fail(
    jobs: RedisJobs, client: redis.Redis, settings: Settings, key: int, queue: Queue = Queue.PULL
) -> Ticket:
    ticket = jobs.enqueue(Job(Task.ECHO, {"key": key}, queue))
    desk = support.desk(client, settings)
    (taken,) = desk.claim_jobs(1, {}, ())
    assert taken.id == ticket.id
    desk.finish([outcome.fail_job(taken, NO, settings)])
    return ticket


def _dead(settings: Settings, limit: int = 50) -> list[dict[str, Any]]:
    return support.linked(settings, lambda link: DeadJobs(link.client).list_newest(limit))


def _retry(settings: Settings, job_id: str | None) -> int:
    return support.linked(settings, lambda link: DeadJobs(link.client).retry_dead(job_id))


def _drop(settings: Settings, job_id: str | None) -> int:
    return support.linked(settings, lambda link: DeadJobs(link.client).remove_dead(job_id))


def test_what_fails_for_good_is_dead_with_all_that_is_known(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ticket = _fail(jobs, redis_client, settings, 7)
    (task,) = _dead(settings)
    (line,) = task.pop("history")
    assert task.pop("ended").startswith("20")
    assert task == {
        "id": ticket.id,
        "task": "selftest.echo",
        "queue": "feed-pull",
        "args": {"key": 7},
        "error": "bad_result",
        "failures": 1,
        "crashes": 0,
    }
    assert line.pop("at").startswith("20")
    assert line == {"attempt": 1, "worker": "w1", "error": "bad_result", "where": "BadJobError"}


def test_what_crashed_for_good_is_dead_under_its_own_queue(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ticket = jobs.enqueue(Job(Task.ECHO, {"key": 1}, Queue.DISCOVERY))
    for n in range(settings.job_retries):
        support.desk(redis_client, settings, f"w{n}").claim_jobs(1, {}, ())
        support.linked(settings, lambda link, n=n: link.recover(f"w{n}", DeathVerdict(True, "signal 11")))  # type: ignore[misc]
    (task,) = _dead(settings)
    assert (task["id"], task["queue"], task["error"]) == (ticket.id, "discovery", "crashed")
    assert [line["where"] for line in task["history"]] == ["signal 11"] * settings.job_retries
    assert _retry(settings, ticket.id) == 1
    (taken,) = support.desk(redis_client, settings).claim_jobs(1, {}, ())
    assert (taken.queue, taken.crashes, taken.failures) == ("discovery", 0, 0)


def _die(settings: Settings, worker: str) -> dict[str, str]:
    """Let a worker crash with all that it holds; returns what became of its jobs."""
    return support.linked(settings, lambda link: link.recover(worker, DeathVerdict(True, "signal 11")))


def test_crashes_of_all_jobs_about_a_feed_count_together(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    """Its reader's pull, the updater's and a hub's: the third crash ends it, whoever asked."""
    asked = [
        Job(Task.PULL, {"feed_ids": [7]}, Queue.PULL),
        Job(Task.PULL_SYSTEM, {"feed_ids": [7]}, Queue.PULL_SYSTEM),
        Job(Task.WEBSUB_PULL, {"feed_id": 7}, Queue.PULL_SYSTEM),
        Job(Task.PULL, {"feed_ids": [7, 8]}, Queue.PULL),
    ]
    first, second, third, batch = (ticket.id for ticket in jobs.enqueue_many(asked))
    assert len(support.desk(redis_client, settings, "w0").claim_jobs(9, {}, ())) == 4
    # One death is one crash, however many jobs about the feed ran; of a batch nobody knows who was it.
    assert set(_die(settings, "w0").values()) == {"suspect"}

    def taken(worker: str) -> tuple[str, int]:
        (job,) = support.desk(redis_client, settings, worker).claim_jobs(1, {}, ())
        return job.id, job.crashes

    assert taken("w1") == (third, 1)
    assert _die(settings, "w1") == {third: "suspect"}
    assert taken("w2") == (second, 2)
    assert _die(settings, "w2") == {second: "failed"}
    # Whoever comes next knows that it is given up.
    assert [taken("w3"), taken("w4"), taken("w5")] == [(batch, 1), (first, 3), (third, 3)]
    jobs.clear_crashes(7)
    assert jobs.enqueue(Job(Task.PULL_SYSTEM, {"feed_ids": [7]}, Queue.PULL_SYSTEM)).fresh
    assert taken("w6") == (second, 0)


def test_who_tries_a_dead_pull_again_forgets_the_crashes_of_its_feed(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ticket = jobs.enqueue(Job(Task.PULL, {"feed_ids": [7]}, Queue.PULL))
    for n in range(settings.job_retries):
        support.desk(redis_client, settings, f"w{n}").claim_jobs(1, {}, ())
        _die(settings, f"w{n}")
    assert (
        0
        < int(redis_client.ttl(redis_keys.make_crashes_key(redis_keys.make_feed_subject(7))))
        <= redis_keys.CRASHES_SECONDS
    )
    assert _retry(settings, ticket.id) == 1
    (taken,) = support.desk(redis_client, settings).claim_jobs(1, {}, ())
    assert taken.crashes == 0


def test_who_is_tried_again_takes_over_what_its_last_attempt_has_claimed(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    """Else a pull that was given up leaves its own feed alone, until the claim of the dead runs out."""
    ticket = jobs.enqueue(Job(Task.PULL, {"feed_ids": [7]}, Queue.PULL))
    for n in range(settings.job_retries):
        (last,) = support.desk(redis_client, settings, f"w{n}").claim_jobs(1, {}, ())
        _die(settings, f"w{n}")
    for _ in range(2):
        assert _retry(settings, ticket.id) == 1
        (taken,) = support.desk(redis_client, settings).claim_jobs(1, {}, ())
        assert taken.parents == (last.token,)
        last = taken
        support.desk(redis_client, settings).finish([outcome.fail_job(taken, NO, settings)])


def test_the_newest_are_kept_and_come_first(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    tickets = [_fail(jobs, redis_client, settings, key) for key in range(5)]
    assert [task["args"]["key"] for task in _dead(settings)] == [4, 3, 2]
    assert [task["args"]["key"] for task in _dead(settings, 2)] == [4, 3]
    # What fell out is forgotten altogether.
    assert support.states(redis_client, [ticket.id for ticket in tickets]) == {"missing": 2, "failed": 3}
    assert redis_client.zcard(redis_keys.FAILED + Queue.PULL) == 3
    assert not redis_client.exists(redis_keys.make_results_key(tickets[0].id))


def test_what_expires_leaves_by_itself(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    old, new = (_fail(jobs, redis_client, settings, key) for key in range(2))
    assert 0 < int(redis_client.ttl(redis_keys.make_job_key(old.id))) <= settings.failure_ttl
    redis_client.pexpire(redis_keys.make_job_key(old.id), 1)
    while redis_client.exists(redis_keys.make_job_key(old.id)):
        pass
    assert [task["id"] for task in _dead(settings)] == [new.id]
    assert support.linked(settings, lambda link: DeadJobs(link.client).forget_expired()) == 1
    assert redis_client.zrange(redis_keys.DEAD, 0, -1) == [new.id.encode()]


def test_what_expires_leaves_also_where_many_older_ones_are_kept_longer(
    redis_client: redis.Redis, settings: Settings
) -> None:
    ended = {f"old{n}": n for n in range(1200)}
    with redis_client.pipeline(transaction=False) as pipe:
        for job_id in ended:
            pipe.hset(redis_keys.make_job_key(job_id), "status", "failed")
        pipe.zadd(redis_keys.DEAD, {**ended, "gone": 2000})
        pipe.execute()
    assert support.linked(settings, lambda link: DeadJobs(link.client).forget_expired()) == 1
    assert redis_client.zcard(redis_keys.DEAD) == 1200
    assert redis_client.zscore(redis_keys.DEAD, "gone") is None


def test_a_retry_starts_anew_and_its_waiters_get_the_new_result(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ticket = _fail(jobs, redis_client, settings, 1)
    assert _retry(settings, ticket.id) == 1
    assert _retry(settings, ticket.id) == 0
    again = jobs.enqueue(Job(Task.ECHO, {"key": 1}, Queue.PULL))
    assert not again.fresh
    assert again.since_ms > ticket.since_ms
    assert redis_client.ttl(redis_keys.make_job_key(ticket.id)) == -1
    assert redis_client.zcard(redis_keys.FAILED + Queue.PULL) == 0
    desk = support.desk(redis_client, settings)
    (taken,) = desk.claim_jobs(1, {}, ())
    assert (taken.attempt, taken.failures) == (2, 0)
    desk.finish([outcome.finish_job(taken, "at last", settings)])
    assert [(o.value, o.error) for o in jobs.await_many([again], 1)] == [("at last", None)]
    assert _dead(settings) == []


def test_a_retry_that_fails_again_is_dead_with_its_whole_history(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ticket = _fail(jobs, redis_client, settings, 1)
    assert _retry(settings, None) == 1
    desk = support.desk(redis_client, settings)
    (taken,) = desk.claim_jobs(1, {}, ())
    desk.finish([outcome.fail_job(taken, NO, settings)])
    (task,) = _dead(settings)
    assert (task["id"], task["failures"]) == (ticket.id, 1)
    assert [line["attempt"] for line in task["history"]] == [1, 2]


def test_who_asks_again_for_a_dead_task_takes_it_out(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ticket = _fail(jobs, redis_client, settings, 1)
    assert jobs.enqueue(Job(Task.ECHO, {"key": 1}, Queue.PULL)).fresh
    assert _dead(settings) == []
    assert (_retry(settings, ticket.id), _drop(settings, ticket.id)) == (0, 0)
    assert jobs.get_status(ticket.id).state is State.QUEUED


def test_dropping_forgets(jobs: RedisJobs, redis_client: redis.Redis, settings: Settings) -> None:
    tickets = [_fail(jobs, redis_client, settings, key) for key in range(3)]
    assert _drop(settings, tickets[1].id) == 1
    assert _drop(settings, tickets[1].id) == 0
    assert [task["args"]["key"] for task in _dead(settings)] == [2, 0]
    assert _drop(settings, None) == 2
    kept = {redis_keys.EVENTS, redis_keys.WORKERS, redis_keys.QUEUES}
    assert {key.decode() for key in redis_client.scan_iter()} == kept


def test_retry_of_all_is_of_those_that_are_dead_now(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    settings = dataclasses.replace(settings, dead_max=2000)
    tickets = jobs.enqueue_many([Job(Task.ECHO, {"key": n}, Queue.PULL) for n in range(1100)])
    desk = support.desk(redis_client, settings)
    desk.finish([outcome.fail_job(job, NO, settings) for job in desk.claim_jobs(1100, {}, ())])
    assert _retry(settings, None) == 1100
    assert support.states(redis_client, [t.id for t in tickets]) == {"queued": 1100}
    assert redis_client.llen(redis_keys.make_queue_key(Queue.PULL)) == 1100


@pytest.mark.parametrize("data", [b"", b"\xff", b"7", b"[1]", zlib.compress(b"[" * 100_000), b"[1,2,3,4]"])
def test_arguments_that_cannot_be_read_are_left_out(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings, data: bytes
) -> None:
    ticket = _fail(jobs, redis_client, settings, 1)
    redis_client.hset(
        redis_keys.make_job_key(ticket.id), mapping={"data": data, "history": b"\xff\nno json\n"}
    )
    (task,) = _dead(settings)
    assert (task["args"], task["history"]) == ({}, [])
    json.dumps(task)
