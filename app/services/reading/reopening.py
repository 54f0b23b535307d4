"""Entries whose text has changed become unread again, in feeds whose readers want that."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping

from app import clock, logs
from app.errors import CellError, MovingError, StoreError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.reading.reopening import ReopenGateway
from app.models.jobs.jobs import Job, Queue, Task
from app.ports import EventPort, JobPort

log = logs.get(__name__)


class ReopenService:
    """Marks changed entries as unread; has no actor, because each reader has chosen it."""

    def __init__(
        self, reopening: ReopenGateway, accounts: AccountGateway, jobs: JobPort, events: EventPort
    ) -> None:
        self._reopening, self._accounts = reopening, accounts
        self._jobs, self._events = jobs, events

    def request_marks(self, changed: Mapping[int, int]) -> None:
        """Queue a job for each feed whose entries changed, if anyone wants that.

        Args:
            changed: feed → time of the fetch, in milliseconds since the epoch.
        """
        with contextlib.suppress(StoreError):  # the pull is stored, and must not fail now
            wanted = self._reopening.filter_wanted(list(changed))
            self._jobs.enqueue_many([_make_job(feed_id, changed[feed_id], 0) for feed_id in wanted])

    def run(
        self,
        feed_id: int,
        since: int,
        after: int,
        *,
        seconds: float,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> dict[str, int]:
        """Mark the entries that changed as unread for the readers after this one.

        Safe to run twice, even concurrently. Another job continues if this one has no more time.

        Args:
            since: the time of the fetch, in milliseconds since the epoch.
            after: the last reader of the previous job, or 0.

        Raises:
            StoreError: the store did not answer.
        """
        seqs = self._reopening.find_changed(feed_id, clock.from_millis(since))
        end, marked, done = time.monotonic() + seconds, 0, 0
        for user_id in self._reopening.iter_readers(feed_id, after) if seqs else ():
            # At least one: a job with the same arguments as this one would not be queued.
            if done and (is_stopping() or time.monotonic() >= end):
                self._jobs.enqueue(_make_job(feed_id, since, after))
                break
            marked += self._mark(user_id, feed_id, seqs)
            done, after = done + 1, user_id
        return {"entries": marked}

    def _mark(self, user_id: int, feed_id: int, seqs: list[int]) -> int:
        user = self._accounts.find_user(user_id)
        if user is None:
            return 0
        try:
            marked = self._reopening.mark_unread(user_id, feed_id, seqs, synced=user.actor.synced)
        except (MovingError, CellError) as e:  # only this reader misses the change
            log.info("reopen_skipped", user_id=user_id, feed_id=feed_id, error=type(e).__name__)
            return 0
        if marked:
            self._events.notify_counts(user_id)
        return marked


def _make_job(feed_id: int, since: int, after: int) -> Job:
    return Job(Task.REOPEN, {"feed_id": feed_id, "since": since, "after": after}, Queue.PULL_SYSTEM)
