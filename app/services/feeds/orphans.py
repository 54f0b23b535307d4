"""Collection of orphan feeds in the background: when it is due, and one run of it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

from app import clock, logs
from app.config import Settings
from app.gateways.feeds.orphans import OrphanGateway
from app.models.feeds.feed import OrphanCounts
from app.models.jobs.jobs import Job, Queue, Task

log = logs.get(__name__)

#: Time between two runs.
EVERY = dt.timedelta(hours=1)
#: Feeds that one run marks or deletes.
FEEDS = 1000


class OrphanService:
    """Deletes feeds without readers; has no actor, because nobody needs them."""

    def __init__(self, orphans: OrphanGateway, settings: Settings) -> None:
        self._orphans = orphans
        # A feed that someone can still restore by "undo" must not be deleted.
        self._wait = max(dt.timedelta(days=settings.orphan_days), dt.timedelta(seconds=settings.undo_ttl))
        self._enabled = settings.orphan_days > 0
        #: An undo may need the login of an own copy.
        self._undo = dt.timedelta(seconds=settings.undo_ttl)
        self._next: dt.datetime | None = None

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the job of the next run, at most once an hour, if there is something to do.

        Two processes return jobs with the same identity.
        """
        if not self._enabled or (self._next is not None and now < self._next):
            return []
        is_due = self._orphans.is_due(now - self._wait, now - self._undo)
        self._next = now + EVERY
        return [Job(Task.COLLECT, {}, Queue.MAINTENANCE)] if is_due else []

    def run(
        self, *, seconds: float, limit: int = FEEDS, is_stopping: Callable[[], bool] = lambda: False
    ) -> OrphanCounts:
        """Delete feeds that nobody has read for long and nobody needs; return the counts.

        A run ends after ``seconds``, and the next one continues. Safe to run twice, even concurrently, and to
        be killed anywhere.

        Raises:
            StoreError: the store did not answer; the next run continues.
        """
        if not self._enabled:
            return OrphanCounts()
        now, end = clock.now(), time.monotonic() + seconds
        counts = self._orphans.delete_orphans(
            now - self._wait,
            now,
            undone=now - self._undo,
            limit=limit,
            is_over=lambda: is_stopping() or time.monotonic() >= end,
        )
        if counts.feeds or counts.entries:
            log.info("orphans_deleted", feeds=counts.feeds, entries=counts.entries)
        return counts
