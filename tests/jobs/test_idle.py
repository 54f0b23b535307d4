"""A manager and an updater that have nothing to do hardly ever ask Redis, and miss nothing."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable

import pytest
import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from app.models.jobs.workers import Began, Ended, Leaving, Message, Ready, encode_message
from queue_manager import groups, recovery, targets
from queue_manager.child import WorkerProcess
from queue_manager.processes import WorkerProcesses
from queue_manager.targets import WorkerTargets
from tests.jobs import support
from workers import outcome
from workers.updater.updater import compute_sleep

#: Commands that run while the manager sleeps; one that doesn't sleep looks about as often.
COMMANDS = 400


def _count(client: redis.Redis, command: str) -> int:
    found = client.info("commandstats").get(f"cmdstat_{command}")
    return found["calls"] if found else 0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks every millisecond with work, and every hour without."""
    monkeypatch.setattr(targets, "LOOK", 0.001)
    monkeypatch.setattr(targets, "IDLE_LOOK", 3600.0)


@pytest.mark.usefixtures("patient")
def test_idle_manager_looks_again_only_when_a_job_arrives(
    settings: Settings, redis_client: redis.Redis, jobs: RedisJobs
) -> None:
    def looks() -> int:
        return _count(redis_client, "zcard")  # one per look: the number of managers

    async def wait_for(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0)

    async def run(link: recovery.Recovery) -> None:
        crew = WorkerProcesses(settings, "m1", lambda *_: None)
        sized = WorkerTargets(settings, groups.load(settings), link.client, crew, lambda: None)
        first = looks()
        tasks = [asyncio.create_task(part) for part in (sized.listen(), sized.follow_changes())]
        try:
            await wait_for(lambda: looks() > first and redis_client.pubsub_numsub("eventr:wake")[0][1] > 0)
            for _ in range(COMMANDS):
                await asyncio.to_thread(redis_client.ping)
            idle = looks()
            assert idle - first <= 2
            jobs.enqueue(Job(Task.ECHO, {"n": 1}, Queue.PULL))
            # It is waiting now, since no worker runs: the next looks follow as long as it waits.
            await wait_for(lambda: looks() > idle + 5)
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks)

    support.linked(settings, run)


def test_idle_worker_knows_the_next_retry_of_its_queues(
    settings: Settings, redis_client: redis.Redis, jobs: RedisJobs
) -> None:
    desk, other = support.desk(redis_client, settings), support.desk(redis_client, settings, "w2")
    assert desk.claim_jobs(1, {}, ()) == []
    assert (desk.next_retry, desk.limit_pause(5)) == (None, 5)
    jobs.enqueue(Job(Task.ECHO, {"n": 1}, Queue.PULL))
    (job,) = other.claim_jobs(1, {}, ())
    with redis_client.pubsub() as hints:  # type: ignore[no-untyped-call]
        hints.subscribe(redis_keys.WAKE)
        assert hints.get_message(timeout=60)["type"] == "subscribe"
        later = dataclasses.replace(settings, job_backoff=1000.0, job_backoff_most=1000.0, job_retries=9)
        other.finish([outcome.fail_job(job, ValueError(), later)])
        assert hints.get_message(timeout=60)["data"].decode() == Queue.PULL, "idle workers look again"
    assert desk.claim_jobs(1, {}, ()) == []
    assert desk.next_retry is not None
    assert 500 < desk.next_retry < 2000
    assert desk.limit_pause(5) == 5
    redis_client.zadd(redis_keys.SCHEDULED + Queue.PULL, {job.id: 1})
    redis_client.sadd(redis_keys.PAUSED, str(Queue.PULL))
    assert desk.claim_jobs(1, {}, ()) == []
    assert desk.next_retry is None, "nothing is claimed from a paused queue, however long a retry is due"
    redis_client.srem(redis_keys.PAUSED, str(Queue.PULL))
    assert [again.id for again in desk.claim_jobs(1, {}, ())] == [job.id]
    assert desk.next_retry is None


@pytest.mark.parametrize(("stall", "seconds"), [(1, 0.25), (15, 3.75), (3600, 5)])
def test_idle_worker_sends_several_signs_of_life_before_it_counts_as_stalled(
    settings: Settings, stall: float, seconds: float
) -> None:
    table = groups.load(dataclasses.replace(settings, worker_stall=stall))
    crew = WorkerProcesses(settings, "m1", lambda *_: None)
    assert {crew.build_spec(group, table.rules).tick for group in table.groups} == {seconds}


@pytest.mark.parametrize(
    ("until_look", "lease", "interval", "seconds"),
    [
        (None, 10, 5, 1),  # a standby tries every second
        (None, 1.5, 5, 0.5),
        (None, 10, 0.2, 0.2),
        (5, 30, 5, 5),  # the holder sleeps until its next look
        (60, 30, 60, 5),  # but must show a sign of life
        (60, 6, 60, 2),  # and renew its lease
        (-1, 30, 5, 0),
    ],
)
def test_updater_sleeps_until_it_is_needed(
    settings: Settings, until_look: float | None, lease: float, interval: float, seconds: float
) -> None:
    found = dataclasses.replace(settings, updater_lease=lease, updater_interval=interval)
    assert compute_sleep(found, until_look) == seconds


@pytest.mark.parametrize(
    ("messages", "calm"),
    [
        ([], False),  # it starts
        ([Ready()], True),
        ([Ready(), Began("1", 5.0, "echo", "feed-pull")], False),
        ([Ready(), Began("1", 5.0, "echo", "feed-pull"), Ended("1")], True),
        ([Ready(), Leaving("lifetime")], False),
    ],
)
def test_manager_looks_often_while_a_worker_starts_works_or_leaves(
    settings: Settings, messages: list[Message], calm: bool
) -> None:
    table = groups.load(settings)
    stirs: list[None] = []
    crew = WorkerProcesses(settings, "m1", lambda *_: None, lambda: stirs.append(None))
    child = WorkerProcess(crew.build_spec(table.groups[0], table.rules), settings)
    with child.line, child._lifeline, child._pipe, child._theirs as worker:
        for message in messages:
            worker.send(encode_message(message))
            crew._on_message(child)
        assert child.is_calm is calm
    began = any(isinstance(message, Began) for message in messages)
    assert bool(stirs) == (began or any(isinstance(message, Leaving) for message in messages))
