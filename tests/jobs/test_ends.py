"""How ends reach Redis: without waiting for the answer, and through whatever happens to the connection."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.errors import StoreError
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, State, Task
from app.models.jobs.workers import Ended, Leaving, Message, Tick, WorkerSpec
from queue_manager.policy import DeathVerdict
from tests.jobs import support
from workers import outcome as endings
from workers.context import Resources
from workers.lifeline import ManagerChannel
from workers.loop import LoopWorker
from workers.queue_client import QueueClient, load_script
from workers.runner import Runner
from workers.solo import SoloWorker

JOBS = 120


def _echo(key: int) -> Job:
    return Job(Task.ECHO, {"key": key}, Queue.PULL)


def test_answers_come_in_the_order_of_the_ends(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    desk = support.desk(redis_client, settings)
    tickets = jobs.enqueue_many([_echo(key) for key in range(3)])
    first, second, third = desk.claim_jobs(3, {}, ())
    desk.finish([endings.finish_job(second, "before", settings)])
    for job in (first, second, third):
        desk.send_outcome(endings.finish_job(job, job.args["key"], settings))
    assert [desk.read_answer() for _ in range(3)] == [True, False, True]
    assert not desk.has_answer()
    found = {outcome.id: outcome.value for outcome in jobs.await_many(tickets, 5)}
    assert [found[ticket.id] for ticket in tickets] == [0, "before", 2]


def test_a_zombie_cannot_end_a_job_without_waiting_either(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    zombie, heir = (support.desk(redis_client, settings, name) for name in ("zombie", "heir"))
    ticket = jobs.enqueue(_echo(1))
    (lost,) = zombie.claim_jobs(1, {}, ())
    support.linked(settings, lambda link: link.recover("zombie", DeathVerdict(False, "test")))
    (taken,) = heir.claim_jobs(1, {}, ())
    zombie.send_outcome(endings.finish_job(lost, "late", settings))
    assert not zombie.read_answer()
    heir.send_outcome(endings.finish_job(taken, "good", settings))
    assert heir.read_answer()
    assert [outcome.value for outcome in jobs.await_many([ticket], 5)] == ["good"]


def test_a_redis_that_forgot_its_scripts_is_told_again(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    desk = support.desk(redis_client, settings)
    redis_client.script_flush()
    jobs.enqueue_many([_echo(key) for key in range(3)])
    first, second, third = desk.claim_jobs(3, {}, ())
    redis_client.script_flush()
    assert desk.finish([endings.finish_job(first, 1, settings)]) == [True]
    redis_client.script_flush()
    desk.send_outcome(endings.finish_job(third, 3, settings))
    assert desk.read_answer()
    redis_client.script_flush()
    desk.send_outcome(endings.finish_job(second, 2, settings))
    with pytest.raises(StoreError):
        desk.read_answer()
    assert desk.finish([endings.finish_job(second, 2, settings)]) == [True]


def _kinds(client: redis.Redis) -> list[str]:
    rows: Any = client.xrange(redis_keys.EVENTS)
    return [row[b"kind"].decode() for _, row in rows]


def test_progress_comes_before_its_end_though_redis_knew_only_ends(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    redis_client.script_flush()
    redis_client.script_load(load_script("finish"))
    jobs.enqueue(_echo(1))
    desk = support.desk(redis_client, settings)
    (job,) = desk.claim_jobs(1, {}, ())
    assert desk.finish(
        [endings.finish_job(job, 1, settings)], [endings.ProgressReport(job, {"step": 1})]
    ) == [True]
    assert _kinds(redis_client) == ["started", "progress", "finished"]


def test_an_end_that_was_recorded_is_not_repeated_for_progress_that_was_not(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis
) -> None:
    jobs.enqueue(_echo(1))
    desk = support.desk(redis_client, settings)
    (job,) = desk.claim_jobs(1, {}, ())
    redis_client.script_flush()
    redis_client.script_load(load_script("finish"))
    assert desk.finish(
        [endings.finish_job(job, 1, settings)], [endings.ProgressReport(job, {"step": 1})]
    ) == [True]
    assert _kinds(redis_client) == ["started", "finished"]


@pytest.mark.parametrize("slots", [1, 7])
def test_each_job_of_a_solo_worker_ends_once_however_often_it_loses_redis(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Any, slots: int
) -> None:
    """Connections are cut and scripts forgotten between any two commands of the worker."""
    desk = support.desk(redis_client, settings)
    tickets = jobs.enqueue_many([_echo(key) for key in range(JOBS)])
    worker = SoloWorker(_spec(slots), desk, ManagerChannel(None))
    runner = Runner(settings, {}, Resources(settings), worker.report, inline=True)
    thread = threading.Thread(target=worker.run, args=(runner,))
    thread.start()
    ended = 0
    while ended < JOBS:
        redis_client.script_flush()
        redis_client.client_kill_filter(_type="normal", skipme=True)
        # Some progress between two cuts, else there would be none at all.
        more = min(JOBS, ended + slots + 5)
        ended = eventually(_ended(redis_client, more))
    worker.request_stop("test")
    thread.join(60)
    assert not thread.is_alive()
    assert set(support.ends(redis_client).values()) == {1}
    assert support.states(redis_client, [ticket.id for ticket in tickets]) == {State.FINISHED: JOBS}
    assert redis_client.llen(redis_keys.make_inflight_key("w1")) == 0


class _Manager(ManagerChannel):
    """The manager's end of the line: keeps what the worker says."""

    def __init__(self) -> None:
        super().__init__(None)
        self.heard: list[Message] = []

    def send(self, message: Message) -> None:
        self.heard.append(message)

    def ticks_since(self, kind: type[Message]) -> int:
        """Return how many signs of life came after the first such message."""
        since = itertools.dropwhile(lambda message: not isinstance(message, kind), self.heard)
        return sum(isinstance(message, Tick) for message in since)


def _away_until(desk: QueueClient, is_back: Callable[[], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Redis take no ends for a while; not for ever, so that who waits in vain is seen."""
    tries, finish = iter(range(100)), desk.finish

    def away(*args: Any) -> Any:
        if is_back() or next(tries, None) is None:
            return finish(*args)
        raise StoreError

    def silent(_: Any) -> None:
        raise StoreError

    monkeypatch.setattr(desk, "finish", away)
    monkeypatch.setattr(desk, "send_outcome", silent)


def test_a_solo_worker_that_cannot_record_an_end_gives_signs_of_life_and_runs_nothing(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its manager would take it for stuck, or its last job for endless, and charge that with a crash."""
    monkeypatch.setattr("workers.solo._OUTAGE_PAUSE", 0.01)
    monkeypatch.setattr("workers.solo._TICK", 0.0)
    desk, manager = support.desk(redis_client, settings), _Manager()
    first, _ = jobs.enqueue_many([_echo(key) for key in range(2)])
    _away_until(desk, lambda: manager.ticks_since(Ended) >= 3, monkeypatch)
    worker = SoloWorker(dataclasses.replace(_spec(2), max_jobs=2), desk, manager)
    worker.run(Runner(settings, {}, Resources(settings), worker.report, inline=True))
    assert manager.ticks_since(Ended) >= 3
    assert next(message for message in manager.heard if isinstance(message, Ended)).job_id == first.id
    assert set(support.ends(redis_client).values()) == {1}


def test_a_loop_worker_that_leaves_gives_signs_of_life_until_all_is_recorded(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.loop._OUTAGE_PAUSE", 0.01)
    monkeypatch.setattr("workers.loop._TICK", 0.005)
    monkeypatch.setattr("workers.loop.limit_memory", lambda memory: None)  # this process is no worker
    desk, recorder = (support.desk(redis_client, settings) for _ in range(2))
    manager = _Manager()
    _away_until(recorder, lambda: manager.ticks_since(Leaving) >= 5, monkeypatch)
    jobs.enqueue(_echo(1))

    async def work() -> None:
        worker = LoopWorker(dataclasses.replace(_spec(1), mode="loop", max_jobs=1), (desk, recorder), manager)
        await worker.run(Runner(settings, {}, Resources(settings), worker.report, inline=False))

    asyncio.run(work())
    assert manager.ticks_since(Leaving) >= 5
    assert set(support.ends(redis_client).values()) == {1}


def test_an_idle_solo_worker_leaves_when_its_lifetime_is_over(
    settings: Settings, redis_client: redis.Redis
) -> None:
    worker = SoloWorker(
        dataclasses.replace(_spec(1), lifetime=0.3),
        support.desk(redis_client, settings),
        ManagerChannel(None),
    )
    runner = Runner(settings, {}, Resources(settings), worker.report, inline=True)
    thread = threading.Thread(target=worker.run, args=(runner,), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


def _ended(client: redis.Redis, least: int) -> Any:
    def look() -> int:
        count = len(support.ends(client))
        return count if count >= least else 0

    return look


def _spec(slots: int) -> WorkerSpec:
    return WorkerSpec(
        name="w1",
        manager="test:1:1",
        group="solo",
        queues=(str(Queue.PULL),),
        mode="solo",
        slots=slots,
        system_slots=slots,
        memory=1 << 30,
        lifetime=600,
        max_jobs=10_000,
        grace=1,
    )
