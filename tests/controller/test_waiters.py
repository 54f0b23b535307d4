"""Awaiting over the hub, and without one: nothing missed whenever a job ends, whoever is killed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from redis.asyncio.connection import AbstractConnection, ConnectionPool

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Outcome, Queue, Task, Ticket
from controller import client, result_channel, results
from controller.client import AsyncResultReader, ResultReader
from tests.jobs import support
from tests.support import live
from workers import outcome as endings

Run = Callable[..., live.Part]
Inside = Callable[..., None]


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What a test leaves open is reported by that test."""
    yield
    gc.collect()


@pytest.fixture
def jobs(settings: Settings, redis_client: redis.Redis) -> Iterator[RedisJobs]:
    with contextlib.closing(RedisJobs(settings)) as port:
        yield port


def _echoes(count: int, start: int = 0) -> list[Job]:
    return [Job(Task.ECHO, {"key": key}, Queue.PULL) for key in range(start, start + count)]


class Ender:
    """Ends whatever is queued, in its own thread, a random part at a time."""

    def __init__(self, client: redis.Redis, settings: Settings, seed: int) -> None:
        self._desk = support.desk(client, settings)
        self._settings = settings
        self._dice = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        while not self._stop.wait(self._dice.random() * 0.003):
            taken = self._desk.claim_jobs(self._dice.randint(1, 9), {}, ())
            self._desk.finish([endings.finish_job(job, job.args["key"], self._settings) for job in taken])

    def __enter__(self) -> Ender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def _wait(jobs: RedisJobs, wanted: list[Job], pause: float) -> tuple[list[Ticket], list[Outcome]]:
    tickets = jobs.enqueue_many(wanted)
    threading.Event().wait(pause)  # so that jobs end before, around and after the subscription
    return tickets, list(jobs.await_many(tickets, 60))


def _check(tickets: list[Ticket], outcomes: list[Outcome], wanted: list[Job]) -> None:
    assert {o.id: o.value for o in outcomes} == {
        t.id: job.args["key"] for t, job in zip(tickets, wanted, strict=True)
    }
    assert len(outcomes) == len(tickets)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Without the looks that would repair what is missed: by turns, and at the deadline."""
    late: list[str] = []

    def look(_: object, pending: set[tuple[str, int]]) -> list[Outcome]:
        late.extend(job_id for job_id, _ in pending)
        return []

    async def async_look(_: object, pending: set[tuple[str, int]]) -> list[Outcome]:
        return look(_, pending)

    monkeypatch.setattr(results, "_REST", 1e9)
    monkeypatch.setattr(ResultReader, "_look", look)
    monkeypatch.setattr(AsyncResultReader, "_look", async_look)
    return late


@pytest.mark.parametrize("hub", [True, False], ids=["hub", "no hub"])
def test_nothing_is_missed_when_jobs_end_around_the_subscription(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, inside: Inside, told: list[str], hub: bool
) -> None:
    """300 waits by 12 threads, each of jobs of its own and of some that others await, too; three runs of
    each id, so that an earlier run's result lies in the same stream."""
    if hub:
        inside()
    dice = random.Random(7)
    with Ender(redis_client, settings, 11), ThreadPoolExecutor(12) as pool:
        for _ in range(3):
            rounds = [_echoes(dice.randint(1, 12), start=dice.randint(0, 400)) for _ in range(100)]
            waits = [pool.submit(_wait, jobs, wanted, dice.random() * 0.02) for wanted in rounds]
            for wait, wanted in zip(waits, rounds, strict=True):
                _check(*wait.result(), wanted)
    assert told == []


@pytest.mark.parametrize("hub", [True, False], ids=["hub", "no hub"])
def test_nothing_is_missed_by_async_waiters(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, inside: Inside, told: list[str], hub: bool
) -> None:
    if hub:
        inside()
    dice = random.Random(5)

    async def wait(reader: AsyncResultReader, wanted: list[Job]) -> None:
        tickets = await asyncio.to_thread(jobs.enqueue_many, wanted)
        await asyncio.to_thread(threading.Event().wait, dice.random() * 0.02)
        _check(tickets, [outcome async for outcome in reader.await_many(tickets, 60)], wanted)

    async def main() -> None:
        async with AsyncResultReader.from_settings(settings) as reader, asyncio.TaskGroup() as group:
            for _ in range(150):
                wanted = _echoes(dice.randint(1, 12), start=dice.randint(0, 400))
                group.create_task(wait(reader, wanted))

    with Ender(redis_client, settings, 3):
        asyncio.run(main())
    assert told == []


def test_waiters_live_through_kills_and_hangs_of_the_controller(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, run: Run
) -> None:
    """Jobs end all the time; the controller is killed, is away, comes back, hangs, and is killed again."""
    first = run()
    desk = support.desk(redis_client, settings)
    tickets = jobs.enqueue_many(_echoes(60))
    got: list[Outcome] = []
    waiting = threading.Thread(target=lambda: got.extend(jobs.await_many(tickets, 90)))
    waiting.start()

    def end(count: int) -> None:
        before = len(got)
        taken = desk.claim_jobs(count, {}, ())
        desk.finish([endings.finish_job(job, job.args["key"], settings) for job in taken])
        deadline = time.monotonic() + 60
        while len(got) < before + count and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(got) == before + count

    end(10)
    first.kill()
    end(10)
    end(10)  # by now it asks Redis itself
    second = run()
    end(10)
    os.kill(second.pid, signal.SIGSTOP)
    end(10)
    os.kill(second.pid, signal.SIGCONT)
    end(10)
    waiting.join()
    assert sorted(outcome.value for outcome in got) == list(range(60))


def test_partial_results_come_at_the_deadline_over_the_hub(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, inside: Inside
) -> None:
    inside()
    desk = support.desk(redis_client, settings)
    tickets = jobs.enqueue_many(_echoes(100))
    taken = desk.claim_jobs(95, {}, ())
    desk.finish([endings.finish_job(job, job.args["key"], settings) for job in taken])
    assert len(list(jobs.await_many(tickets, 0.5))) == 95

    async def gather() -> int:
        async with AsyncResultReader.from_settings(settings) as reader:
            return len([outcome async for outcome in reader.await_many(tickets, 0.5)])

    assert asyncio.run(gather()) == 95


def test_failures_and_lost_jobs_come_over_the_hub(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, inside: Inside
) -> None:
    inside()
    desk = support.desk(redis_client, settings)
    bad, gone = jobs.enqueue_many(_echoes(2))
    (taken, _) = desk.claim_jobs(2, {}, ())
    desk.finish([endings.fail_job(taken, endings.BadJobError("bad_result", "A sentence."), settings)])
    redis_client.delete(redis_keys.make_job_key(gone.id))
    found = {outcome.id: outcome for outcome in jobs.await_many([bad, gone], 60)}
    assert found[bad.id] == Outcome(bad.id, None, "bad_result", "A sentence.")
    assert found[gone.id].error == "lost"


def test_waiters_live_through_an_emptied_redis(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, inside: Inside
) -> None:
    inside()
    tickets = jobs.enqueue_many(_echoes(20))
    waiting = jobs.await_many(tickets, 30)
    timer = threading.Timer(0.3, redis_client.flushall)
    timer.start()
    assert [outcome.error for outcome in waiting] == ["lost"] * 20
    timer.join()
    # And the hub still hears of what is new.
    (fresh,) = jobs.enqueue_many(_echoes(1))
    with Ender(redis_client, settings, 1):
        assert [outcome.value for outcome in jobs.await_many([fresh], 60)] == [0]


@pytest.mark.timeout(180)
def test_a_connection_that_does_not_close_keeps_nobody_waiting(
    jobs: RedisJobs,
    redis_client: redis.Redis,
    settings: Settings,
    eventually: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """redis-py sometimes waits for the end of a connection for ever (its issue 3941)."""
    close = AbstractConnection.disconnect

    async def close_and_hang(self: Any, nowait: bool = False, **more: Any) -> None:
        await close(self, nowait=True, **more)
        if not nowait:
            await asyncio.Event().wait()

    monkeypatch.setattr(AbstractConnection, "disconnect", close_and_hang)
    with Ender(redis_client, settings, 1):
        for start in (0, 100):
            wanted = _echoes(10, start)
            tickets = jobs.enqueue_many(wanted)
            # Without a deadline that could help: at it, a waiter looks for himself.
            _check(tickets, list(jobs.await_many(tickets, 1e6)), wanted)
            result_channel = jobs._results._line()._line
            eventually(lambda line=result_channel: not line._needed.is_set())


def _closed(reader: ResultReader, eventually: Callable[..., Any]) -> None:
    """Close a reader that has a line, and see that nothing of the line is left."""
    result_channel = reader._thread
    assert result_channel is not None
    closing = threading.Thread(target=reader.close, daemon=True)
    closing.start()
    eventually(lambda: not closing.is_alive(), message="the line ends")
    assert asyncio.all_tasks(result_channel._loop) == set()


@pytest.mark.timeout(180)
def test_a_line_ends_though_its_cancellation_was_swallowed(
    settings: Settings,
    jobs: RedisJobs,
    redis_client: redis.Redis,
    eventually: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says goodbye to a client that takes the first cancellation for its own time-out, and then rests."""
    hangs, close = threading.Event(), ConnectionPool.disconnect

    async def close_and_swallow(self: Any, *args: Any, **more: Any) -> None:
        await close(self, *args, **more)
        if not hangs.is_set():
            hangs.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    monkeypatch.setattr(ConnectionPool, "disconnect", close_and_swallow)
    monkeypatch.setattr(result_channel, "_GOODBYE", 1e6)
    monkeypatch.setattr(client, "_STOP_AGAIN", 0.1)
    reader = ResultReader.from_settings(settings)
    with Ender(redis_client, settings, 1):
        assert len(list(reader.await_many(jobs.enqueue_many(_echoes(1)), 60))) == 1
    assert hangs.wait(60), "nobody waits any more"
    _closed(reader, eventually)


@pytest.mark.timeout(180)
def test_what_a_second_cancellation_leaves_is_ended_as_well(
    settings: Settings,
    jobs: RedisJobs,
    redis_client: redis.Redis,
    eventually: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It comes while the line ends its own tasks, which take their first cancellations for time-outs."""
    swallowed: list[Any] = []
    read = AbstractConnection.read_response

    async def read_stubbornly(self: Any, *args: Any, **more: Any) -> Any:
        try:
            return await read(self, *args, **more)
        except asyncio.CancelledError:
            if len(swallowed) == 3:
                raise
            swallowed.append(self)
            raise redis.TimeoutError from None

    monkeypatch.setattr(AbstractConnection, "read_response", read_stubbornly)
    monkeypatch.setattr(client, "_STOP_AGAIN", 0.01)
    reader = ResultReader.from_settings(settings)
    waiting = threading.Thread(target=lambda: list(reader.await_many(jobs.enqueue_many(_echoes(1)), 3)))
    waiting.start()
    eventually(lambda: redis_client.info("clients")["blocked_clients"], message="the line reads")  # type: ignore[index]
    _closed(reader, eventually)
    assert swallowed
    waiting.join()


def test_a_waiter_that_gives_up_leaves_nothing_behind(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Any
) -> None:
    tickets = jobs.enqueue_many(_echoes(50))
    with Ender(redis_client, settings, 2):
        first = next(jobs.await_many(tickets, 60))
    assert first.value in range(50)
    assert list(jobs.await_many(jobs.enqueue_many(_echoes(5, start=100)), 0.1)) == []
    thread = jobs._results._thread
    assert thread is not None
    eventually(lambda: not thread._line._wanted)
