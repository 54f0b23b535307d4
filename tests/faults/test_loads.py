"""F13, F17, F18: feeds drag and fail, everything is due at once."""

from __future__ import annotations

import datetime as dt
from typing import Any
from urllib.parse import urlsplit

import pytest

from app import clock
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task, Ticket
from tests.faults.system import CONNECTIONS, PER_HOST, SYSTEM_SLOTS, System
from tests.support.rawserver import Reply

pytestmark = pytest.mark.timeout(3000)

RSS = b"<rss version='2.0'><channel><title>%s</title><item><guid>1</guid></item></channel></rss>"


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
        rows: list[Any] = self._system.client.xrange(redis_keys.EVENTS)  # type: ignore[assignment]
        ends = (b"finished", b"failed")
        return self._tickets <= {row[b"id"].decode() for _, row in rows if row[b"kind"] in ends}

    def errors(self) -> set[str | None]:
        return {self._system.services.gateways.feeds.get(feed_id).error for feed_id in self._ids}


def _waiting(system: System) -> int:
    """Return how many jobs of the system wait."""
    return int(system.client.llen(redis_keys.make_queue_key(Queue.PULL_SYSTEM)))


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


def test_F17_everything_due_at_once_after_a_fall_of_everything(system: System, scale: int) -> None:
    # Slow enough that all that are asked at once are seen at once.
    server, urls = system.farm.server, system.farm.growing(40 * scale, delay=0.3)
    server.watch("herd", [str(urlsplit(url).hostname) for url in urls])
    # Icons come over connections of their own.
    with system.paused(Queue.PICTURES, Queue.PICTURES_SYSTEM), system.one_worker():
        feed_ids = system.subscribe(system.user(), urls)
        with system.paused(Queue.MAINTENANCE):  # it is for those that come
            old = _old_job(system)
            system.wait_written()
            system.kill_everything_below()
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
    names: list[Any] = system.client.hkeys(redis_keys.make_job_key(ticket.id))
    system.client.hdel(redis_keys.make_job_key(ticket.id), *(name for name in names if name not in known))
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
