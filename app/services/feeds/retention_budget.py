"""The entry budget in the background: when a run is due, and one run of it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

from app import clock, logs
from app.gateways.feeds.retention_budget import BudgetOutcome, RetentionBudgetGateway
from app.models.jobs.jobs import Job, Queue, Task

log = logs.get(__name__)

#: Time between two looks at the number of entries.
EVERY = dt.timedelta(minutes=1)


class RetentionBudgetService:
    """Deletes old entries beyond the installation's budget; has no actor, because the settings decide.

    Args:
        is_enabled: whether there is a budget.
    """

    def __init__(self, gateway: RetentionBudgetGateway, *, is_enabled: bool) -> None:
        self._gateway, self._enabled = gateway, is_enabled
        self._next: dt.datetime | None = None

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the job of the next run, if there are too many entries; looks at most once a minute."""
        if not self._enabled or (self._next is not None and now < self._next):
            return []
        self._next = now + EVERY
        return [Job(Task.TRIM, {}, Queue.MAINTENANCE)] if self._gateway.is_over(now) else []

    def run(self, *, seconds: float, is_stopping: Callable[[], bool] = lambda: False) -> BudgetOutcome:
        """Delete entries beyond the budget for at most ``seconds``; the next run continues.

        Safe to run twice, even concurrently, and to be killed anywhere.

        Raises:
            StoreError: the store did not answer; the next run continues.
        """
        end = time.monotonic() + seconds
        done = self._gateway.trim_entries(clock.now(), lambda: is_stopping() or time.monotonic() >= end)
        if done.deleted:
            log.info("entries_trimmed", entries=done.deleted, feeds=done.feeds)
        if done.is_exhausted:
            log.warning("entry_budget_exceeded")
        return done
