"""Delayed tasks: of several requests the last one counts, and nothing is lost; on real Redis and MongoDB."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import redis

from app import clock
from app.adapters.redis import later as later_module
from app.adapters.redis.later import RedisLater
from app.bootstrap import services as bootstrap
from app.config import Settings
from app.errors import InvalidError, StoreError, TooLargeError
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from app.models.jobs.later import DueBatch, PendingTask, Touch
from app.services.later import LaterKind, LaterRunner
from tests.jobs import support
from workers import outcome
from workers.updater.updater import DelayedTasks, Updater

#: Ten seconds before a minute begins.
START = dt.datetime(2027, 3, 1, 11, 59, 50, tzinfo=dt.UTC)
KIND = "test.echo"


class World:
    """A kind of delayed tasks, the updater's side of it, and a clock."""

    def __init__(self, settings: Settings, services: bootstrap.Services, client: redis.Redis) -> None:
        self.settings, self.services, self.client = settings, services, client
        self.now = START
        self.later = services.later
        self.pending: dict[str, PendingTask] = {}
        self.desk = support.desk(client, settings)

    def touch(self, key: str = "1", *, delay: float = 30, limit: float = 600, **args: Any) -> None:
        self.later.touch(KIND, key, {"key": key, **args}, delay=delay, limit=limit)

    def runner(self, later: RedisLater | None = None) -> LaterRunner:
        def make_job(args: Mapping[str, Any]) -> Job:
            return Job(Task.ECHO, {"key": args["key"], "last": args.get("last", 0)}, Queue.MAINTENANCE)

        kind = LaterKind(KIND, make_job, lambda _: self.pending.values())
        letters = self.services.mappers.dead_letters
        return LaterRunner(later or self.later, self.services.jobs, letters, [kind])

    def pass_time(self, seconds: float) -> None:
        self.now += dt.timedelta(seconds=seconds)

    def run(self, runner: LaterRunner | None = None) -> float | None:
        """Let the updater look; return the seconds until the next task is due."""
        soonest = (runner or self.runner()).run_due(self.now)
        return None if soonest is None else (soonest - self.now).total_seconds()

    def take(self) -> list[Any]:
        return self.desk.claim_jobs(5000, {}, ())

    def finish(self, jobs: list[Any]) -> None:
        self.desk.finish([outcome.finish_job(job, None, self.settings) for job in jobs])

    def queued(self) -> list[tuple[str, int]]:
        """Take and finish all queued jobs; return their keys and marks."""
        jobs = self.take()
        self.finish(jobs)
        return [(job.args["key"], job.args["last"]) for job in jobs]

    def pending_keys(self) -> set[str]:
        shards = [redis_keys.make_later_key("states", n) for n in range(redis_keys.LATER_SHARDS)]
        names: list[Any] = [name for shard in shards for name in self.client.hkeys(shard)]
        return {name.decode().removeprefix(f"{KIND}:") for name in names}

    def left(self) -> set[str]:
        return {key.decode() for key in self.client.scan_iter(redis_keys.LATER + "*")}


@pytest.fixture
def world(settings: Settings, services: bootstrap.Services, redis_client: redis.Redis) -> Iterator[World]:
    made = World(settings, services, redis_client)
    with clock.set_source(lambda: made.now):
        yield made


def test_task_runs_once_after_the_last_touch(world: World) -> None:
    for last in range(5):
        world.touch(last=last)
        assert world.run() == 30
        world.pass_time(20)
    assert world.run() == 10
    assert world.queued() == []
    world.pass_time(10)
    assert world.run() is None
    assert world.queued() == [("1", 4)]
    assert world.left() == set()


def test_task_runs_at_its_limit_however_often_it_is_touched(world: World) -> None:
    """A pure delay would never fire during a long upload."""
    ran = []
    for second in range(0, 1300):
        world.touch(delay=30, limit=600)
        if second % 2:  # the updater looks at other moments than the touches
            world.pass_time(0.4)
            world.run()
            world.pass_time(0.6)
        else:
            world.pass_time(1)
        ran += [second] * len(world.queued())
    assert len(ran) == 2
    assert 600 <= ran[0] <= 602
    assert 1200 <= ran[1] <= 1206


@pytest.mark.parametrize("delay", [30, 600, 0])
def test_touch_between_enqueueing_and_removal_survives(world: World, delay: float) -> None:
    world.touch(delay=5, limit=5, last=1)
    world.pass_time(5)
    batch = world.later.claim_due(world.now)
    assert isinstance(batch, DueBatch)
    world.touch(delay=delay, limit=5, last=2)  # at its limit: its due time does not change
    assert world.later.finish(batch, {}, world.now) == 1
    world.pass_time(delay)
    assert world.run() is None
    assert world.queued() == [("1", 2)]


def test_crash_before_the_removal_queues_no_second_job(world: World) -> None:
    world.touch(delay=5)
    world.pass_time(5)
    with contextlib.closing(RedisLater(world.settings)) as crashed:
        assert isinstance(crashed.claim_due(world.now), DueBatch)
        world.services.jobs.enqueue(Job(Task.ECHO, {"key": "1", "last": 0}, Queue.MAINTENANCE))
    # Another updater waits until the lock of the first one expires.
    assert world.run() == 1
    _expire_locks(world)
    assert world.run() is None
    assert world.queued() == [("1", 0)]
    assert world.left() == set()


def test_late_updater_removes_nothing_of_a_claim_that_expired(world: World) -> None:
    world.touch(delay=5)
    world.pass_time(5)
    with contextlib.closing(RedisLater(world.settings)) as frozen:
        batch = frozen.claim_due(world.now)
        assert isinstance(batch, DueBatch)
        _expire_locks(world)
        again = world.later.claim_due(world.now)
        assert isinstance(again, DueBatch)
        assert frozen.finish(batch, {}, world.now) == -1
        assert world.later.finish(again, {}, world.now) == 0


def test_task_whose_job_is_running_runs_again_after_it(world: World) -> None:
    """The running job may have read what was there before the touch."""
    world.touch(delay=0)
    world.run()
    running = world.take()
    world.touch(delay=0)
    assert world.run() == 5
    assert world.take() == []
    world.finish(running)
    world.pass_time(5)
    assert world.run() is None
    assert world.queued() == [("1", 0)]


def test_two_updaters_queue_each_task_once(world: World) -> None:
    for number in range(300):
        world.touch(str(number), delay=number % 7)
    with contextlib.closing(RedisLater(world.settings)) as other:
        runners = [world.runner(), world.runner(other)]
        for _ in range(14):
            world.pass_time(0.5)
            for runner in runners:
                world.run(runner)
    assert sorted(world.queued()) == sorted((str(number), 0) for number in range(300))
    assert world.left() == set()


def test_tasks_are_spread_over_shards_and_run_at_their_time(world: World) -> None:
    delays = {str(n): random.Random(n).randrange(1, 400) for n in range(200)}
    world.later.touch_many(
        Touch(kind=KIND, key=key, args={"key": key}, delay=delay, limit=900) for key, delay in delays.items()
    )
    shards = {key.rsplit(":", 1)[1] for key in world.left()}
    assert shards == {str(n) for n in range(redis_keys.LATER_SHARDS)}
    for second in range(1, 401):
        world.pass_time(1)
        world.run()
        due = {key for key, delay in delays.items() if delay == second}
        assert {key for key, _ in world.queued()} == due, second
    assert world.left() == set()


@pytest.mark.parametrize("moment", [-1, 0, 9.999, 10, 10.001, 69.999, 70, 130, 86_400 * 3])
def test_task_is_found_on_either_side_of_a_minute(world: World, moment: float) -> None:
    world.touch(delay=max(moment, 0), limit=max(moment, 0))
    world.touch("2", delay=max(moment, 0) + 0.001, limit=86_400 * 4)
    world.pass_time(max(moment, 0))
    assert world.run() == pytest.approx(0.001)
    assert world.queued() == [("1", 0)]
    world.pass_time(0.001)
    assert world.run() is None
    assert world.queued() == [("2", 0)]


def test_shorter_delay_moves_a_task_forward(world: World) -> None:
    world.touch(delay=300)
    world.touch(delay=5)
    assert world.run() == 5


def test_emptied_redis_loses_nothing(world: World) -> None:
    world.pending = {key: PendingTask(key, {"key": key}, world.now) for key in ("1", "2", "3")}
    runner = world.runner()
    assert runner.rebuild(world.now) == 3
    world.run(runner)
    assert sorted(world.queued()) == [("1", 0), ("2", 0), ("3", 0)]
    world.touch("2", delay=300, last=7)
    world.client.flushall()
    support.desk(world.client, world.settings)
    world.pass_time(599)
    assert runner.rebuild(world.now) == 0
    world.pass_time(1)
    assert runner.rebuild(world.now) == 3
    world.run(runner)
    assert sorted(world.queued()) == [("1", 0), ("2", 0), ("3", 0)]


def test_rebuild_leaves_pending_tasks_alone(world: World) -> None:
    world.pending = {"1": PendingTask("1", {"key": "1", "last": 1}, world.now)}
    world.touch(delay=30, last=9)
    assert world.runner().rebuild(world.now) == 0
    assert world.run() == 30
    world.pass_time(30)
    world.run()
    assert world.queued() == [("1", 9)]


def test_updater_rebuilds_at_once_when_its_lease_was_lost_with_redis(world: World) -> None:
    updater = Updater(world.settings, world.client, world.services.pull, world.services.jobs)
    tasks = DelayedTasks(world.runner())
    world.pending = {"1": PendingTask("1", {"key": "1"}, world.now + dt.timedelta(seconds=60))}
    assert updater.renew_lease()
    assert tasks.run(updater.terms) == 60
    world.client.flushall()
    assert updater.renew_lease()
    assert tasks.run(updater.terms) == 60
    world.client.delete(*world.left())  # Redis lost these alone: the next rebuild finds it
    assert updater.renew_lease()
    assert tasks.run(updater.terms) == float("inf")


def test_database_that_does_not_answer_is_asked_again(world: World) -> None:
    def rebuild(_: dt.datetime) -> Iterator[PendingTask]:
        yield PendingTask("1", {"key": "1"}, world.now)
        if not asked:
            asked.append(True)
            raise StoreError

    asked: list[bool] = []
    kind = LaterKind(KIND, lambda args: Job(Task.ECHO, dict(args), Queue.MAINTENANCE), rebuild)
    runner = LaterRunner(world.later, world.services.jobs, world.services.mappers.dead_letters, [kind])
    with pytest.raises(StoreError):
        runner.rebuild(world.now)
    assert runner.rebuild(world.now) == 1


def test_more_tasks_than_one_batch_run_in_one_turn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later_module, "TASKS_MAX", 10)
    monkeypatch.setattr("app.services.later.BATCHES", 7)
    for number in range(100):
        world.touch(str(number), delay=0)
    runner = world.runner()
    assert world.run(runner) == 0  # more is due, after the updater's other work
    assert world.run(runner) is None
    assert len(world.queued()) == 100


class Chaos:
    """Three updaters that crash and freeze, and the touches that no run has followed yet."""

    def __init__(self, world: World, seed: int, stack: contextlib.ExitStack) -> None:
        self.rng, self._world = random.Random(seed), world
        self.waiting: set[str] = set()
        later = [stack.enter_context(contextlib.closing(RedisLater(world.settings))) for _ in range(3)]
        self._updaters = [(one, world.runner(one)) for one in later]
        self._frozen: list[tuple[RedisLater, LaterRunner, DueBatch, dict[bytes, float] | None]] = []

    def touch(self) -> None:
        key, delay, limit = (
            str(self.rng.randrange(12)),
            self.rng.choice([0, 3, 40]),
            self.rng.choice([20, 90]),
        )
        self._world.touch(key, delay=delay, limit=limit)
        self.waiting.add(key)

    def freeze(self) -> None:
        """Let an updater claim tasks, and stop before or after queueing their jobs."""
        later, runner = self.rng.choice(self._updaters)
        if isinstance(found := later.claim_due(self._world.now), DueBatch):
            is_queued = self.rng.random() < 0.5
            postponed = runner._queue(found.tasks, self._world.now) if is_queued else None
            self._frozen.append((later, runner, found, postponed))

    def thaw(self) -> None:
        """Let a frozen updater go on, perhaps long after its lock has expired."""
        if self._frozen:
            later, runner, batch, postponed = self._frozen.pop(self.rng.randrange(len(self._frozen)))
            if postponed is None:
                postponed = runner._queue(batch.tasks, self._world.now)
            later.finish(batch, postponed, self._world.now)

    def expire(self) -> None:
        for lock in self._world.client.scan_iter(redis_keys.LATER_LOCK + "*"):
            self._world.client.delete(lock)

    def run(self) -> None:
        self.rng.choice(self._updaters)[1].run_due(self._world.now)


@pytest.mark.parametrize("seed", range(4))
def test_each_touch_is_followed_by_a_run_whatever_happens(world: World, seed: int) -> None:
    with contextlib.ExitStack() as stack:
        chaos = Chaos(world, seed, stack)
        steps = [*[chaos.touch] * 5, *[chaos.run] * 2, *[chaos.freeze, chaos.thaw] * 2, chaos.expire]
        for step in [*chaos.rng.choices(steps, k=150), *[chaos.expire, chaos.run] * 40]:
            step()
            chaos.waiting -= {key for key, _ in world.queued()}
            assert chaos.waiting <= world.pending_keys()
            world.pass_time(chaos.rng.choice([0.1, 1, 7]))
    assert chaos.waiting == set()
    assert world.left() == set()


def test_real_updater_runs_delayed_tasks(
    settings: Settings, services: bootstrap.Services, redis_client: redis.Redis, eventually: Any
) -> None:
    with support.running("workers.updater.updater", settings, "updater"):
        services.later.touch("test.gone", "17", {"user_id": 17}, delay=0, limit=0)
        eventually(lambda: services.mappers.dead_letters.find_newest(1))


# -- what can't be queued


def _touch_unknown(world: World) -> None:
    world.later.touch("test.gone", "1", {"key": "1"}, delay=0, limit=0)


def _touch_drained(world: World) -> None:
    world.client.sadd(redis_keys.DRAINING, str(Queue.MAINTENANCE))
    world.touch(delay=0)


def _touch_without_argument(world: World) -> None:
    world.later.touch(KIND, "1", {}, delay=0, limit=0)


def _touch_too_long(world: World) -> None:
    world.touch(delay=0)
    shard = next(key for key in world.left() if ":args:" in key)
    world.client.hset(shard, f"{KIND}:1", '{"key": [' + ",".join(["1"] * 40_000) + "]}")


def _touch_unreadable(world: World) -> None:
    world.touch(delay=0)
    shard = next(key for key in world.left() if ":args:" in key)
    world.client.hset(shard, f"{KIND}:1", b'{"key": "\xff')


@pytest.mark.parametrize(
    ("touch", "error", "can_run"),
    [
        (_touch_unknown, "unknown_kind", True),
        (_touch_drained, "draining", True),
        (_touch_without_argument, "invalid", True),
        (_touch_too_long, "too_large", False),
        (_touch_unreadable, "invalid", False),
    ],
)
def test_task_that_can_not_be_queued_becomes_a_letter(
    world: World, touch: Callable[[World], None], error: str, can_run: bool
) -> None:
    touch(world)
    world.touch("2", delay=0)
    world.run()
    letters = world.services.mappers.dead_letters.find_newest(9)
    (letter,) = [one for one in letters if one.key == "1"]
    assert (letter.error, letter.args is not None, letter.at) == (error, can_run, world.now)
    assert world.left() == set()
    world.client.delete(redis_keys.DRAINING)
    assert world.queued() == ([] if error == "draining" else [("2", 0)])
    # The same task gets no second letter.
    touch(world)
    world.run()
    assert len(world.services.mappers.dead_letters.find_newest(9)) == len(letters)


def test_letters_that_can_not_be_stored_keep_their_tasks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> None:
        raise StoreError

    _touch_unknown(world)
    runner = world.runner()
    with monkeypatch.context() as patch:
        patch.setattr(world.services.mappers.dead_letters, "add_many", fail)
        with pytest.raises(StoreError):
            world.run(runner)
    world.pass_time(5)
    world.run(runner)
    assert [one.kind for one in world.services.mappers.dead_letters.find_newest(9)] == ["test.gone"]


@pytest.mark.parametrize(
    ("kind", "key", "args", "error"),
    [
        ("Not a kind", "1", {}, InvalidError),
        (KIND, "", {}, InvalidError),
        (KIND, "x" * 201, {}, InvalidError),
        (KIND, "1", {"text": "x" * 5000}, InvalidError),
        (KIND, "1", {"ids": list(range(20_000))}, TooLargeError),
    ],
)
def test_touch_refuses_what_is_no_job(
    world: World, kind: str, key: str, args: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        world.later.touch(kind, key, args, delay=1, limit=1)
    assert world.left() == set()


def test_missed_tasks_are_counted(world: World) -> None:
    world.touch("1", delay=0)
    world.pass_time(30)
    world.touch("2", delay=0)
    world.pass_time(40)
    world.run()
    assert len(world.queued()) == 2
    assert world.client.hget(redis_keys.TOTALS, redis_keys.LATER_MISSED) == b"1"


def test_without_redis_a_touch_says_so(world: World, tmp_path: Any) -> None:
    away = dataclasses.replace(world.settings, redis_url=f"unix://{tmp_path}/none.sock")
    with contextlib.closing(RedisLater(away)) as lost, pytest.raises(StoreError):
        lost.touch(KIND, "1", {}, delay=1, limit=1)


def _expire_locks(world: World) -> None:
    locks = list(world.client.scan_iter(redis_keys.LATER_LOCK + "*"))
    assert [0 < world.client.pttl(lock) <= later_module.LOCK_MS for lock in locks] == [True]
    world.client.delete(*locks)
