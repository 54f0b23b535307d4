"""Shares of feeds that become secret, or that aren't anymore: closed or opened at once if they are few.

The rest is left to a job. The feed is marked before anything changes, so that the job also continues what a
killed process left.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections.abc import Callable

from app import clock, logs
from app.errors import ConflictError, NotFoundError
from app.gateways.sharing.secrecy import SecrecyGateway
from app.models.jobs.jobs import Job, Queue, Task
from app.ports import EventPort

log = logs.get(__name__)

#: Shares that are changed at once; a request or a pull doesn't wait for more.
AT_ONCE = 50
#: Time between two looks for such marks.
EVERY = dt.timedelta(minutes=1)
#: Feeds of one run.
FEEDS = 500


class SecrecyService:
    """Closes and opens shares; has no actor, because feeds and publishers decide."""

    def __init__(self, secrecy: SecrecyGateway, events: EventPort) -> None:
        self._secrecy, self._events = secrecy, events
        self._next: dt.datetime | None = None

    def mark_feed(self, feed_id: int) -> None:
        """Let a job check the feed's shares, unless :meth:`update_shares` does it before."""
        self._secrecy.mark_feed(feed_id, clock.now())

    def update_shares(self, feed_id: int, user_id: int | None = None) -> None:
        """Close or open the shares of a feed that became secret, or that isn't secret anymore.

        Args:
            user_id: the subscriber whose choice changed; None: for everyone.
        """
        now = clock.now()
        is_new = self._secrecy.mark_feed(feed_id, now)
        if not self._update(feed_id, now, user_id, AT_ONCE):
            self._secrecy.mark_feed(feed_id, clock.now())  # another request may have removed ours
        elif is_new:
            self._secrecy.remove_mark(feed_id, now)

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the job of the next run, at most once a minute, if there is something to do.

        Two processes return jobs with the same identity.
        """
        if self._next is not None and now < self._next:
            return []
        self._next = now + EVERY
        is_due = bool(self._secrecy.find_left_over(now, 1))
        return [Job(Task.SECRECY, {}, Queue.MAINTENANCE)] if is_due else []

    def run(self, *, seconds: float, is_stopping: Callable[[], bool] = lambda: False) -> int:
        """Update the shares of marked feeds; return for how many feeds that was completed.

        A run ends after ``seconds``, and the next one continues. Safe to run twice, even concurrently, and to
        be killed anywhere.

        Raises:
            StoreError: the store did not answer; the next run continues.
        """
        end, done = time.monotonic() + seconds, 0
        for feed_id, marked_at in self._secrecy.find_left_over(clock.now(), FEEDS):
            try:
                while not self._update(feed_id, clock.now(), None, AT_ONCE):
                    if is_stopping() or time.monotonic() >= end:
                        return done
            except ConflictError:
                continue  # people change these shares all the time; the next run continues
            self._secrecy.remove_mark(feed_id, marked_at)
            done += 1
            if is_stopping() or time.monotonic() >= end:
                break
        if done:
            log.info("secrecy_applied", feeds=done)
        return done

    def _update(self, feed_id: int, now: dt.datetime, user_id: int | None, limit: int) -> bool:
        """Change up to ``limit`` shares; return whether there are no more."""
        with contextlib.suppress(NotFoundError):  # the feed is gone
            for count, (was, share) in enumerate(self._secrecy.apply(feed_id, now, user_id), 1):
                self._events.notify_new_entries({was.feed_id: 0, share.feed_id: 0})
                if count == limit:
                    return False
        return True
