"""F08, F13, F16–F18: processes freeze, feeds drag and fail, work comes twice or all at once."""

from __future__ import annotations

import datetime as dt
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from app import clock
from app.gateways.digest import crashed
from app.models import keys
from app.models.jobs import Job, Queue, Task, Ticket
from tests.faults.system import CONNECTIONS, PER_HOST, SYSTEM_SLOTS, System
from tests.jobs import support
from tests.support.rawserver import Reply
from workers import endings

pytestmark = pytest.mark.timeout(3000)

RSS = b"<rss version='2.0'><channel><title>%s</title><item><guid>1</guid></item></channel></rss>"


def test_F08_a_frozen_worker_is_replaced_and_a_zombie_changes_nothing(system: System, scale: int) -> None:
    jobs = system.services.jobs
    for n in range(scale):
        start = 3_000_000 + 1000 * n
        tickets = jobs.enqueue_many(support.effects(24, seconds=0.5, start=start))
        _freeze_one(system)
        ends = {o.id: o.error for o in jobs.await_many(tickets, 120)}
        assert ends == {ticket.id: None for ticket in tickets}
    _zombie_worker(system)
    _zombie_writer(system)


def _freeze_one(system: System) -> None:
    """SIGSTOP the worker that holds most, as a frozen host would; its manager ends it and others go on."""
    system.wait(lambda: [*system.client.scan_iter(keys.INFLIGHT + "*")], "somebody has begun")
    victims = system.workers()
    for pid in victims:
        os.kill(pid, signal.SIGSTOP)
    system.wait(lambda: not [pid for pid in victims if support.is_alive(pid)], "the frozen are replaced")


def _zombie_worker(system: System) -> None:
    """A worker of a manager that nobody knows is swept; what it ends after that is refused."""
    queue, own = Queue.MAINTENANCE, "zombies"
    system.client.sadd(keys.PAUSED, str(queue))
    ticket = system.services.jobs.enqueue(Job(Task.ECHO, {"zombie": system.seed}, queue))
    # Into a queue that no running worker serves: else one of them may be faster than the zombie.
    assert system.client.lmove(keys.queue(queue), keys.queue(own)) == ticket.id.encode()
    zombie = support.desk(system.client, system.settings, "zombie")
    zombie.serve([own])
    held = zombie.take(8, {}, ())
    assert [job.id for job in held] == [ticket.id]
    system.client.srem(keys.PAUSED, str(queue))
    ends = list(system.services.jobs.await_many([ticket], 120))
    assert [end.error for end in ends] == [None]
    late = [endings.finished(job, {"late": True}, system.settings) for job in held]
    assert zombie.finish(late) == [False]
    assert [end.value for end in system.services.jobs.await_many([ticket], 0)] == [{"zombie": system.seed}]


def _zombie_writer(system: System) -> None:
    """Who claimed a feed and woke up after another had taken it over writes nothing into it."""
    (url,) = system.farm.corpus(1)
    (feed_id,) = system.subscribe(system.user(), [url])
    system.wait(lambda: system.stored([url]), "the feed is there")
    now = clock.now()
    zombie = _claim(system, feed_id, "zombie", now - dt.timedelta(seconds=60))
    _claim(system, feed_id, "heir", now + dt.timedelta(seconds=600))
    feeds = system.services.gateways.feeds
    assert [result.stored for result in feeds.store([crashed(zombie, now, 60)], now)] == [False]
    assert feeds.get(feed_id).error is None
    feeds.release("heir", [feed_id])


def _claim(system: System, feed_id: int, token: str, until: dt.datetime) -> Any:
    """Claim a feed as soon as the workers, which poll it as well, leave it free."""
    got: list[Any] = []

    def claimed() -> bool:
        got[:] = system.services.gateways.feeds.claim([feed_id], token, until, 1)
        return bool(got)

    system.wait(claimed, f"{token} has the feed")
    return got[0]


def test_F13_slow_feeds_hold_nobody_up(system: System, scale: int) -> None:
    """More feeds of a byte a second wait, all the time, than the system has slots for."""
    server, slow = system.farm.server, _Slow(system)
    with system.one_worker():
        slow.refill()
        system.wait(lambda: server.most("slow") == SYSTEM_SLOTS, "the system's slots are full")
        good = system.farm.corpus(10 * scale)
        system.subscribe(system.user(), good)
        # None of the slots stays empty before these are read, so they get theirs beside the slow ones.
        system.wait(lambda: slow.refill() and system.stored(good), "people's feeds are read")
        system.wait(slow.ended, "the slow end as well")
        assert slow.errors() == {"timeout"}
        assert server.most("slow") == SYSTEM_SLOTS


class _Slow:
    """Feeds that end by the fetch's own timeout only; none of them is ever fetched twice."""

    def __init__(self, system: System) -> None:
        self._system, self._server = system, system.farm.server
        # Another range of addresses than the other feeds, so that the farm never uses these.
        self._hosts = iter([f"127.200.{n // 250}.{n % 250 + 1}" for n in range(10_000)])
        self._server.watch("slow", [f"127.200.{n // 250}.{n % 250 + 1}" for n in range(10_000)])
        self._server.set("/drip", Reply(body=RSS % b"slow", drip=(1, 1.0)))
        self._ids: list[int] = []
        self._tickets: set[str] = set()

    def refill(self) -> bool:
        """Let twice as many wait as there are slots; returns True."""
        waiting = _waiting(self._system)
        for _ in range(2 * SYSTEM_SLOTS - waiting):
            url = self._server.url("/drip", next(self._hosts))
            feed_id = self._system.services.gateways.feeds.get_or_create(url, now=clock.now()).id
            job = Job(Task.PULL_SYSTEM, {"feed_ids": [feed_id]}, Queue.PULL_SYSTEM)
            self._tickets.add(self._system.services.jobs.enqueue(job).id)
            self._ids.append(feed_id)
        return True

    def ended(self) -> bool:
        rows: list[Any] = self._system.client.xrange(keys.EVENTS)  # type: ignore[assignment]
        ends = (b"finished", b"failed")
        return self._tickets <= {row[b"id"].decode() for _, row in rows if row[b"kind"] in ends}

    def errors(self) -> set[str | None]:
        return {self._system.services.gateways.feeds.get(feed_id).error for feed_id in self._ids}


def _waiting(system: System) -> int:
    """Return how many jobs of the system wait."""
    return int(system.client.llen(keys.queue(Queue.PULL_SYSTEM)))


def test_F13_one_host_sees_two_connections_at_most(system: System, scale: int) -> None:
    """A batch full of one host's feeds, as the updater makes them; the host is slow to answer."""
    services, server, host = system.services, system.farm.server, "127.201.0.1"
    server.watch("crowd", [host])
    paths = [f"/crowd/{system.checked}/{n}" for n in range(8)]
    for path in paths:
        server.set(path, Reply(body=RSS % b"crowd", close=True, delay=0.5))
    urls = [server.url(path, host) for path in paths]
    ids = [services.gateways.feeds.get_or_create(url, now=clock.now()).id for url in urls]
    ticket = services.jobs.enqueue(Job(Task.PULL_SYSTEM, {"feed_ids": ids}, Queue.PULL_SYSTEM))
    assert [end.error for end in services.jobs.await_many([ticket], 60)] == [None]
    assert {services.gateways.feeds.get(feed_id).error for feed_id in ids} == {None}
    assert [len(server.seen(path)) for path in paths] == [1] * len(paths)
    assert server.most("crowd") == PER_HOST


def test_F16_what_comes_fifty_times_is_done_once(system: System, scale: int) -> None:
    jobs = system.services.jobs
    start = 4_000_000
    for n in range(scale):
        (job,) = support.effects(1, seconds=0.5, start=start + n)
        with ThreadPoolExecutor(10) as crowd:
            tickets = list(crowd.map(lambda _, job=job: jobs.enqueue(job), range(50)))
        assert {ticket.id for ticket in tickets} == {tickets[0].id}
        assert sum(ticket.fresh for ticket in tickets) == 1
        system.client.rpush(keys.queue(Queue.PULL), *[tickets[0].id] * 50)
        assert [o.error for o in jobs.await_many(tickets, 60)] == [None]
    system.wait(lambda: not system.client.llen(keys.queue(Queue.PULL)), "the copies are dropped")
    done = [key for key, _ in support.traces(system.client) if start <= key < start + scale]
    assert sorted(done) == list(range(start, start + scale))
    # The same feed pulled by many at once, under many tokens: each entry is there once (R02, R03).
    urls = system.farm.corpus(2)
    feed_ids = system.subscribe(system.user(), urls)
    pulls = [Job(Task.PULL, {"feed_ids": [*feed_ids, -n]}, Queue.PULL) for n in range(20)]
    assert {o.error for o in jobs.await_many(jobs.enqueue_many(pulls), 60)} == {None}


def test_F17_everything_due_at_once_after_a_fall_of_everything(system: System, scale: int) -> None:
    # Slow enough that all that are asked at once are seen at once.
    server, urls = system.farm.server, system.farm.growing(40 * scale, delay=0.3)
    server.watch("herd", [str(urlsplit(url).hostname) for url in urls])
    feed_ids = system.subscribe(system.user(), urls)
    with system.one_worker():
        system.client.sadd(keys.PAUSED, str(Queue.MAINTENANCE))  # it is for those that come
        old = _old_job(system)
        system.kill_everything_below()
        system.client.srem(keys.PAUSED, str(Queue.MAINTENANCE))
        due = clock.now() - dt.timedelta(hours=6)
        server.forget("herd")
        system.db.feeds.update_many({"_id": {"$in": feed_ids}}, {"$set": {"next_check_at": due}})
        polled = {"_id": {"$in": feed_ids}, "checked_at": {"$gt": due}, "next_check_at": {"$gt": due}}
        system.wait(lambda: system.db.feeds.count_documents(polled) == len(urls), "the herd is worked off")
        # As many as may, and none more.
        system.wait(lambda: server.most("herd") >= CONNECTIONS, "all connections were used")
        assert server.most("herd") == CONNECTIONS
        assert [o.error for o in system.services.jobs.await_many([old], 60)] == [None]


def _old_job(system: System) -> Ticket:
    """Queue a job as the first version wrote it: without what later versions added to its record."""
    ticket = system.services.jobs.enqueue(Job(Task.ECHO, {"old": system.seed}, Queue.MAINTENANCE))
    known = {b"status", b"since", b"data", b"origin", b"created_at", b"enqueued_at", b"timeout"}
    names: list[Any] = system.client.hkeys(keys.job(ticket.id))
    system.client.hdel(keys.job(ticket.id), *(name for name in names if name not in known))
    return ticket


def test_F18_feeds_that_fail_all_together_are_back_when_they_answer(system: System, scale: int) -> None:
    reader = system.user()
    count = 20 * scale
    names = [f"/sick/{system.checked}-{n}" for n in range(count)]
    urls = [system.farm.scripted(name, Reply(body=RSS % b"well", close=True)) for name in names]
    feed_ids = system.subscribe(reader, urls)
    feeds = system.services.gateways.feeds
    system.wait(lambda: all(feeds.get(f).last_seq == 1 for f in feed_ids), "all are read once")
    sick = [Reply(status=503, close=True), Reply(status=429, headers=(("Retry-After", "2"),), close=True)]
    sick += [Reply(status=500, close=True), Reply(reset=True)]
    for n, name in enumerate(names):
        system.farm.server.set(name, sick[n % len(sick)])
    system.wait(lambda: all(feeds.get(f).error for f in feed_ids), "all have an error")
    assert all(feeds.get(f).next_check_at for f in feed_ids), "none is given up"
    for name in names:
        system.farm.server.set(name, Reply(body=RSS % b"well again", close=True))
    system.wait(lambda: not any(feeds.get(f).error for f in feed_ids), "all are well again")
