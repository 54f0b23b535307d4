"""The updater: asks which feeds are due and queues their pulls. One per system by a lease, others stand by.

It keeps no truth: due feeds come from MongoDB, what it has in hand is in Redis beside the jobs. So an
emptied Redis or a new updater goes on where the last one was. What it decides is in
``workers.updater.batching``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app import clock, logs
from app.adapters.redis.jobs import RedisJobs
from app.bootstrap import services as bootstrap
from app.config import Settings
from app.errors import DrainingError, StoreError
from app.models.feeds.feed import DueFeed
from app.models.feeds.hosts import HostRates
from app.models.jobs import redis_keys
from app.runtime.redis_errors import OUTAGE, word
from workers.updater import admin_port, batching
from workers.updater.batching import Choice, Host, Look, Pace
from workers.updater.in_flight import Count, Hand, pull_of
from workers.updater.lease import Held, Lease, LostLeaseError
from workers.wakeup import Bell

_log = logs.get(__name__)

#: A standby tries so often to take over, and a holder with a backlog looks so often, seconds.
TICK = 1.0
#: Feeds read beyond those there is room for, as a multiple of these and in number at most: popular ones and
#: other hosts are chosen from them.
_BEYOND, _BEYOND_MOST = 2, 2000
#: Hubs asked, feeds pulled for pushes, callbacks asked by our own hub and streams pushed by it, per look.
HUBS_AT_ONCE = 100
#: A longer backlog is counted each ten seconds, and not beyond this.
_COUNT_EVERY, _COUNT_MOST = 10.0, 100_000
_REPORT_EVERY = 60.0


class Pulls(Protocol):
    """Where due feeds come from; ``app.services.feeds.pull.PullService``. All raise StoreError."""

    def due(self, now: dt.datetime, limit: int) -> list[DueFeed]: ...
    def count_due(self, now: dt.datetime, most: int) -> int: ...
    def batches(self, feeds: Sequence[DueFeed]) -> list[list[int]]: ...
    def put_off(self, later: Mapping[int, float], now: dt.datetime) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Sight:
    """What a look saw and did; its fields are those of the hash ``eventr:updater:stats``.

    Attributes:
        backlog: feeds that are due and not queued.
        late_s: how long the longest due feed has been due, queued or not.
        waiting, running: feeds in jobs that no worker has, or that one has.
        pace: feeds per second that the workers manage, 0 while nothing is known.
        queued_s: seconds of work that wait.
        queued, put_off: feeds queued and put off by this look.
    """

    backlog: int = 0
    late_s: float = 0.0
    waiting: int = 0
    running: int = 0
    pace: float = 0.0
    queued_s: float = 0.0
    queued: int = 0
    put_off: int = 0

    def to_hash(self) -> dict[str, str]:
        """Return the fields as Redis keeps them."""
        return {name: f"{value:.10g}" for name, value in dataclasses.asdict(self).items()}


class Updater:
    """Queues due feeds while it holds the lease. One call at a time.

    All methods raise StoreError or a redis.RedisError when a store does not answer or does not write, and
    can be repeated.
    """

    def __init__(
        self,
        settings: Settings,
        client: redis.Redis,
        pulls: Pulls,
        jobs: RedisJobs,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._pulls, self._jobs, self._timer = settings, pulls, jobs, timer
        self._lease = Lease(client, redis_keys.UPDATER_LEASE, settings.updater_lease)
        self._hand = Hand(client)
        self._rates = HostRates.of(settings)
        self._least = batching.host_share(
            settings.job_timeout, settings.fetch_total_timeout, settings.fetch_per_host
        )
        self._known = False  # whether the hand is what Redis says
        #: Whether it held the lease when it looked last.
        self.holds = False
        self._forget()

    def _forget(self) -> None:
        self._pace = Pace()
        self._hosts: dict[str, Host] = {}
        self._looked = self._counted = self._timer()
        self._backlog = 0

    def look(self) -> Sight | None:
        """Queue what is due, as long as not too much waits already; None: another updater does."""
        try:
            return self._look() if self._held() else None
        except LostLeaseError:
            # It took so long that another one took over: he decides anew.
            _log.warning("lease_lost")
            self._known = False
            return None
        except BaseException:
            self._known = False  # what was sent may have had its effect
            raise

    def hold(self) -> bool:
        """Take or renew the lease between two looks."""
        return self._held()

    def release(self) -> None:
        """Hand over to the standby."""
        self._lease.release()

    def _held(self) -> bool:
        held = self._lease.hold()
        if held is not Held.STILL:
            self._known = False
        self.holds = bool(held)
        return self.holds

    def _look(self) -> Sight:
        if not self._known:
            self._hand.load()
            self._hand.count()  # what others saw done says nothing about the pace since then
            self._forget()
        elapsed = self._timer() - self._looked
        self._looked += elapsed
        count = self._hand.count()
        self._pace = self._pace.after(count.done, elapsed, busy=count.waiting > 0)
        choice, sight = self._choose(count, elapsed)
        batches = self._pulls.batches(choice.feeds)
        if self._lease.hold() is not Held.STILL:
            raise LostLeaseError  # MongoDB took its time
        refused = self._write(batches, sight)
        self._known = True
        self._hosts = choice.hosts
        if choice.later:
            self._pulls.put_off(choice.later, clock.now())
        if refused:
            _log.info("queue_takes_nothing", batches=refused)
            return dataclasses.replace(sight, queued=0)
        if batches:
            _log.info("feeds_queued", batches=len(batches), feeds=len(choice.feeds))
        self._backlog = sight.backlog
        return sight

    def _choose(self, count: Count, elapsed: float) -> tuple[Choice, Sight]:
        settings, now = self._settings, clock.now()
        rate = self._pace.rate
        room = batching.room(self._pace, count.waiting, settings.pull_batch, settings.updater_work)
        in_hand = self._hand.feeds
        # What is in hand is due still, and comes first. Without room one look at the longest due will do.
        limit = len(in_hand) + room + min(_BEYOND * room, _BEYOND_MOST) if room else 1
        due = self._pulls.due(now, limit)
        look = Look(due, len(due) < limit, in_hand, room)
        choice = batching.choose(
            look,
            self._hosts if room else {},
            self._rates.of_host,
            least=self._least,
            seconds=elapsed,
            pause=min(TICK, settings.updater_interval),
        )
        if not room:
            choice = Choice([], {}, self._hosts)
        queued = len(choice.feeds)
        waiting = count.waiting + queued
        return choice, Sight(
            backlog=max(0, self._count_backlog(look, now) - queued - len(choice.later)),
            late_s=batching.lateness(due[:1], now),
            waiting=waiting,
            running=count.running,
            pace=rate or 0.0,
            queued_s=waiting / rate if rate else 0.0,
            queued=queued,
            put_off=len(choice.later),
        )

    def _count_backlog(self, look: Look, now: dt.datetime) -> int:
        """Return how many due feeds are not in hand; of a long backlog what was counted last."""
        seen = sum(1 for feed in look.due if feed.id not in look.in_hand)
        if look.all:
            self._backlog = seen
        elif not self._backlog or self._timer() >= self._counted + _COUNT_EVERY:
            self._counted = self._timer()
            self._backlog = self._pulls.count_due(now, _COUNT_MOST) - (len(look.due) - seen)
        self._backlog = max(self._backlog, seen)
        return self._backlog

    def _write(self, batches: Sequence[Sequence[int]], sight: Sight) -> int:
        """Queue batches and note them in hand, in one step; return how many were refused."""
        tickets: list[tuple[str, Sequence[int]]] = []

        def fill(pipe: Any) -> None:
            ids = self._jobs.queue_in(pipe, [pull_of(batch) for batch in batches])
            tickets.extend(zip(ids, batches, strict=True))
            self._hand.write(pipe, tickets)
            pipe.hset(redis_keys.UPDATER_STATS, mapping=sight.to_hash())
            pipe.expire(redis_keys.UPDATER_STATS, redis_keys.ALIVE_SECONDS)

        replies = self._lease.write(fill)[: len(batches)]
        self._hand.written(tickets)
        return sum(1 for fresh, _ in replies if fresh < 0)


def run(settings: Settings) -> int:
    """Work until SIGTERM or SIGINT; returns the exit code."""
    stop = Bell()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.ring())
    client = redis.Redis.from_url(settings.redis_url, retry=Retry(NoBackoff(), 0))
    with contextlib.closing(bootstrap.build(settings)) as services, client:
        updater = Updater(settings, client, services.pull, services.jobs)
        ident = f"{socket.gethostname()}-{os.getpid()}"
        with admin_port.serving(settings, services, lambda: updater.holds) as pulse:

            def sign() -> None:
                pulse.beat()
                _sign(client, ident)

            _work(settings, stop, updater, sign, lambda: queue_more(services))
        with contextlib.suppress(*OUTAGE):
            updater.release()
            client.delete(redis_keys.alive("updater", ident))
    _log.info("ended")
    return 0


def _work(
    settings: Settings,
    stop: Bell,
    updater: Updater,
    sign: Callable[[], None],
    queue_more: Callable[[], None],
) -> None:
    ready = False
    # A standby tries often, so that it takes over as soon as the lease has run out.
    tick = min(TICK, settings.updater_interval, settings.updater_lease / 3)
    due = reported = time.monotonic()
    while True:
        try:
            sign()
            if not ready:
                ready = True
                _log.info("ready")
            if time.monotonic() < due:
                updater.hold()
            elif (sight := updater.look()) is not None:
                due = time.monotonic() + batching.pause(
                    sight.backlog, sight.queued, sight.queued_s, tick, settings.updater_interval
                )
                queue_more()
                if time.monotonic() >= reported:
                    reported = time.monotonic() + _REPORT_EVERY
                    _log.info("updater_sight", **dataclasses.asdict(sight))
        except (StoreError, *OUTAGE) as e:
            _log.warning("store_silent", error=word(e))
        if stop.wait(tick):
            return


def queue_more(services: bootstrap.Services) -> None:
    """Queue what pushes wait for, hubs to be asked, pushes of our own, imports, the ended hour's report,
    news for the search, accounts that go, files of all that is somebody's own.

    What is queued already stays one job.
    """
    for due in (
        lambda now: services.websub.due(now, HUBS_AT_ONCE),
        lambda now: services.hub.due(now, HUBS_AT_ONCE),
        lambda _: services.importing.due(),
        services.indexing.due,
        services.erasing.due,
        services.personal.due,
    ):
        with contextlib.suppress(DrainingError):  # the queues of the others take what is theirs
            services.jobs.enqueue_many(due(clock.now()))
    with contextlib.suppress(DrainingError):
        reports = services.report.due(clock.now())
        services.jobs.enqueue_many(reports)
        services.report.queued(reports)


def _sign(client: redis.Redis, ident: str) -> None:
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": clock.now().isoformat()})
    client.set(redis_keys.alive("updater", ident), text, ex=redis_keys.ALIVE_SECONDS)
