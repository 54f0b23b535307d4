"""The updater: asks which feeds are due and queues their pulls. One per system by a lease, others stand by.

It decides nothing itself and keeps no truth: due feeds come from MongoDB, so an emptied Redis or a new
updater goes on where the last one was.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app import bootstrap, clock, logs
from app.config import Settings
from app.errors import StoreError
from app.models import keys
from app.models.jobs import Job, Queue, Task, Ticket
from app.ports import JobPort

_log = logs.get(__name__)

_RENEW = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
_UNFINISHED = {b"queued", b"started", b"scheduled"}
_OUTAGE = (redis.ConnectionError, redis.TimeoutError)


class DueFeeds(Protocol):
    """Where due feeds come from; ``app.services.pull.PullService``."""

    def due_batches(self, now: Any, limit: int) -> list[list[int]]:
        """Return ids of at most ``limit`` due feeds, in one list per job.

        Raises:
            StoreError: MongoDB does not answer.
        """
        ...


class Lease:
    """A lock that its owner must renew; a lost owner blocks nobody for longer than ``seconds``."""

    def __init__(self, client: redis.Redis, key: str, seconds: float) -> None:
        self._key, self._ms = key, int(seconds * 1000)
        self._token = secrets.token_hex(8)
        self._renew, self._release = client.register_script(_RENEW), client.register_script(_RELEASE)

    def hold(self) -> bool:
        """Take or renew it; False while somebody else has it."""
        return bool(self._renew(keys=[self._key], args=[self._token, self._ms]))

    def release(self) -> None:
        """Let the next one have it at once."""
        self._release(keys=[self._key], args=[self._token])


class Updater:
    """Queues due feeds while it holds the lease."""

    def __init__(self, settings: Settings, client: redis.Redis, due: DueFeeds, jobs: JobPort) -> None:
        self._settings, self._client, self._due, self._jobs = settings, client, due, jobs
        self._lease = Lease(client, keys.UPDATER_LEASE, settings.updater_lease)
        self._queued: dict[str, frozenset[int]] = {}

    def look(self) -> int:
        """Queue what is due, as long as not too much waits already; returns the number of batches.

        Raises:
            StoreError, redis.ConnectionError, redis.TimeoutError: a store does not answer.
        """
        if not self._lease.hold():
            self._queued.clear()
            return 0
        free = self._settings.updater_backlog - self._waiting()
        if free <= 0:
            return 0
        # What is in hand is due still, and would else hide what comes after it.
        in_hand = self._in_hand()
        batches = self._due.due_batches(clock.now(), free * self._settings.pull_batch + len(in_hand))
        fresh = [batch for ids in batches if (batch := [i for i in ids if i not in in_hand])]
        # The look at MongoDB may have taken longer than the lease lasts.
        if not fresh or not self._lease.hold():
            return 0
        self._enqueue(fresh[:free])
        return len(fresh[:free])

    def hold(self) -> bool:
        """Renew the lease between two looks."""
        return self._lease.hold()

    def release(self) -> None:
        """Hand over to the standby."""
        self._lease.release()

    def _waiting(self) -> int:
        """Return the length of the queue, and forget what has been pulled."""
        with self._client.pipeline(transaction=False) as pipe:
            pipe.llen(keys.queue(Queue.PULL_SYSTEM))
            for job_id in self._queued:
                pipe.hget(keys.job(job_id), "status")
            length, *states = pipe.execute()
        for job_id, state in zip(list(self._queued), states, strict=True):
            if state not in _UNFINISHED:
                del self._queued[job_id]
        return int(length)

    def _in_hand(self) -> frozenset[int]:
        return frozenset().union(*self._queued.values())

    def _enqueue(self, batches: Sequence[Sequence[int]]) -> None:
        jobs = [Job(Task.PULL_SYSTEM, {"feed_ids": list(batch)}, Queue.PULL_SYSTEM) for batch in batches]
        tickets: list[Ticket] = self._jobs.enqueue_many(jobs)
        self._queued |= {t.id: frozenset(b) for t, b in zip(tickets, batches, strict=True)}
        _log.info("feeds_queued", batches=len(batches), feeds=sum(map(len, batches)))


def run(settings: Settings) -> int:
    """Work until SIGTERM or SIGINT; returns the exit code."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    client = redis.Redis.from_url(settings.redis_url, retry=Retry(NoBackoff(), 0))
    with contextlib.closing(bootstrap.build(settings)) as services, client:
        updater = Updater(settings, client, services.pull, services.jobs)
        ident = f"{socket.gethostname()}-{os.getpid()}"
        _work(settings, stop, updater, lambda: _sign(client, ident))
        with contextlib.suppress(*_OUTAGE):
            updater.release()
            client.delete(keys.alive("updater", ident))
    _log.info("ended")
    return 0


def _work(settings: Settings, stop: threading.Event, updater: Updater, sign: Any) -> None:
    ready = False
    # The lease is renewed in time also where the looks are far apart.
    pause = min(settings.updater_interval, settings.updater_lease / 3, keys.ALIVE_SECONDS / 3)
    due = time.monotonic()
    while not stop.is_set():
        try:
            sign()
            if not ready:
                ready = True
                _log.info("ready")
            if time.monotonic() >= due:
                due = time.monotonic() + settings.updater_interval
                updater.look()
            else:
                updater.hold()
        except (StoreError, *_OUTAGE) as e:
            _log.warning("store_silent", error=type(e).__name__)
        stop.wait(pause)


def _sign(client: redis.Redis, ident: str) -> None:
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": clock.now().isoformat()})
    client.set(keys.alive("updater", ident), text, ex=keys.ALIVE_SECONDS)
