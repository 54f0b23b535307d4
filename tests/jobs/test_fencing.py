"""Each guard of the job scripts: who may take, report, end, recover, requeue and retry a job, and when."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, State, Task
from app.models.jobs.workers import QueueRules
from queue_manager.dead import DeadJobs
from queue_manager.orphans import OrphanedJobs
from queue_manager.policy import DeathVerdict
from tests.jobs import support
from workers import outcome
from workers.job import ClaimedJob
from workers.outcome import AttemptOutcome, BadJobError, ProgressReport

CLEAN, CRASH = DeathVerdict(False, "stopped"), DeathVerdict(True, "signal 11")
BAD = BadJobError("bad_result", "The result is wrong.")
PULLS, SCHEDULED = redis_keys.make_queue_key(Queue.PULL), redis_keys.SCHEDULED + Queue.PULL
HOUR_MS = 3_600_000


def _job(key: int = 1, queue: Queue = Queue.PULL) -> Job:
    return Job(Task.ECHO, {"key": key}, queue)


def _field(client: redis.Redis, job_id: str, name: str) -> str | None:
    value: Any = client.hget(redis_keys.make_job_key(job_id), name)
    return value.decode() if value is not None else None


def _events(client: redis.Redis) -> list[dict[str, str]]:
    rows: Any = client.xrange(redis_keys.EVENTS)
    return [{name.decode(): value.decode() for name, value in row.items()} for _, row in rows]


def _keys(jobs: list[ClaimedJob]) -> list[int]:
    return [job.args["key"] for job in jobs]


def _retry_in(job: ClaimedJob, seconds: float, settings: Settings) -> AttemptOutcome:
    return dataclasses.replace(outcome.fail_job(job, ValueError(), settings), seconds=seconds)


def _recover(settings: Settings, worker: str, verdict: DeathVerdict, **more: Any) -> dict[str, str]:
    return support.linked(settings, lambda link: link.recover(worker, verdict, **more))


def _retry(settings: Settings, job_id: str) -> int:
    return support.linked(settings, lambda link: DeadJobs(link.client).retry_dead(job_id))


def _drop(settings: Settings, job_id: str) -> int:
    return support.linked(settings, lambda link: DeadJobs(link.client).remove_dead(job_id))


def _kill(jobs: RedisJobs, client: redis.Redis, settings: Settings, key: int = 1) -> str:
    """Let a job fail for good; returns its id."""
    ticket = jobs.enqueue(_job(key))
    desk = support.desk(client, settings)
    (taken,) = desk.claim_jobs(1, {}, ())
    desk.finish([outcome.fail_job(taken, BAD, settings)])
    return ticket.id


# -- take


def test_a_worker_never_takes_more_than_it_has_room_for_over_all_queues(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    queues = [Queue.DISCOVERY, Queue.PULL, Queue.PULL, Queue.PULL_SYSTEM]
    jobs.enqueue_many([_job(key, queue) for key, queue in enumerate(queues)])
    desk = support.desk(redis_client, settings)
    assert _keys(desk.claim_jobs(2, {str(Queue.PULL): 5}, ())) == [0, 1]
    assert _keys(desk.claim_jobs(9, {}, ())) == [2, 3]


def test_a_retry_is_not_taken_before_it_is_due(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    ticket = jobs.enqueue(_job())
    (taken,) = desk.claim_jobs(1, {}, ())
    desk.finish([_retry_in(taken, 3600, settings)])
    assert desk.claim_jobs(1, {}, ()) == []
    assert jobs.get_status(ticket.id).state is State.SCHEDULED


def test_a_due_retry_leaves_the_schedule_and_waits_behind_what_is_queued(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    jobs.enqueue(_job(1))
    (taken,) = desk.claim_jobs(1, {}, ())
    desk.finish([_retry_in(taken, 0, settings)])
    jobs.enqueue(_job(2))
    assert _keys(desk.claim_jobs(2, {}, ())) == [2, 1]
    assert not redis_client.exists(SCHEDULED)


def test_a_stale_entry_of_the_schedule_does_not_run_an_ended_job_again(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    ticket = jobs.enqueue(_job())
    desk.finish([outcome.finish_job(job, 1, settings) for job in desk.claim_jobs(1, {}, ())])
    redis_client.zadd(SCHEDULED, {ticket.id: 0})
    assert desk.claim_jobs(1, {}, ()) == []
    assert jobs.get_status(ticket.id).state is State.FINISHED
    assert not redis_client.exists(SCHEDULED)


@pytest.mark.parametrize("place", ["queue", "schedule"])
def test_an_id_whose_job_is_not_a_hash_is_dropped_and_the_next_job_runs(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings, place: str
) -> None:
    redis_client.rpush(redis_keys.make_job_key("foreign"), "a list")
    if place == "queue":
        redis_client.rpush(PULLS, "foreign")
    else:
        redis_client.zadd(SCHEDULED, {"foreign": 0})
    jobs.enqueue(_job(1))
    assert _keys(support.desk(redis_client, settings).claim_jobs(5, {}, ())) == [1]
    assert redis_client.llen(redis_keys.make_inflight_key("w1")) == 1
    assert not redis_client.exists(PULLS, SCHEDULED)


def test_a_returned_job_is_the_next_one_taken(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    jobs.enqueue_many([_job(1), _job(2)])
    desk.finish([outcome.return_job(job) for job in desk.claim_jobs(1, {}, ())])
    assert _keys(desk.claim_jobs(2, {}, ())) == [1, 2]


# -- progress and what a worker holds without knowing it


def test_only_the_running_attempt_can_report_progress(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    ticket = jobs.enqueue(_job())
    (first,) = desk.claim_jobs(1, {}, ())
    desk.finish([outcome.return_job(first)])
    (second,) = desk.claim_jobs(1, {}, ())
    desk.report([ProgressReport(first, {"step": 1})])
    assert jobs.get_status(ticket.id).progress == {}
    desk.report([ProgressReport(second, {"step": 2})])
    assert jobs.get_status(ticket.id).progress == {"step": 2}
    desk.finish([outcome.finish_job(second, 1, settings)])
    desk.report([ProgressReport(second, {"step": 3})])
    assert jobs.get_status(ticket.id).progress == {"step": 2}
    assert [event["data"] for event in _events(redis_client) if event["kind"] == "progress"] == [
        '{"step": 2}'
    ]


def test_a_later_attempt_is_put_back_although_the_worker_knows_an_earlier_one(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    jobs.enqueue(_job())
    (first,) = desk.claim_jobs(1, {}, ())
    desk.finish([outcome.return_job(first)])
    support.desk(redis_client, settings).claim_jobs(1, {}, ())  # the reply with attempt 2 is lost
    desk._certain = None
    assert [job.attempt for job in desk.claim_jobs(1, {}, [first])] == [3]


@pytest.mark.parametrize("foreign", [False, True], ids=["missing", "not a hash"])
def test_after_a_lost_reply_a_held_id_without_a_job_is_forgotten(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings, foreign: bool
) -> None:
    desk = support.desk(redis_client, settings)
    ticket = jobs.enqueue(_job())
    desk.claim_jobs(1, {}, ())
    redis_client.delete(redis_keys.make_job_key(ticket.id))
    if foreign:
        redis_client.rpush(redis_keys.make_job_key(ticket.id), "a list")
    desk._certain = None
    assert desk.claim_jobs(1, {}, ()) == []
    assert not redis_client.exists(redis_keys.make_inflight_key("w1"), PULLS)


# -- results


def test_only_a_small_result_rides_along_in_the_event(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    jobs.enqueue_many([_job(key) for key in range(3)])
    desk = support.desk(redis_client, settings)
    small, large, failed = desk.claim_jobs(3, {}, ())
    desk.finish([outcome.finish_job(small, 7, settings), outcome.finish_job(large, "x" * 600, settings)])
    desk.finish([outcome.fail_job(failed, BAD, settings)])
    ends = {e["id"]: e for e in _events(redis_client) if e["kind"] in ("finished", "failed")}
    assert ["value" in ends[job.id] for job in (small, large, failed)] == [True, False, False]


def test_success_after_a_failure_clears_the_error(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    ticket = jobs.enqueue(_job())
    (taken,) = desk.claim_jobs(1, {}, ())
    desk.finish([_retry_in(taken, 0, settings)])
    assert jobs.get_status(ticket.id).error == "unexpected"
    desk.finish([outcome.finish_job(job, 1, settings) for job in desk.claim_jobs(1, {}, ())])
    assert jobs.get_status(ticket.id).error is None


def _end(settings: Settings, client: redis.Redis, how: str) -> None:
    desk = support.desk(client, settings)
    (taken,) = desk.claim_jobs(1, {}, ())
    if how == "finished":
        desk.finish([outcome.finish_job(taken, 1, settings)])
    else:
        limited = {"feed-pull": _rules(retries=1)}
        assert _recover(settings, "w1", CRASH, rules=limited) == {taken.id: "failed"}


def _rules(retries: int, failure_ttl: int = 100) -> QueueRules:
    return QueueRules(
        retries=retries,
        backoff_first=1,
        backoff_factor=1,
        backoff_most=1,
        backoff_jitter=0,
        result_ttl=100,
        failure_ttl=failure_ttl,
    )


@pytest.mark.parametrize("how", ["finished", "crashed"])
@pytest.mark.parametrize("ahead", ["run", "last result"])
def test_after_the_clock_was_set_back_a_waiter_still_gets_the_result(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings, how: str, ahead: str
) -> None:
    """A result is stamped neither before its run nor before an earlier result of the same job."""
    ticket = jobs.enqueue(_job())
    if ahead == "run":
        ticket = dataclasses.replace(ticket, since_ms=ticket.since_ms + HOUR_MS)
        redis_client.hset(redis_keys.make_job_key(ticket.id), "since", ticket.since_ms)
    else:
        results = redis_keys.make_results_key(ticket.id)
        redis_client.xadd(results, {"type": 1}, id=f"{ticket.since_ms + HOUR_MS}-1")
    _end(settings, redis_client, how)
    found: Any = redis_client.xrange(redis_keys.make_results_key(ticket.id))
    stamp = int(found[-1][0].split(b"-")[0])
    assert stamp >= ticket.since_ms + (0 if ahead == "run" else HOUR_MS + 1)
    assert found[-1][1][b"worker_name"] == b"w1"


@pytest.mark.parametrize("again", ["enqueue", "retry"])
def test_after_the_clock_was_set_back_a_new_run_begins_after_the_last_result(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings, again: str
) -> None:
    job_id = _kill(jobs, redis_client, settings)
    later = jobs.enqueue(_job(2)).since_ms + HOUR_MS
    redis_client.xadd(redis_keys.make_results_key(job_id), {"type": 1}, id=f"{later}-1")
    assert _retry(settings, job_id) if again == "retry" else jobs.enqueue(_job()).fresh
    assert jobs.enqueue(_job()).since_ms == later + 1


@pytest.mark.parametrize("how", ["finished", "crashed"])
def test_an_end_removes_expired_jobs_from_its_registry_and_sets_its_own_expiry(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings, how: str
) -> None:
    registry = (redis_keys.FINISHED if how == "finished" else redis_keys.FAILED) + Queue.PULL
    redis_client.zadd(registry, {"expired": 1})
    ticket = jobs.enqueue(_job())
    _end(settings, redis_client, how)
    assert redis_client.zrange(registry, 0, -1) == [ticket.id.encode()]
    most = settings.result_ttl if how == "finished" else 100
    for key in (redis_keys.make_job_key(ticket.id), redis_keys.make_results_key(ticket.id)):
        assert 0 < int(redis_client.ttl(key)) <= most


# -- recovery


def test_recovery_leaves_a_job_alone_that_another_worker_runs_by_now(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ticket = jobs.enqueue(_job())
    heir = support.desk(redis_client, settings, "heir")
    (taken,) = heir.claim_jobs(1, {}, ())
    redis_client.rpush(redis_keys.make_inflight_key("w1"), ticket.id)
    assert _recover(settings, "w1", CRASH) == {}
    assert not redis_client.exists(redis_keys.make_inflight_key("w1"), PULLS)
    assert heir.finish([outcome.finish_job(taken, 1, settings)]) == [True]


def test_recovery_does_not_run_a_job_again_that_its_worker_has_ended(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ticket = jobs.enqueue(_job())
    _end(settings, redis_client, "finished")
    redis_client.rpush(redis_keys.make_inflight_key("w1"), ticket.id)
    assert _recover(settings, "w1", CLEAN) == {}
    assert jobs.get_status(ticket.id).state is State.FINISHED


def test_recovery_reports_what_became_of_each_job(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ran, waited = jobs.enqueue_many([_job(1), _job(2)])
    support.desk(redis_client, settings).claim_jobs(2, {}, ())
    _recover(settings, "w1", CRASH, ran=[ran.id])
    told = {e["id"]: (e["kind"], e["error"]) for e in _events(redis_client) if e["kind"] != "started"}
    assert told == {ran.id: ("suspect", "crashed"), waited.id: ("returned", "")}


def test_the_crash_limit_is_that_of_the_queue(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    jobs.enqueue_many([_job(1), _job(2, Queue.MAINTENANCE)])
    support.desk(redis_client, settings).claim_jobs(2, {}, ())
    became = _recover(settings, "w1", CRASH, rules={str(Queue.MAINTENANCE): _rules(retries=1)})
    assert sorted(became.values()) == ["failed", "suspect"]


def test_a_suspect_stays_among_the_suspects_when_its_worker_stops(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ticket = jobs.enqueue(_job())
    support.desk(redis_client, settings).claim_jobs(1, {}, ())
    assert _recover(settings, "w1", CRASH) == {ticket.id: "suspect"}
    suspects = redis_keys.make_queue_key(Queue.SUSPECTS)
    assert redis_client.sismember(redis_keys.QUEUES, suspects)
    support.desk(redis_client, settings, "w2").claim_jobs(1, {}, ())
    assert _recover(settings, "w2", CLEAN) == {ticket.id: "returned"}
    assert redis_client.lrange(suspects, 0, -1) == [ticket.id.encode()]


def test_a_requeued_orphan_comes_first_in_a_known_queue_and_waits_to_be_taken(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    lost, other = jobs.enqueue_many([_job(1), _job(2)])
    support.desk(redis_client, settings).claim_jobs(1, {}, ())
    redis_client.delete(redis_keys.make_inflight_key("w1"), redis_keys.QUEUES)
    found = support.linked(settings, lambda link: OrphanedJobs(link.client, "test:1:1").requeue_jobs())
    assert found == {lost.id: "started"}
    assert jobs.get_status(lost.id).state is State.QUEUED
    assert redis_client.lrange(PULLS, 0, -1) == [lost.id.encode(), other.id.encode()]
    assert redis_client.smembers(redis_keys.QUEUES) == {PULLS.encode()}


class _Late(OrphanedJobs):
    """Suspects every job, as when all of them moved between the look and the script."""

    async def _doubtful(self, names: Sequence[bytes], waiting: dict[bytes, set[bytes]]) -> list[str]:
        return [name.decode().removeprefix(redis_keys.JOB) for name in names]


def test_the_script_requeues_no_job_that_a_list_holds_at_that_moment(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    jobs.enqueue_many([_job(key) for key in range(4)])
    desk = support.desk(redis_client, settings)
    ended, retried, _ = desk.claim_jobs(3, {}, ())
    desk.finish([outcome.finish_job(ended, 1, settings), _retry_in(retried, 3600, settings)])
    redis_client.hset(redis_keys.make_job_key("foreign"), "status", "queued")  # without a queue
    before = support.states(redis_client, [ended.id, retried.id])
    assert support.linked(settings, lambda link: _Late(link.client, "test:1:1").requeue_jobs()) == {}
    assert support.states(redis_client, [ended.id, retried.id]) == before == {"finished": 1, "scheduled": 1}
    assert (redis_client.llen(PULLS), redis_client.llen(redis_keys.make_inflight_key("w1"))) == (1, 1)


# -- queueing


@pytest.mark.parametrize("status", ["queued", "started", "scheduled", "deferred"])
def test_a_job_that_has_not_ended_is_not_queued_again(
    jobs: RedisJobs, redis_client: redis.Redis, status: str
) -> None:
    ticket = jobs.enqueue(_job())
    redis_client.hset(redis_keys.make_job_key(ticket.id), "status", status)
    again = jobs.enqueue(_job())
    assert (again.fresh, again.since_ms) == (False, ticket.since_ms)
    assert redis_client.llen(PULLS) == 1


@pytest.mark.parametrize("failed", [False, True])
def test_a_job_that_is_queued_again_leaves_all_that_listed_its_last_end(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings, failed: bool
) -> None:
    if failed:
        _kill(jobs, redis_client, settings)
    else:
        jobs.enqueue(_job())
        _end(settings, redis_client, "finished")
    assert jobs.enqueue(_job()).fresh
    registries = (redis_keys.FINISHED + Queue.PULL, redis_keys.FAILED + Queue.PULL, redis_keys.DEAD)
    assert not redis_client.exists(*registries)


def test_jobs_queued_in_front_are_taken_first(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    jobs.enqueue(_job(1))
    jobs.enqueue_many([_job(2)], front=True)
    assert _keys(support.desk(redis_client, settings).claim_jobs(2, {}, ())) == [2, 1]


# -- waking idle workers


@contextlib.contextmanager
def _heard(client: redis.Redis) -> Iterator[Callable[[], list[str]]]:
    """Listen to the wake channel; yields a function that returns the queues named since its last call."""
    with client.pubsub(ignore_subscribe_messages=True) as channel:  # type: ignore[no-untyped-call]
        channel.subscribe(redis_keys.WAKE, "end")

        def named() -> list[str]:
            client.publish("end", "")
            found: list[str] = []
            for message in channel.listen():
                if message["channel"] == b"end":
                    return found
                found.append(message["data"].decode())
            raise AssertionError("the channel was closed")

        yield named


def test_every_script_that_fills_an_empty_queue_wakes_the_workers(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    with _heard(redis_client) as named:
        ticket = jobs.enqueue(_job(1))
        assert named() == ["feed-pull"]
        jobs.enqueue(_job(2))
        assert named() == [], "a worker that is awake empties the queue"
        first, second = desk.claim_jobs(2, {}, ())
        desk.finish([outcome.finish_job(second, 1, settings), outcome.return_job(first)])
        assert named() == ["feed-pull"]
        desk.claim_jobs(1, {}, ())
        _recover(settings, "w1", CLEAN)
        assert named() == ["feed-pull"]
        support.desk(redis_client, settings, "w2").claim_jobs(1, {}, ())
        redis_client.delete(redis_keys.make_inflight_key("w2"))
        support.linked(settings, lambda link: OrphanedJobs(link.client, "test:1:1").requeue_jobs())
        assert named() == ["feed-pull"]
        support.desk(redis_client, settings, "w3").claim_jobs(1, {}, ())
        _recover(settings, "w3", CRASH)
        assert named() == ["suspects"]
        (last,) = support.desk(redis_client, settings, "w4").claim_jobs(1, {}, ())
        support.desk(redis_client, settings, "w4").finish([outcome.fail_job(last, BAD, settings)])
        assert _retry(settings, ticket.id) == 1
        assert named() == ["feed-pull"]


# -- the dead set


@pytest.mark.parametrize("act", [_retry, _drop])
@pytest.mark.parametrize("guard", ["not in the dead set", "not failed"])
def test_only_a_failed_job_of_the_dead_set_is_retried_or_dropped(
    jobs: RedisJobs,
    redis_client: redis.Redis,
    settings: Settings,
    act: Callable[[Settings, str], int],
    guard: str,
) -> None:
    job_id = _kill(jobs, redis_client, settings)
    if guard == "not failed":
        assert jobs.enqueue(_job()).fresh
        redis_client.zadd(redis_keys.DEAD, {job_id: 1})
    else:
        redis_client.zrem(redis_keys.DEAD, job_id)
    before: Any = redis_client.hgetall(redis_keys.make_job_key(job_id))
    waiting = redis_client.llen(PULLS)
    assert act(settings, job_id) == 0
    assert redis_client.hgetall(redis_keys.make_job_key(job_id)) == before
    assert redis_client.llen(PULLS) == waiting


def test_a_retried_job_has_a_clean_record_and_its_own_queue(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ticket = jobs.enqueue(_job())
    (taken,) = support.desk(redis_client, settings).claim_jobs(1, {}, ())
    support.desk(redis_client, settings).report([ProgressReport(taken, {"step": 1})])
    _recover(settings, "w1", CRASH)
    (taken,) = support.desk(redis_client, settings, "w2").claim_jobs(1, {}, ())
    support.desk(redis_client, settings, "w2").finish([outcome.fail_job(taken, BAD, settings)])
    assert _retry(settings, ticket.id) == 1
    names = ("failures", "crashes", "error", "home", "ended_at", "progress")
    assert [_field(redis_client, ticket.id, name) for name in names] == [None] * len(names)
    assert _field(redis_client, ticket.id, "origin") == "feed-pull"


def test_a_dead_batch_of_the_updater_is_forgotten_instead_of_retried(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ticket = jobs.enqueue(Job(Task.PULL_SYSTEM, {"feed_ids": [7]}, Queue.PULL_SYSTEM))
    desk = support.desk(redis_client, settings)
    desk.finish([outcome.fail_job(job, BAD, settings) for job in desk.claim_jobs(1, {}, ())])
    assert _retry(settings, ticket.id) == 1
    assert jobs.get_status(ticket.id).state is State.MISSING
    assert not redis_client.exists(redis_keys.make_queue_key(Queue.PULL_SYSTEM))


def test_a_full_dead_set_forgets_no_job_that_was_queued_again(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    settings = dataclasses.replace(settings, dead_max=1)
    ticket = jobs.enqueue(_job(1))
    redis_client.zadd(redis_keys.DEAD, {ticket.id: 1})
    jobs.enqueue_many([_job(2)], front=True)
    desk = support.desk(redis_client, settings)
    desk.finish([outcome.fail_job(job, BAD, settings) for job in desk.claim_jobs(1, {}, ())])
    assert redis_client.zcard(redis_keys.DEAD) == 1
    assert jobs.get_status(ticket.id).state is State.QUEUED
