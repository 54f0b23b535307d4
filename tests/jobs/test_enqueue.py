"""The enqueue port, TAKE and FINISH, on a real Redis and without processes."""

from __future__ import annotations

import dataclasses
import random
import threading
from typing import Any

import pytest
import redis

from app.adapters.redis.jobs import ARGS_MAX, RedisJobs, hash_job
from app.config import Settings
from app.errors import InvalidError, StoreError, TooLargeError
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, State, Task
from queue_manager.policy import DeathVerdict
from queue_manager.recovery import Recovery
from tests.jobs import support
from workers import outcome as endings
from workers.job import ClaimedJob
from workers.queue_client import UnregisteredError


def _job(key: int = 1, queue: Queue = Queue.PULL) -> Job:
    return Job(Task.ECHO, {"key": key}, queue)


def test_the_same_work_has_the_same_id() -> None:
    assert hash_job("a", {"x": 1, "y": [2]}) == hash_job("a", {"y": [2], "x": 1})
    assert (
        len({hash_job("a", {"x": 1}), hash_job("b", {"x": 1}), hash_job("a", {"x": 2}), hash_job("a", {})})
        == 4
    )


def test_the_same_job_is_queued_once(jobs: RedisJobs, redis_client: redis.Redis) -> None:
    first = jobs.enqueue(_job())
    again = jobs.enqueue(_job())
    assert (first.fresh, again.fresh) == (True, False)
    assert (again.id, again.since_ms) == (first.id, first.since_ms)
    assert redis_client.llen(redis_keys.make_queue_key(Queue.PULL)) == 1


def test_threads_that_enqueue_the_same_make_one_job(jobs: RedisJobs, redis_client: redis.Redis) -> None:
    tickets: list[Any] = []
    start = threading.Barrier(8)

    def enqueue() -> None:
        start.wait()
        tickets.extend(jobs.enqueue_many([_job(key) for key in range(20)]))

    threads = [threading.Thread(target=enqueue) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(ticket.fresh for ticket in tickets) == 20
    assert redis_client.llen(redis_keys.make_queue_key(Queue.PULL)) == 20


def test_a_running_job_is_not_queued_again_and_an_ended_one_is(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    ticket = jobs.enqueue(_job())
    (taken,) = desk.claim_jobs(5, {}, ())
    assert jobs.get_status(ticket.id).state is State.STARTED
    assert not jobs.enqueue(_job()).fresh
    assert desk.finish([endings.finish_job(taken, 1, settings)]) == [True]
    assert jobs.get_status(ticket.id).state is State.FINISHED
    again = jobs.enqueue(_job())
    assert again.fresh
    assert again.since_ms > ticket.since_ms


def test_ids_pushed_twice_run_once(jobs: RedisJobs, redis_client: redis.Redis, settings: Settings) -> None:
    tickets = jobs.enqueue_many([_job(key) for key in range(200)])
    redis_client.rpush(redis_keys.make_queue_key(Queue.PULL), *(ticket.id for ticket in tickets))
    desks = [support.desk(redis_client, settings, name) for name in ("w1", "w2")]
    runs: list[str] = []
    while any(taken := [job for desk in desks for job in desk.claim_jobs(7, {}, ())]):
        runs += [job.id for job in taken]
    assert sorted(runs) == sorted(ticket.id for ticket in tickets)
    held = [redis_client.llen(redis_keys.make_inflight_key(name)) for name in ("w1", "w2")]
    assert sum(held) == 200  # type: ignore[type-var]


def test_take_follows_priority_and_caps(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    wanted = [Queue.PULL_SYSTEM] * 5 + [Queue.PULL] * 2 + [Queue.DISCOVERY]
    jobs.enqueue_many([_job(key, queue) for key, queue in enumerate(wanted)])
    desk = support.desk(redis_client, settings)
    taken = desk.claim_jobs(6, {str(Queue.PULL_SYSTEM): 2}, ())
    assert [job.queue for job in taken] == [
        "discovery",
        "feed-pull",
        "feed-pull",
        "feed-pull-sys",
        "feed-pull-sys",
    ]
    assert [job.args["key"] for job in taken] == [7, 5, 6, 0, 1]


def test_only_the_worker_that_holds_a_job_can_end_it(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    zombie, heir = (support.desk(redis_client, settings, name) for name in ("zombie", "heir"))
    ticket = jobs.enqueue(_job())
    (lost,) = zombie.claim_jobs(1, {}, ())
    _recover(settings, "zombie", DeathVerdict(False, "test"))
    assert jobs.get_status(ticket.id).state is State.QUEUED
    (taken,) = heir.claim_jobs(1, {}, ())
    assert zombie.finish([endings.finish_job(lost, "late", settings)]) == [False]
    assert jobs.get_status(ticket.id).state is State.STARTED
    assert heir.finish([endings.finish_job(taken, "good", settings)]) == [True]
    assert heir.finish([endings.finish_job(taken, "twice", settings)]) == [False]
    assert [outcome.value for outcome in jobs.await_many([ticket], 1)] == ["good"]
    assert redis_client.xlen(redis_keys.make_results_key(ticket.id)) == 1
    assert support.ends(redis_client) == {ticket.id: 1}
    with pytest.raises(UnregisteredError):
        zombie.claim_jobs(1, {}, ())


def test_an_earlier_attempt_cannot_end_a_later_one(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    ticket = jobs.enqueue(_job())
    (first,) = desk.claim_jobs(1, {}, ())
    desk.finish([endings.return_job(first)])
    (second,) = desk.claim_jobs(1, {}, ())
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.token != second.token
    assert desk.finish([endings.finish_job(first, 1, settings)]) == [False]
    assert desk.finish([endings.finish_job(second, 2, settings)]) == [True]
    assert [outcome.value for outcome in jobs.await_many([ticket], 1)] == [2]


def test_an_earlier_run_cannot_end_a_later_one(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    """The answer to an end was lost, and the job was queued again and taken by the same worker."""
    desk = support.desk(redis_client, settings)
    jobs.enqueue(_job())
    (first,) = desk.claim_jobs(1, {}, ())
    assert desk.finish([endings.finish_job(first, 1, settings)]) == [True]
    ticket = jobs.enqueue(_job())
    (second,) = desk.claim_jobs(1, {}, ())
    assert (first.id, first.attempt) == (second.id, second.attempt)
    assert desk.finish([endings.finish_job(first, 1, settings)]) == [False]
    assert jobs.get_status(ticket.id).state is State.STARTED
    assert desk.finish([endings.finish_job(second, 2, settings)]) == [True]
    assert [outcome.value for outcome in jobs.await_many([ticket], 1)] == [2]


def test_a_failure_waits_for_its_next_try_and_is_given_up_at_last(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings, eventually: Any
) -> None:
    desk = support.desk(redis_client, settings)
    ticket = jobs.enqueue(_job())
    for failures in range(settings.job_retries):
        (taken,) = eventually(lambda: desk.claim_jobs(1, {}, ()))
        assert taken.failures == failures
        desk.finish([endings.fail_job(taken, ValueError("no"), settings)])
        last = failures + 1 == settings.job_retries
        assert jobs.get_status(ticket.id).state is (State.FAILED if last else State.SCHEDULED)
    assert [(o.error, o.value) for o in jobs.await_many([ticket], 1)] == [("unexpected", None)]
    assert redis_client.zscore(redis_keys.FAILED + Queue.PULL, ticket.id) is not None
    history = redis_client.hget(redis_keys.make_job_key(ticket.id), "history")
    assert history is not None
    assert history.count(b"ValueError") == settings.job_retries  # type: ignore[union-attr]


def test_what_a_lost_reply_took_is_put_back(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    jobs.enqueue_many([_job(key) for key in range(3)])
    (known,) = desk.claim_jobs(1, {}, ())
    # A second desk of the same name stands for the TAKE whose reply never came.
    assert len(support.desk(redis_client, settings).claim_jobs(2, {}, ())) == 2
    desk._certain = None
    again = desk.claim_jobs(9, {}, [known])
    assert [job.args["key"] for job in again] == [1, 2]
    assert redis_client.llen(redis_keys.make_inflight_key("w1")) == 3
    # Who follows the events sees that no job began while it ran.
    rows: list[Any] = redis_client.xrange(redis_keys.EVENTS)  # type: ignore[assignment]
    told = [(row[b"kind"], row[b"attempt"]) for _, row in rows if row[b"id"].decode() == again[0].id]
    assert told == [(b"started", b"1"), (b"returned", b"1"), (b"started", b"2")]


def test_what_a_lost_reply_took_is_put_back_though_an_earlier_run_of_it_is_known(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    jobs.enqueue(_job())
    (first,) = desk.claim_jobs(1, {}, ())
    desk.finish([endings.finish_job(first, 1, settings)])
    jobs.enqueue(_job())
    (lost,) = support.desk(redis_client, settings).claim_jobs(1, {}, ())
    desk._certain = None
    (second,) = desk.claim_jobs(1, {}, [first])
    assert (second.id, second.since, second.attempt) == (lost.id, lost.since, lost.attempt + 1)


def test_an_end_that_a_fail_over_undid_is_put_back(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    ticket = jobs.enqueue(_job())
    (first,) = desk.claim_jobs(1, {}, ())
    before = {
        key: redis_client.dump(key)
        for key in (redis_keys.make_job_key(ticket.id), redis_keys.make_inflight_key("w1"))
    }
    desk.finish([endings.finish_job(first, 1, settings)])
    for key, value in before.items():  # the next primary has only heard of the claim
        redis_client.restore(key, 0, value, replace=True)  # type: ignore[arg-type]
    assert desk.claim_jobs(1, {}, ()) == []
    redis_client.client_kill_filter(_type="normal", skipme=True)  # as the old primary's end
    # The first claim notices the new connection, the second one acts.
    (again,) = desk.claim_jobs(1, {}, ()) or desk.claim_jobs(1, {}, ())
    assert (again.id, again.attempt) == (first.id, first.attempt + 1)
    assert desk.claim_jobs(1, {}, (again,)) == []


def test_recovery_keeps_the_order_of_what_it_puts_back(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    jobs.enqueue_many([_job(key) for key in range(6)])
    support.desk(redis_client, settings).claim_jobs(3, {}, ())
    _recover(settings, "w1", DeathVerdict(False, "test"))
    taken = support.desk(redis_client, settings, "w2").claim_jobs(6, {}, ())
    assert [job.args["key"] for job in taken] == [0, 1, 2, 3, 4, 5]


def test_crashes_count_apart_from_failures_and_end_dead(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ticket = jobs.enqueue(_job())
    for crash in range(1, settings.job_retries + 1):
        (taken,) = support.desk(redis_client, settings, f"w{crash}").claim_jobs(1, {}, ())
        assert taken.crashes == crash - 1
        assert taken.queue == ("feed-pull" if crash == 1 else "suspects")
        became = _recover(settings, f"w{crash}", DeathVerdict(True, "signal 11"))
        assert became == {ticket.id: "failed" if crash == settings.job_retries else "suspect"}
    view = jobs.get_status(ticket.id)
    assert (view.state, view.error, view.crashes, view.failures) == (State.FAILED, "crashed", 3, 0)
    assert [outcome.error for outcome in jobs.await_many([ticket], 1)] == ["crashed"]


@pytest.mark.parametrize(
    "args",
    [{"body": b"x"}, {"body": "x" * 5000}, {"nested": {"a": 1}}, {"deep": [[1]]}, {"not": float("nan")}],
)
def test_J06_arguments_are_ids_only(jobs: RedisJobs, args: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        jobs.enqueue(Job(Task.ECHO, args, Queue.PULL))


def test_J06_arguments_have_a_limit(jobs: RedisJobs, redis_client: redis.Redis) -> None:
    fits = {"ids": [10**15] * ((ARGS_MAX - 20) // 17)}
    assert jobs.enqueue(Job(Task.ECHO, fits, Queue.PULL)).fresh
    with pytest.raises(TooLargeError):
        jobs.enqueue(Job(Task.ECHO, {"ids": [*fits["ids"], *range(20)]}, Queue.PULL))
    assert redis_client.llen(redis_keys.make_queue_key(Queue.PULL)) == 1


def test_a_silent_redis_is_a_named_error(settings: Settings, tmp_path: Any) -> None:
    away = RedisJobs(dataclasses.replace(settings, redis_url=f"unix://{tmp_path}/no.sock"))
    with pytest.raises(StoreError):
        away.enqueue(_job())


def test_backoff_grows_to_its_limit_and_spreads(settings: Settings) -> None:
    settings = dataclasses.replace(
        settings, job_backoff=2.0, job_backoff_factor=3.0, job_backoff_most=50.0, job_backoff_jitter=0.1
    )
    rng = random.Random(7)
    for failures, plain in [(0, 2.0), (1, 6.0), (2, 18.0), (3, 50.0), (99, 50.0), (10**6, 50.0)]:
        assert 0.9 * plain <= endings.compute_backoff(failures, settings, rng) <= 1.1 * plain
    assert len({endings.compute_backoff(0, settings, rng) for _ in range(20)}) > 10


def test_a_result_that_json_cannot_hold_is_a_failure(settings: Settings) -> None:
    job = ClaimedJob("a" * 32, "feed-pull", 1, 1, task=Task.ECHO)
    for value in ({1, 2}, float("nan"), "x" * (endings.RESULT_MAX + 1)):
        ending = endings.finish_job(job, value, settings)
        assert (ending.kind, ending.error) == (State.FAILED, "bad_result")


def _recover(settings: Settings, worker: str, verdict: DeathVerdict) -> dict[str, str]:
    import asyncio

    async def recover() -> dict[str, str]:
        link = Recovery(settings, "test:1:1")
        try:
            return await link.recover(worker, verdict)
        finally:
            await link.close()

    return asyncio.run(recover())
