"""Marking entries as read some days after they arrived, in feeds whose readers want that."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

from app import clock, logs
from app.errors import CellError, ConflictError, MovingError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.reading.auto_read import AutoReadGateway
from app.models.jobs.jobs import Job, Queue, Task
from app.models.reading.history import ActionKind
from app.models.reading.stream import StreamKind, StreamRef
from app.ports import JobPort
from app.services.reading.mass_marks import MassMarks

log = logs.get(__name__)

#: Time between two runs.
EVERY = dt.timedelta(hours=1)


class AutoReadService:
    """Marks entries as read when their days are over; has no actor, because each reader has set the days.

    Each run is one mass mark per user: it appears in the undo history and reaches apps that sync.
    """

    def __init__(
        self, auto_read: AutoReadGateway, accounts: AccountGateway, mass_marks: MassMarks, jobs: JobPort
    ) -> None:
        self._auto_read, self._accounts = auto_read, accounts
        self._mass_marks, self._jobs = mass_marks, jobs
        self._next: dt.datetime | None = None

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the job of the next run, once an hour, if anyone wants it."""
        if self._next is not None and now < self._next:
            return []
        self._next = now + EVERY
        return [_make_job(0)] if any(self._auto_read.iter_users(0)) else []

    def run(
        self, after: int, *, seconds: float, is_stopping: Callable[[], bool] = lambda: False
    ) -> dict[str, int]:
        """Mark the due entries of the users after this one; another job continues if there are more.

        Safe to run twice, even concurrently, and to be killed anywhere.

        Args:
            after: the last user of the previous job, or 0.
            seconds: the time after which another job continues.

        Raises:
            StoreError: the store did not answer; the next run continues.
        """
        end, users, marked = time.monotonic() + seconds, 0, 0
        for user_id in self._auto_read.iter_users(after):
            # At least one: a job with the same arguments as this one would not be queued.
            if users and (is_stopping() or time.monotonic() >= end):
                self._jobs.enqueue(_make_job(after))
                break
            marked += self._mark_due(user_id)
            users, after = users + 1, user_id
        return {"users": users, "entries": marked}

    def _mark_due(self, user_id: int) -> int:
        """Mark the due entries of one user; return how many that changed."""
        user = self._accounts.find_user(user_id)
        if user is None:
            return 0
        try:
            due = self._auto_read.find_due(user_id, clock.now())
            if not due.last_seqs:
                return 0
            feeds = list(due.last_seqs)
            ref = StreamRef(StreamKind.FEED, feeds[0]) if len(feeds) == 1 else None
            done = self._mass_marks.mark_feeds(
                user.actor, feeds, ref, ActionKind.AUTO, last_seqs=due.last_seqs, keep=due.spared
            )
            # Afterwards: if this job dies in between, the next one marks the same entries again.
            self._auto_read.set_done(user_id, due.last_seqs)
        except (ConflictError, MovingError, CellError) as e:  # the next run tries again
            log.info("auto_read_postponed", user_id=user_id, error=type(e).__name__)
            return 0
        return done.count


def _make_job(after: int) -> Job:
    return Job(Task.AUTO_READ, {"after": after}, Queue.MAINTENANCE)
