"""Updaters as real processes: killed, frozen, woken up as zombies; and a herd pulled by real workers."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime as dt
import json
import re
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import redis
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.config import Settings
from app.models.accounts.actor import Actor
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Queue
from tests.jobs import support
from tests.support.rawserver import RawServer, Reply, Request, file_reply
from tests.support.refusal import refusing

WAITING = redis_keys.make_queue_key(Queue.PULL_SYSTEM)
ITEM = b"<item><guid>g1</guid><title>One</title></item>"
RSS = b"<rss version='2.0'><channel><title>Blog</title>%s</channel></rss>" % ITEM
_SAID = re.compile(r"feeds_queued batches=\d+ feeds=(\d+)")


class Pair:
    """Two updaters, and feeds that become due."""

    def __init__(
        self, services: bootstrap.Services, db: Database[dict[str, Any]], client: redis.Redis, wait: Any
    ) -> None:
        self._services, self._db, self._client, self._wait = services, db, client, wait
        self._made = 0

    def feeds(self, count: int) -> None:
        """Let so many new feeds be due, each of a host of its own."""
        now = clock.now()
        for number in range(self._made, self._made + count):
            self._services.gateways.feeds.get_or_create(f"https://{number}.example/feed", now=now)
        self._made += count
        self._db.feeds.update_many({}, {"$set": {"subscribers": 1}})

    def queued(self) -> collections.Counter[int]:
        """How often each feed waits."""
        jobs: list[Any] = self._client.lrange(WAITING, 0, -1)
        data: list[Any] = [self._client.hget(redis_keys.make_job_key(job.decode()), "data") for job in jobs]
        return collections.Counter(i for text in data for i in support.feed_ids(text))

    def wait_for_all(self, timeout: float = 60) -> None:
        """Wait until all feeds are queued; never may one of them be queued twice."""
        self._wait(lambda: len(self.queued()) == self._made, timeout=timeout)
        assert max(self.queued().values()) == 1

    def wait_for_words(self, both: list[support.Process]) -> None:
        """Wait until the two have said what they queued: each says it when it is done."""
        self._wait(lambda: sum(int(n) for p in both for n in _SAID.findall(p.log.read_text())) == self._made)


@pytest.fixture
def pair(
    services: bootstrap.Services, db: Database[dict[str, Any]], redis_client: redis.Redis, eventually: Any
) -> Pair:
    return Pair(services, db, redis_client, eventually)


@contextlib.contextmanager
def _two(settings: Settings, client: redis.Redis, eventually: Any) -> Iterator[list[support.Process]]:
    """Two updaters that are ready."""
    with (
        support.running("workers.updater.updater", settings, "first") as first,
        support.running("workers.updater.updater", settings, "second") as second,
    ):
        eventually(lambda: _alive(client) == {first.pid, second.pid})
        yield [first, second]


def _alive(client: redis.Redis) -> set[int]:
    signs = [client.get(key) for key in client.scan_iter(redis_keys.make_alive_key("updater", "*"))]
    return {json.loads(sign)["pid"] for sign in signs if sign}


def _looks(process: support.Process) -> int:
    """How often this process has queued something."""
    return process.log.read_text().count("feeds_queued")


def test_a_standby_takes_over_from_a_killed_updater_in_fifteen_seconds(
    settings: Settings, pair: Pair, redis_client: redis.Redis, eventually: Any
) -> None:
    """With the settings as they come; as much again for a machine that stands still now and then."""
    assert settings.updater_lease + 2 <= 15
    pair.feeds(4)
    with _two(settings, redis_client, eventually) as both:
        pair.wait_for_all()
        pair.wait_for_words(both)
        holder, standby = sorted(both, key=_looks, reverse=True)
        assert _looks(standby) == 0
        assert holder.stop(signal.SIGKILL) == -signal.SIGKILL
        pair.feeds(4)
        pair.wait_for_all(30)
        pair.wait_for_words(both)
        assert _looks(standby) == 1
        assert standby.stop() == 0
    # Its sign and its lease are gone at once; those of the killed one run out.
    assert standby.pid not in _alive(redis_client)
    assert redis_client.get(redis_keys.UPDATER_LEASE) is None


def test_an_updater_says_why_redis_refuses_and_goes_on(
    settings: Settings, pair: Pair, redis_client: redis.Redis, eventually: Any
) -> None:
    with support.running("workers.updater.updater", settings, "updater") as updater:
        eventually(lambda: _alive(redis_client) == {updater.pid})
        with refusing(settings.redis_url):
            eventually(lambda: "store_silent error=MISCONF" in updater.log.read_text())
        pair.feeds(1)
        pair.wait_for_all()


def test_a_frozen_updater_wakes_up_as_a_zombie_and_queues_nothing(
    settings: Settings, pair: Pair, redis_client: redis.Redis, eventually: Any
) -> None:
    """Frozen wherever it happens to be, again and again; the two take turns.

    The lease runs out when the holder is frozen, and not before: where the machine stands still for as long
    as a short one, it is anybody's.
    """
    quick = dataclasses.replace(settings, updater_interval=0.1, updater_lease=600.0, pull_batch=200)
    pair.feeds(10)
    with _two(quick, redis_client, eventually) as both:
        pair.wait_for_all()
        pair.wait_for_words(both)
        holder, standby = sorted(both, key=_looks, reverse=True)
        for _ in range(6):
            before = _looks(holder)
            pair.feeds(10)
            holder.popen.send_signal(signal.SIGSTOP)
            frozen = psutil.Process(holder.pid)
            eventually(lambda p=frozen: p.status() == psutil.STATUS_STOPPED)
            redis_client.delete(redis_keys.UPDATER_LEASE)
            pair.wait_for_all()  # by the standby, or by the holder before it froze
            pair.feeds(3)
            pair.wait_for_all()
            token = redis_client.get(redis_keys.UPDATER_LEASE)
            holder.popen.send_signal(signal.SIGCONT)
            # It is awake when it signs again; it has tried to hold the lease then.
            redis_client.delete(*redis_client.scan_iter(redis_keys.make_alive_key("updater", "*")))
            eventually(lambda: _alive(redis_client) == {p.pid for p in both})
            pair.feeds(3)
            pair.wait_for_all()
            pair.wait_for_words(both)
            assert redis_client.get(redis_keys.UPDATER_LEASE) == token
            assert _looks(holder) <= before + 1
            holder, standby = standby, holder


def _server() -> RawServer:
    def slow(_: Request) -> Reply:
        return Reply(body=RSS, delay=1.0)

    hosts = tuple(f"127.0.1.{n}" for n in range(1, 31))
    server = RawServer(hosts=hosts, default=file_reply(RSS))
    for path in range(5):
        server.set(f"/slow/{path}", slow)
    return server


def test_a_herd_is_pulled_once_while_updaters_are_killed(
    settings: Settings,
    services: bootstrap.Services,
    db: Database[dict[str, Any]],
    redis_client: redis.Redis,
    eventually: Any,
) -> None:
    """605 feeds on thirty hosts are six hours late; a manager, a worker and two updaters, killed in turn."""
    # A worker that leaves asks anew what it had asked; here only the updaters end.
    table = settings.home / "queues.toml"
    table.write_text(table.read_text().replace("[feeds]\n", "[feeds]\nmax_jobs = 100000\n"))
    with _server() as server, contextlib.ExitStack() as stack:
        quick = dataclasses.replace(
            settings,
            fetch_allow=("127.0.0.0/8",),
            fetch_ports=(server.port,),
            updater_interval=0.5,
            updater_lease=1.0,
            pull_batch=20,
        )
        paths = [(f"/{n}", server.hosts[n % 30]) for n in range(600)]
        paths += [(f"/slow/{n}", server.hosts[0]) for n in range(5)]
        subscribe = services.subscriptions.subscribe
        ids = [subscribe(Actor(1), server.url(p, host)).subscription.feed_id for p, host in paths]
        redis_client.flushall()  # who subscribes has the feed pulled himself; here the updaters do it alone
        due = clock.now() - dt.timedelta(hours=6)
        db.feeds.update_many({}, {"$set": {"next_check_at": due}})

        stack.enter_context(support.running("queue_manager.main", quick, "manager"))
        updaters = [
            stack.enter_context(support.running("workers.updater.updater", quick, f"updater{n}"))
            for n in range(2)
        ]
        for number in range(3):
            share = len(ids) * (number + 1) // 5
            eventually(lambda share=share: _pulled(db) >= share)
            holder = max(updaters, key=_looks)
            holder.stop(signal.SIGKILL)
            updaters.remove(holder)
            name = f"updater{number + 2}"
            updaters.append(stack.enter_context(support.running("workers.updater.updater", quick, name)))
        eventually(lambda: _pulled(db) == len(ids))
        # Nobody was asked twice: no feed was in two batches, whoever queued it.
        asked = collections.Counter((r.path, r.headers["host"]) for r in server.requests)
        assert {what: times for what, times in asked.items() if times > 1} == {}
        assert len(asked) == len(ids)
        eventually(lambda: redis_client.hget(redis_keys.UPDATER_STATS, "backlog") == b"0")


def _pulled(db: Database[dict[str, Any]]) -> int:
    return db.feeds.count_documents({"checked_at": {"$ne": None}})
