"""Awaiting many jobs: nothing missed, nothing stale, what is there at the deadline."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Outcome, Queue, State, Task, Ticket
from controller.client import AsyncResultReader
from tests.jobs import support
from workers import outcome as endings
from workers.job import ClaimedJob
from workers.queue_client import QueueClient


def _jobs(count: int, start: int = 0) -> list[Job]:
    return [Job(Task.ECHO, {"key": key}, Queue.PULL) for key in range(start, start + count)]


def _end_all(desk: QueueClient, settings: Settings, value: Callable[[ClaimedJob], Any]) -> None:
    while taken := desk.claim_jobs(7, {}, ()):
        desk.finish([endings.finish_job(job, value(job), settings) for job in taken])


def _in_thread(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_hundred_results_come_as_they_end(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    tickets = jobs.enqueue_many(_jobs(100))
    waiting = jobs.await_many(tickets, 20)
    (first,) = desk.claim_jobs(1, {}, ())
    desk.finish([endings.finish_job(first, first.args["key"], settings)])
    # Delivered while 99 have not even begun.
    got = [next(waiting)]
    assert got == [Outcome(first.id, value=0)]
    ending = _in_thread(lambda: _end_all(desk, settings, lambda job: job.args["key"]))
    got += waiting
    ending.join()
    assert {outcome.id: outcome.value for outcome in got} == {t.id: key for key, t in enumerate(tickets)}
    assert len(got) == 100


def test_a_late_second_waiter_gets_all(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    tickets = jobs.enqueue_many(_jobs(100))
    joined = jobs.enqueue_many(_jobs(100))
    assert not any(ticket.fresh for ticket in joined)
    _end_all(desk, settings, lambda job: "x")
    for waiter in (tickets, joined):
        assert len(list(jobs.await_many(waiter, 0))) == 100


def test_no_waiter_gets_the_result_of_an_earlier_run(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    for run in range(5):
        tickets = jobs.enqueue_many(_jobs(40))
        assert all(ticket.fresh for ticket in tickets)
        assert list(jobs.await_many(tickets, 0)) == []
        _end_all(desk, settings, lambda job, run=run: run)  # type: ignore[misc]
        assert {outcome.value for outcome in jobs.await_many(tickets, 5)} == {run}


def test_at_the_deadline_there_is_what_has_ended(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    tickets = jobs.enqueue_many(_jobs(100))
    taken = desk.claim_jobs(95, {}, ())
    desk.finish([endings.finish_job(job, 1, settings) for job in taken])
    assert len(list(jobs.await_many(tickets, 0.3))) == 95


def test_retries_are_not_ends_and_failures_are(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings, eventually: Any
) -> None:
    desk = support.desk(redis_client, settings)
    ticket = jobs.enqueue(_jobs(1)[0])
    (taken,) = desk.claim_jobs(1, {}, ())
    desk.finish([endings.fail_job(taken, ValueError(), settings)])
    assert list(jobs.await_many([ticket], 0.1)) == []
    (again,) = eventually(lambda: desk.claim_jobs(1, {}, ()))
    refused = endings.BadJobError("bad_result", "A sentence.")
    desk.finish([endings.fail_job(again, refused, settings)])
    assert list(jobs.await_many([ticket], 1)) == [Outcome(ticket.id, None, "bad_result", "A sentence.")]


def test_a_lost_job_is_reported(jobs: RedisJobs, redis_client: redis.Redis) -> None:
    ticket = jobs.enqueue(_jobs(1)[0])
    redis_client.delete(redis_keys.make_job_key(ticket.id))
    assert [outcome.error for outcome in jobs.await_many([ticket], 10)] == ["lost"]


def test_a_job_of_another_run_without_result_is_lost(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    ticket = jobs.enqueue(_jobs(1)[0])
    earlier = dataclasses.replace(ticket, since_ms=ticket.since_ms - 60_000)
    assert [outcome.error for outcome in jobs.await_many([earlier], 10)] == ["lost"]


def test_more_jobs_than_one_read_can_hold_well(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    tickets = jobs.enqueue_many(_jobs(1000))
    ending = _in_thread(lambda: _end_all(desk, settings, lambda job: job.args["key"]))
    assert sorted(outcome.value for outcome in jobs.await_many(tickets, 60)) == list(range(1000))
    ending.join()


def test_the_async_waiter_gets_the_same(
    jobs: RedisJobs, redis_client: redis.Redis, settings: Settings
) -> None:
    desk = support.desk(redis_client, settings)
    tickets = jobs.enqueue_many(_jobs(120))
    ending = _in_thread(lambda: _end_all(desk, settings, lambda job: job.args["key"]))

    async def gather(wanted: list[Ticket], timeout: float) -> list[Outcome]:
        async with AsyncResultReader.from_settings(settings) as reader:
            return [outcome async for outcome in reader.await_many(wanted, timeout)]

    got = asyncio.run(gather(tickets, 20))
    ending.join()
    assert sorted(outcome.value for outcome in got) == list(range(120))
    assert asyncio.run(gather(jobs.enqueue_many(_jobs(1, start=500)), 0.1)) == []


def test_progress_shows_in_the_status(jobs: RedisJobs, redis_client: redis.Redis, settings: Settings) -> None:
    desk = support.desk(redis_client, settings)
    ticket = jobs.enqueue(_jobs(1)[0])
    (taken,) = desk.claim_jobs(1, {}, ())
    desk.report([endings.ProgressReport(taken, {"step": "fetch", "done": 3})])
    assert jobs.get_status(ticket.id).progress == {"step": "fetch", "done": 3}
    desk.finish([endings.finish_job(taken, None, settings)])
    desk.report([endings.ProgressReport(taken, {"step": "late"})])
    assert jobs.get_status(ticket.id).progress == {"step": "fetch", "done": 3}
    assert jobs.get_status("0" * 32).state is State.MISSING
