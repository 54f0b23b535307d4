"""The updater: finds due feeds and queues their pulls. A lease allows one per system; others stand by.

It stores no state of its own: due feeds come from MongoDB, in-flight jobs are in Redis. So it continues with
an emptied Redis, and a new updater continues where the last one was. Its decisions are in
``workers.updater.batching``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from app.runtime import redis_connections as connections
from app.runtime.redis_errors import OUTAGE, describe_outage
from app.services.later import LaterRunner
from workers.updater import admin_port, batching
from workers.updater.background import repeat_in_background
from workers.updater.batching import BatchChoice, DueSnapshot, HostState, Pace
from workers.updater.in_flight import InFlightCount, InFlightJobs, build_pull
from workers.updater.lease import Lease, LeaseState, LostLeaseError
from workers.wakeup import WakeupSignal

_log = logs.get(__name__)

#: Seconds between a standby's attempts to take over, and between a holder's looks while there is a backlog.
TICK = 1.0
#: Feeds to read beyond the number to queue, as a multiple of it and as a maximum: popular feeds and other
#: hosts are chosen from them.
_BEYOND, _BEYOND_MOST = 2, 2000
#: Per look: hubs contacted, feeds pulled for pushes, callbacks verified by our hub, streams it pushes.
HUBS_AT_ONCE = 100
#: Time between two looks at the outboxes of cells, and at cells that aren't prepared, seconds.
_SETTLE_EVERY, _PREPARE_EVERY, _FOLLOWS_EVERY = 1.0, 5.0, 30.0
#: A longer backlog is counted every ten seconds, up to this maximum.
_COUNT_EVERY, _COUNT_MOST = 10.0, 100_000
_REPORT_EVERY = 60.0
#: A clock that is corrected by less than this makes no feed late.
_CLOCK_ERROR = dt.timedelta(minutes=1)


class DueFeedSource(Protocol):
    """The source of due feeds: ``app.services.feeds.pull.PullService``. All methods raise StoreError."""

    def find_due(self, now: dt.datetime, limit: int) -> list[DueFeed]: ...
    def count_due(self, now: dt.datetime, limit: int) -> int: ...
    def correct_late_times(self, now: dt.datetime) -> None: ...
    def make_batches(self, feeds: Sequence[DueFeed]) -> list[list[int]]: ...
    def postpone_checks(self, delays: Mapping[int, float], now: dt.datetime) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class UpdaterStats:
    """The figures of a look; the fields are those of the hash ``eventr:updater:stats``.

    Attributes:
        backlog: Feeds that are due and not queued.
        late_s: Seconds for which the longest due feed has been due, queued or not.
        waiting, running: Feeds in jobs that no worker has claimed, or that one has.
        pace: Feeds per second that the workers manage; 0 if unknown.
        queued_s: Seconds of waiting work.
        queued, put_off: Feeds that this look queued and put off.
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
        """Return the fields as Redis stores them."""
        return {name: f"{value:.10g}" for name, value in dataclasses.asdict(self).items()}


class Updater:
    """Queues due feeds while it holds the lease. One call at a time.

    All methods raise StoreError or a redis.RedisError if a store doesn't answer or accept writes, and can be
    repeated.
    """

    def __init__(
        self,
        settings: Settings,
        client: redis.Redis,
        pulls: DueFeedSource,
        jobs: RedisJobs,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._pulls, self._jobs, self._timer = settings, pulls, jobs, timer
        self._lease = Lease(client, redis_keys.UPDATER_LEASE, settings.updater_lease)
        self._hand = InFlightJobs(client)
        self._rates = HostRates.from_settings(settings)
        self._least = batching.compute_host_share(
            settings.job_timeout, settings.fetch_total_timeout, settings.fetch_per_host
        )
        self._last_time = clock.now()
        self._known = False  # whether the known in-flight jobs match Redis
        #: Whether it held the lease at the last look.
        self.holds = False
        #: How often it has acquired the lease anew: Redis may have lost everything before that.
        self.terms = 0
        self._forget()

    def _forget(self) -> None:
        self._pace = Pace()
        self._hosts: dict[str, HostState] = {}
        self._looked = self._counted = self._timer()
        self._backlog = 0

    def queue_due_feeds(self) -> UpdaterStats | None:
        """Queue due feeds unless too much is waiting; return None if another updater holds the lease."""
        try:
            return self._look() if self._held() else None
        except LostLeaseError:
            # This look took so long that another updater took over; that updater decides anew.
            _log.warning("lease_lost")
            self._known = False
            return None
        except BaseException:
            self._known = False  # the sent commands may have had their effect
            raise

    def renew_lease(self) -> bool:
        """Acquire or renew the lease between two looks."""
        return self._held()

    def release(self) -> None:
        """Release the lease to a standby."""
        self._lease.release()

    def _held(self) -> bool:
        held = self._lease.acquire()
        if held is not LeaseState.STILL:
            self._known = False
        self.terms += held is LeaseState.ANEW
        self.holds = bool(held)
        return self.holds

    def _look(self) -> UpdaterStats:
        if not self._known:
            self._hand.load()
            self._hand.count()  # work that earlier updaters saw done says nothing about the pace since then
            self._forget()
        self._watch_clock()
        elapsed = self._timer() - self._looked
        self._looked += elapsed
        count = self._hand.count()
        self._pace = self._pace.add_done(count.done, elapsed, busy=count.waiting > 0)
        choice, sight = self._choose(count, elapsed)
        batches = self._pulls.make_batches(choice.feeds)
        if self._lease.acquire() is not LeaseState.STILL:
            raise LostLeaseError  # MongoDB was slow
        refused = self._write(batches, sight)
        self._known = True
        self._hosts = choice.hosts
        if choice.postponed:
            self._pulls.postpone_checks(choice.postponed, clock.now())
        if refused:
            _log.info("queue_takes_nothing", batches=refused)
            return dataclasses.replace(sight, queued=0)
        if batches:
            _log.info("feeds_queued", batches=len(batches), feeds=len(choice.feeds))
        self._backlog = sight.backlog
        return sight

    def _watch_clock(self) -> None:
        """Correct the times of feeds after a start, and after the clock was set back."""
        now = clock.now()
        if not self._known or now < self._last_time - _CLOCK_ERROR:
            self._pulls.correct_late_times(now)
        self._last_time = now

    def _choose(self, count: InFlightCount, elapsed: float) -> tuple[BatchChoice, UpdaterStats]:
        settings, now = self._settings, clock.now()
        rate = self._pace.rate
        room = batching.count_to_queue(self._pace, count.waiting, settings.pull_batch, settings.updater_work)
        in_hand = self._hand.feeds
        # In-flight feeds are still due and come first. With no room, the longest due feed is enough.
        limit = len(in_hand) + room + min(_BEYOND * room, _BEYOND_MOST) if room else 1
        due = self._pulls.find_due(now, limit)
        look = DueSnapshot(due, len(due) < limit, in_hand, room)
        choice = batching.choose_feeds(
            look,
            self._hosts if room else {},
            self._rates.get_rate,
            min_share=self._least,
            seconds=elapsed,
            pause=min(TICK, settings.updater_interval),
        )
        if not room:
            choice = BatchChoice([], {}, self._hosts)
        queued = len(choice.feeds)
        waiting = count.waiting + queued
        return choice, UpdaterStats(
            backlog=max(0, self._count_backlog(look, now) - queued - len(choice.postponed)),
            late_s=batching.compute_lateness(due[:1], now),
            waiting=waiting,
            running=count.running,
            pace=rate or 0.0,
            queued_s=waiting / rate if rate else 0.0,
            queued=queued,
            put_off=len(choice.postponed),
        )

    def _count_backlog(self, look: DueSnapshot, now: dt.datetime) -> int:
        """Return the number of due feeds not in flight; for a long backlog, the last count."""
        seen = sum(1 for feed in look.due if feed.id not in look.in_flight)
        if look.all:
            self._backlog = seen
        elif not self._backlog or self._timer() >= self._counted + _COUNT_EVERY:
            self._counted = self._timer()
            self._backlog = self._pulls.count_due(now, _COUNT_MOST) - (len(look.due) - seen)
        self._backlog = max(self._backlog, seen)
        return self._backlog

    def _write(self, batches: Sequence[Sequence[int]], sight: UpdaterStats) -> int:
        """Queue batches and record them as in flight, in one step; return the number refused."""
        tickets: list[tuple[str, Sequence[int]]] = []

        def write_batches(pipe: Any) -> None:
            ids = self._jobs.enqueue_in(pipe, [build_pull(batch) for batch in batches])
            tickets.extend(zip(ids, batches, strict=True))
            self._hand.write(pipe, tickets)
            pipe.hset(redis_keys.UPDATER_STATS, mapping=sight.to_hash())
            pipe.expire(redis_keys.UPDATER_STATS, redis_keys.ALIVE_SECONDS)

        replies = self._lease.write(write_batches)[: len(batches)]
        self._hand.confirm_written(tickets)
        return sum(1 for fresh, _ in replies if fresh < 0)


class DelayedTasks:
    """Runs delayed tasks from turn to turn of the updater."""

    def __init__(self, runner: LaterRunner) -> None:
        self._runner, self._terms = runner, 0

    def run(self, terms: int) -> float:
        """Queue due tasks; return the seconds until the next one is due, infinity without one.

        A task that is requested with a shorter delay than a turn takes may be that much late.

        Args:
            terms: how often the updater has acquired its lease anew.

        Raises:
            StoreError: a store isn't responding; the next turn tries again.
        """
        now = clock.now()
        self._runner.rebuild(now, at_once=terms != self._terms)
        self._terms = terms
        soonest = self._runner.run_due(now)
        return math.inf if soonest is None else max(0.0, (soonest - clock.now()).total_seconds())


def run(settings: Settings) -> int:
    """Work until SIGTERM or SIGINT; return the exit code."""
    stop = WakeupSignal()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.notify())
    client = connections.connect(settings.redis_url, retry=Retry(NoBackoff(), 0))
    with contextlib.closing(bootstrap.build(settings)) as services, client:
        updater = Updater(settings, client, services.pull, services.jobs)
        ident = f"{socket.gethostname()}-{os.getpid()}"
        with (
            admin_port.serve_admin_port(settings, services, lambda: updater.holds) as pulse,
            _tend_cells(services, lambda: updater.holds),
        ):

            def send_heartbeat() -> None:
                pulse.record_beat()
                _sign(client, ident)

            _work(
                settings,
                stop,
                updater,
                later=DelayedTasks(services.later_runner),
                sign=send_heartbeat,
                queue_more=lambda: queue_due_work(services),
            )
        with contextlib.suppress(*OUTAGE):
            updater.release()
            client.delete(redis_keys.make_alive_key("updater", ident))
    _log.info("ended")
    return 0


@contextlib.contextmanager
def _tend_cells(services: bootstrap.Services, has_lease: Callable[[], bool]) -> Iterator[None]:
    """Settle the outboxes of cells, and prepare cells that were down, while this process has the lease."""
    upkeep = services.cell_upkeep
    if not upkeep.is_spread:
        # Without cells, only a crash leaves something of these.
        with repeat_in_background(
            "follows", upkeep.finish_follows, every=_FOLLOWS_EVERY, is_active=has_lease
        ):
            yield
        return
    with (
        # Numbers of people in cells are at most about a second late.
        repeat_in_background("outbox", upkeep.settle_outbox, every=_SETTLE_EVERY, is_active=has_lease),
        # A thread of its own: indexes may take hours.
        repeat_in_background(
            "cells", services.cells.prepare_missing, every=_PREPARE_EVERY, is_active=has_lease
        ),
    ):
        yield


def _work(
    settings: Settings,
    stop: WakeupSignal,
    updater: Updater,
    *,
    later: DelayedTasks,
    sign: Callable[[], None],
    queue_more: Callable[[], None],
) -> None:
    ready = False
    tick = compute_sleep(settings, None)
    due = reported = time.monotonic()
    while True:
        pause = tick
        try:
            sign()
            if not ready:
                ready = True
                _log.info("ready")
            if time.monotonic() < due:
                updater.renew_lease()
            elif (sight := updater.queue_due_feeds()) is not None:
                due = time.monotonic() + batching.compute_pause(
                    sight.backlog, sight.queued, sight.queued_s, tick, settings.updater_interval
                )
                queue_more()
                if time.monotonic() >= reported:
                    reported = time.monotonic() + _REPORT_EVERY
                    _log.info("updater_sight", **dataclasses.asdict(sight))
            if updater.holds:
                pause = compute_sleep(settings, min(due - time.monotonic(), later.run(updater.terms)))
        except (StoreError, *OUTAGE) as e:
            _log.warning("store_silent", error=describe_outage(e))
        if stop.wait(pause):
            return


def compute_sleep(settings: Settings, until_look: float | None) -> float:
    """Return the seconds until the next turn.

    A standby tries often, so that it takes over as soon as the lease has expired. The holder sleeps until its
    next look, but no longer than a third of its lease and of its sign of life.

    Args:
        settings: The settings.
        until_look: Seconds until the holder's next look; None for a standby, or if that isn't known.
    """
    if until_look is None:
        return min(TICK, settings.updater_interval, settings.updater_lease / 3)
    return max(0.0, min(until_look, settings.updater_lease / 3, redis_keys.ALIVE_SECONDS / 3))


def queue_due_work(services: bootstrap.Services) -> None:
    """Queue all due work other than pulls of due feeds.

    That is: pushed feeds, hub requests, pushes of our hub, imports, followed lists, the last hour's report,
    search indexing, account deletions, moves of people to other cells, personal exports, the deletion of
    feeds without readers, of entries beyond the budget and of media that nothing needs, entries to mark as
    read, copies of those that were, shares of secret feeds, files that media stores lack, icons of feeds, and
    pictures that were postponed.
    A job that is queued already isn't queued twice.
    """
    for due in (
        lambda now: services.websub.find_due_jobs(now, HUBS_AT_ONCE),
        lambda now: services.hub.find_due_jobs(now, HUBS_AT_ONCE),
        lambda _: services.import_runner.find_due_jobs(),
        services.followed_lists.find_due_jobs,
        services.indexing.find_due_jobs,
        services.rule_runner.find_due_jobs,
        services.rule_runs.find_due_jobs,
        services.sending.find_due_jobs,
        services.erasure.find_due_jobs,
        services.moves.find_due_jobs,
        services.personal_exports.find_due_jobs,
        services.orphans.find_due_jobs,
        services.retention_budget.find_due_jobs,
        services.auto_read.find_due_jobs,
        services.copy_marks.find_due_jobs,
        services.feed_search.find_due_jobs,
        services.crawls.find_due_jobs,
        services.media_cleaning.find_due_jobs,
        services.upload_upkeep.find_due_jobs,
        services.secrecy.find_due_jobs,
        services.media_mending.find_due_jobs,
        services.icons.find_due_jobs,
        services.pictures.find_due_jobs,
    ):
        with contextlib.suppress(DrainingError):  # the other queues still accept their jobs
            services.jobs.enqueue_many(due(clock.now()))
    with contextlib.suppress(DrainingError):
        reports = services.report.find_due_jobs(clock.now())
        services.jobs.enqueue_many(reports)
        services.report.mark_queued(reports)


def _sign(client: redis.Redis, ident: str) -> None:
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": clock.now().isoformat()})
    client.set(redis_keys.make_alive_key("updater", ident), text, ex=redis_keys.ALIVE_SECONDS)
