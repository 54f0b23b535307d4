"""The updater: queues what is due, once, keeps the queue short, and hands over; on MongoDB and Redis."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
import redis
from pymongo.database import Database

from app import clock
from app.adapters.redis.jobs import RedisJobs, hash_job
from app.bootstrap import services as bootstrap
from app.config import Settings
from app.gateways.privacy.erasure import STRAGGLERS
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from queue_manager.dead import DeadJobs
from tests.jobs import support
from tests.support.reader import PASSWORD, add_user, follow
from workers import outcome, registry
from workers.outcome import BadJobError, ProgressReport
from workers.queue_client import QueueClient
from workers.updater.lease import Lease
from workers.updater.updater import Updater, UpdaterStats, queue_due_work

WAITING = redis_keys.make_queue_key(Queue.PULL_SYSTEM)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    # While nothing is known of the workers' pace, four batches may wait: sixteen feeds. The lease runs out
    # where a test says so, and not where the machine is slow.
    return dataclasses.replace(settings, pull_batch=4, updater_interval=0.2, updater_lease=600.0)


class World:
    """Feeds, updaters and a worker's desk."""

    def __init__(
        self,
        settings: Settings,
        services: bootstrap.Services,
        db: Database[dict[str, Any]],
        client: redis.Redis,
    ) -> None:
        self.settings, self.services, self.client, self._db = settings, services, client, db
        self.now = 0.0
        self.desk: QueueClient = support.desk(client, settings)

    def feeds(self, start: int, end: int, *, host: str = "") -> set[int]:
        """Make feeds that are due, each of a host of its own or all of one."""
        find = self.services.gateways.feeds.get_or_create
        moment = clock.now() - dt.timedelta(hours=1)
        made = {find(f"https://{host or n}.example/{n}", now=moment).id for n in range(start, end)}
        self._db.feeds.update_many({}, {"$set": {"subscribers": 1}})
        return made

    def pulled(self, ids: set[int]) -> None:
        """Let these feeds be pulled: they are not due any more."""
        later = clock.now() + dt.timedelta(hours=1)
        self._db.feeds.update_many({"_id": {"$in": list(ids)}}, {"$set": {"next_check_at": later}})

    def updater(self) -> Updater:
        services = self.services
        return Updater(self.settings, self.client, services.pull, services.jobs, timer=lambda: self.now)

    def take(self, most: int = 100) -> list[Any]:
        return self.desk.claim_jobs(most, {}, ())

    def finish(self, jobs: list[Any]) -> None:
        self.desk.finish([outcome.finish_job(job, None, self.settings) for job in jobs])

    def queued(self) -> collections.Counter[int]:
        """How often each feed is in a job that has not ended."""
        found: collections.Counter[int] = collections.Counter()
        with contextlib.closing(RedisJobs(self.settings)) as jobs:
            for key in self.client.scan_iter(redis_keys.JOB + "*"):
                if jobs.get_status(key.decode().removeprefix(redis_keys.JOB)).state in ("queued", "started"):
                    data: Any = self.client.hget(key, "data")
                    found.update(support.feed_ids(data))
        return found

    def stats(self) -> dict[str, float]:
        rows: Any = self.client.hgetall(redis_keys.UPDATER_STATS)
        return {name.decode(): float(value) for name, value in rows.items()}


@pytest.fixture
def world(
    settings: Settings,
    services: bootstrap.Services,
    db: Database[dict[str, Any]],
    redis_client: redis.Redis,
) -> World:
    return World(settings, services, db, redis_client)


def _look(updater: Updater) -> UpdaterStats:
    sight = updater.queue_due_feeds()
    assert sight is not None
    return sight


def test_due_feeds_are_queued_once_while_they_are_in_hand(world: World) -> None:
    ids, updater = world.feeds(0, 10), world.updater()
    assert _look(updater).queued == 10
    taken = world.take()
    assert sorted(i for job in taken for i in job.args["feed_ids"]) == sorted(ids)
    assert {job.task for job in taken} == {Task.PULL_SYSTEM}
    assert len(taken) == 3
    # Nothing waits, all is being pulled: the same feeds are not queued again …
    assert _look(updater).queued == 0
    world.finish(taken)
    # … until their jobs have ended, and they are due still.
    assert _look(updater).queued == 10


def test_the_queue_is_kept_short(world: World) -> None:
    world.feeds(0, 60)
    updater = world.updater()
    assert _look(updater).queued == 16
    assert _look(updater).queued == 0
    assert world.client.llen(WAITING) == 4
    world.take(1)
    assert _look(updater).queued == 0  # more than half of it waits still
    world.take(1)
    assert _look(updater).queued == 8
    assert max(world.queued().values()) == 1


def test_the_queue_holds_as_much_as_the_workers_manage_in_a_minute(world: World) -> None:
    world.feeds(0, 400)
    updater = world.updater()
    _look(updater)
    for _ in range(12):  # four feeds each two seconds
        world.now += 2
        taken = world.take(1)
        world.pulled({i for job in taken for i in job.args["feed_ids"]})
        world.finish(taken)
        sight = _look(updater)
    assert sight.pace == pytest.approx(2, rel=0.2)
    assert sight.waiting == pytest.approx(120, abs=30)
    assert sight.queued_s <= 120
    # Half-way through a batch its progress counts, before it ends.
    batch = world.take(1)
    world.desk.report([ProgressReport(batch[0], {"feeds": 2, "skipped": 1, "put_off": 1})])
    world.now += 2
    before = sight.pace
    assert _look(updater).pace == pytest.approx(before, rel=0.1)


def test_a_dead_batch_that_is_tried_again_brings_no_feed_into_two_batches(world: World) -> None:
    ids, updater = world.feeds(0, 6), world.updater()
    _look(updater)
    dead, *_ = world.take()
    world.desk.finish([outcome.fail_job(dead, BadJobError("bad_result", "no good"), world.settings)])
    # Other feeds have become due, so that the new batches are others, under other ids.
    ids |= world.feeds(6, 9)
    _look(updater)
    queued = world.queued()
    assert set(dead.args["feed_ids"]) < set(queued)
    assert support.linked(world.settings, lambda link: DeadJobs(link.client).retry_dead(dead.id)) == 1
    assert world.queued() == queued
    assert max(queued.values()) == 1
    assert world.client.zcard(redis_keys.DEAD) == 0
    assert not world.client.exists(redis_keys.make_job_key(dead.id))
    # The next look queues nothing twice either, and nothing is lost: all that is due is in hand.
    _look(updater)
    assert max(world.queued().values()) == 1


def test_only_the_holder_of_the_lease_queues(world: World) -> None:
    world.feeds(0, 4)
    updater = world.updater()
    other = Lease(world.client, redis_keys.UPDATER_LEASE, 60)
    assert other.acquire()
    assert updater.queue_due_feeds() is None
    assert not updater.renew_lease()
    other.release()
    assert _look(updater).queued == 4
    assert not other.acquire()
    other.release()  # of a lease that is somebody else's: nothing happens
    assert updater.renew_lease()


def test_the_next_updater_knows_what_the_last_one_queued(world: World) -> None:
    """Other feeds have become due, so its batches would be others, under other ids."""
    world.feeds(0, 6)
    _look(world.updater())
    running = world.take(1)
    world.client.delete(redis_keys.UPDATER_LEASE)  # it was killed, and its lease ran out
    world.feeds(6, 10)
    second = world.updater()
    assert _look(second).queued == 4
    assert len(world.queued()) == 10
    assert max(world.queued().values()) == 1
    # What ended before anybody looked is let go.
    world.finish(running)
    world.client.delete(redis_keys.UPDATER_LEASE)
    third = world.updater()
    assert _look(third).queued == len(running[0].args["feed_ids"])
    assert max(world.queued().values()) == 1


def _pass_on(world: World, ids: set[int]) -> Callable[[], None]:
    """The lease runs out, and another updater does all that there is to do."""

    def pass_on() -> None:
        world.client.delete(redis_keys.UPDATER_LEASE)
        assert _look(world.updater()).queued == len(ids)

    return pass_on


def test_an_updater_that_lost_its_lease_while_it_looked_queues_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = world.feeds(0, 8)
    zombie = world.updater()
    _freeze(monkeypatch, world.services.pull, "find_due", _pass_on(world, ids))
    assert zombie.queue_due_feeds() is None
    assert world.queued() == collections.Counter(ids)


def test_a_zombie_queues_nothing_even_between_its_last_check_and_its_writing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = world.feeds(0, 8)
    zombie = world.updater()
    before = world.client.llen(WAITING)
    _freeze(monkeypatch, world.services.jobs, "enqueue_in", _pass_on(world, ids))
    assert zombie.queue_due_feeds() is None
    assert world.queued() == collections.Counter(ids)
    assert before == 0
    # Nor does it let go of what the other one has in hand.
    world.finish(world.take())
    assert zombie.queue_due_feeds() is None
    assert world.client.hlen(redis_keys.UPDATER_HAND) == 2


def _freeze(monkeypatch: pytest.MonkeyPatch, part: Any, name: str, meanwhile: Callable[[], None]) -> None:
    """Let something happen in the middle of the next call of a method."""
    real = getattr(part, name)

    def frozen(*args: Any) -> Any:
        monkeypatch.setattr(part, name, real)
        meanwhile()
        return real(*args)

    monkeypatch.setattr(part, name, frozen)


def test_a_lease_that_ran_out_and_was_taken_by_nobody_voids_the_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.feeds(0, 4)
    updater = world.updater()

    def expire() -> None:
        world.client.delete(redis_keys.UPDATER_LEASE)

    _freeze(monkeypatch, world.services.pull, "find_due", expire)
    assert updater.queue_due_feeds() is None
    assert not world.queued()
    assert _look(updater).queued == 4


def test_the_feeds_of_a_batch_that_was_taken_apart_stay_in_hand(world: World) -> None:
    ids, updater = world.feeds(0, 4), world.updater()
    _look(updater)
    (batch,) = world.take()
    # As workers.middleware.split does after a crash: parts first, then the batch ends.
    parts = [Job(Task.PULL_SYSTEM, {"feed_ids": [i]}, Queue.SUSPECTS) for i in sorted(ids)]
    world.client.hset(redis_keys.make_job_key(batch.id), "crashes", 1)
    tickets = world.services.jobs.enqueue_many(parts)
    world.finish([batch])
    assert _look(updater).queued == 0
    assert world.queued() == collections.Counter(ids)
    # The next updater knows of them too, even when the batch's own record is gone …
    world.client.delete(redis_keys.UPDATER_LEASE, redis_keys.make_job_key(batch.id))
    second = world.updater()
    assert _look(second).queued == 0
    # … and each is free when its part has ended.
    done = world.take(1)
    world.finish(done)
    assert _look(second).queued == 1
    assert {ticket.id for ticket in tickets} >= {job.id for job in done}
    assert max(world.queued().values()) == 1


def test_a_batch_whose_record_vanished_may_have_been_taken_apart(world: World) -> None:
    world.feeds(0, 4)
    _look(world.updater())
    (batch,) = world.take()
    parts = [Job(Task.PULL_SYSTEM, {"feed_ids": [i]}, Queue.SUSPECTS) for i in batch.args["feed_ids"]]
    world.services.jobs.enqueue_many(parts)
    world.finish([batch])
    world.client.delete(redis_keys.make_job_key(batch.id), redis_keys.UPDATER_LEASE)
    assert _look(world.updater()).queued == 0


def test_after_redis_was_emptied_everything_due_is_queued_again(world: World) -> None:
    ids, updater = world.feeds(0, 8), world.updater()
    _look(updater)
    world.client.flushall()
    assert _look(updater).queued == 8
    assert world.queued() == collections.Counter(ids)


def test_a_queue_that_is_drained_gets_nothing(world: World) -> None:
    world.feeds(0, 8)
    updater = world.updater()
    world.client.sadd(redis_keys.DRAINING, Queue.PULL_SYSTEM)
    assert [_look(updater).queued for _ in range(3)] == [0, 0, 0]
    assert not world.queued()
    world.client.srem(redis_keys.DRAINING, Queue.PULL_SYSTEM)
    assert _look(updater).queued == 8


def test_a_drained_queue_keeps_no_other_work_back(world: World) -> None:
    services, opml = world.services, b"<opml><body><outline xmlUrl='https://a.example/f'/></body></opml>"
    ann = add_user(services, "ann")
    follow(services, ann, ["feeds/rss/zerokspot.com-71d236.xml"])  # news for the search
    found = services.imports.preview(ann, opml, "a.opml")
    services.imports.choose_all(ann, found.id, True)
    services.imports.start(ann, found.id)
    world.client.flushall()
    world.client.sadd(redis_keys.DRAINING, Queue.IMPORT)
    queue_due_work(services)
    assert not world.client.exists(redis_keys.make_queue_key(Queue.IMPORT))
    assert world.client.llen(redis_keys.make_queue_key(Queue.INDEX)) == 1


def test_a_drained_queue_costs_no_report(world: World) -> None:
    reporting, now = dataclasses.replace(world.settings, report_urls="json://127.0.0.1:1/"), clock.now()
    with contextlib.closing(bootstrap.build(reporting)) as services, clock.set_source(lambda: now):
        world.client.sadd(redis_keys.DRAINING, Queue.MAINTENANCE)
        queue_due_work(services)
        world.client.srem(redis_keys.DRAINING, Queue.MAINTENANCE)
        assert not world.client.exists(redis_keys.make_queue_key(Queue.MAINTENANCE))
        queue_due_work(services)
        queue_due_work(services)
    assert world.client.llen(redis_keys.make_queue_key(Queue.MAINTENANCE)) == 1


def test_an_account_that_goes_is_deleted_though_its_job_was_lost(world: World) -> None:
    services = world.services
    ann = add_user(services, "ann")
    services.accounts.delete_account(ann, PASSWORD)
    world.client.flushall()
    later = clock.now() + STRAGGLERS
    with clock.set_source(lambda: later):
        queue_due_work(services)
        queue_due_work(services)
    queued = world.client.lrange(redis_keys.make_queue_key(Queue.MAINTENANCE), 0, -1)
    # Other maintenance is due as well.
    assert queued.count(hash_job(Task.ERASE, {"user_id": ann.user_id}).encode()) == 1
    registry.load_tasks()
    spec = registry.find_task(Task.ERASE)
    assert spec is not None
    assert spec.mode == "solo"


def test_what_it_saw_is_in_redis(world: World) -> None:
    world.feeds(0, 40)
    updater = world.updater()
    sight = _look(updater)
    assert (sight.queued, sight.backlog, sight.waiting, sight.running) == (16, 24, 16, 0)
    assert 3600 <= sight.late_s < 4000
    assert world.stats() == {k: pytest.approx(v) for k, v in dataclasses.asdict(sight).items()}
    ms: Any = world.client.pttl(redis_keys.UPDATER_STATS)
    assert 0 < ms <= redis_keys.ALIVE_SECONDS * 1000
    world.take(2)
    assert _look(updater).backlog == 16
    # Nobody may take the figures of one who does nothing for those of the holder.
    standby = world.updater()
    before = world.stats()
    assert standby.queue_due_feeds() is None
    assert world.stats() == before


def test_a_host_with_many_feeds_hides_nobody(world: World) -> None:
    crowd = world.feeds(0, 120, host="big")
    others = world.feeds(120, 130)
    updater, seen = world.updater(), set[int]()
    for _ in range(6):
        world.now += 1
        _look(updater)
        taken = world.take()
        ids = {i for job in taken for i in job.args["feed_ids"]}
        seen |= ids
        world.pulled(ids)
        world.finish(taken)
    assert others <= seen
    assert seen & crowd
    # What was put off has not been asked, nor lost: it is due a little later, one after the other.
    times = [world.services.gateways.feeds.get(i).next_check_at for i in crowd - seen]
    assert len(set(times)) > len(times) / 2


def test_waiting_pulls_of_people_do_not_count(world: World) -> None:
    world.feeds(0, 4)
    world.services.jobs.enqueue_many([Job(Task.PULL, {"feed_ids": [n]}, Queue.PULL) for n in range(50)])
    assert _look(world.updater()).queued == 4


def test_what_redis_refused_is_queued_later(world: World) -> None:
    ids, updater = world.feeds(0, 8), world.updater()
    _look(updater)
    world.pulled(ids)
    world.feeds(8, 12)
    world.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis.RedisError):
            updater.queue_due_feeds()
    finally:
        world.client.config_set("maxmemory", 0)
    assert _look(updater).queued == 4
    assert max(world.queued().values()) == 1
