"""Repair of stores that were away: when it is due, and one run of it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

from app import logs
from app.gateways.media.mending import MendingGateway
from app.models.jobs.jobs import Job, Queue, Task

log = logs.get(__name__)

#: Time between two runs. A store that is back has everything at most two minutes later, unless that's a lot.
EVERY = dt.timedelta(seconds=60)


class MendingService:
    """Copies files to the stores that lack them; has no actor."""

    def __init__(self, mending: MendingGateway) -> None:
        self._mending = mending
        self._next: dt.datetime | None = None

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the job of the next run, at most once a minute, if a store lacks files.

        Two processes return jobs with the same identity.
        """
        if self._next is not None and now < self._next:
            return []
        self._next = now + EVERY
        return [Job(Task.MEND, {}, Queue.MAINTENANCE)] if self._mending.is_due() else []

    def run(self, *, seconds: float, is_stopping: Callable[[], bool] = lambda: False) -> int:
        """Copy what stores lack; return the number of blobs that were copied.

        A run ends after ``seconds``, and the next one continues. Safe to run twice, even concurrently, and to
        be killed anywhere.

        Raises:
            StoreError: the database did not answer; the next run continues.
        """
        end = time.monotonic() + seconds
        copied = self._mending.copy_missing(lambda: is_stopping() or time.monotonic() >= end)
        if copied:
            log.info("media_copied", blobs=copied)
        return copied
