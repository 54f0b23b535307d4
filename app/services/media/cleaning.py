"""Cleaning of pictures and files in the background, and what administrators see of it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

from app import clock, logs
from app.config import Settings
from app.gateways.media.cleaning import CleaningGateway
from app.gateways.media.quota import QuotaGateway
from app.models.accounts.actor import Actor, Permission
from app.models.jobs.jobs import Job, Queue, Task
from app.models.media.cleaning import (
    CheckCounts,
    CleanCounts,
    DiskCounts,
    StorageFigures,
    StorageStats,
    UserStoragePage,
)
from app.models.media.store import StoreState
from app.ports import JobPort, MediaStores
from app.services.access import require_permission

log = logs.get(__name__)

#: Time between two runs, and between two walks over the stores.
EVERY, WALK_EVERY = dt.timedelta(minutes=5), dt.timedelta(days=1)
#: Longest run, seconds.
RUN_SECONDS = 60.0
#: Users on one page of administrators.
PAGE = 50


class MediaCleaningService:
    """Deletes what nothing needs; only its questions of administrators have an actor."""

    def __init__(
        self,
        cleaning: CleaningGateway,
        quota: QuotaGateway,
        stores: MediaStores,
        jobs: JobPort,
        settings: Settings,
    ) -> None:
        self._cleaning, self._quota = cleaning, quota
        self._stores, self._jobs = stores, jobs
        self._delete_strays = settings.media_strays == "delete"
        self._next: dt.datetime | None = None

    # -- for workers and the updater
    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the job of the next run, at most every five minutes, if there is something to do.

        Two processes return jobs with the same identity.
        """
        if self._next is not None and now < self._next:
            return []
        is_due = self._cleaning.has_work(now) or self._cleaning.is_walk_due(now, WALK_EVERY)
        self._next = now + EVERY
        return [make_clean_job()] if is_due else []

    def run(
        self, *, seconds: float = RUN_SECONDS, is_stopping: Callable[[], bool] = lambda: False
    ) -> CleanCounts:
        """Delete what nothing needs, and once a day compare the stores with the database.

        A run ends after ``seconds``, and the next one continues. Safe to run twice, even concurrently, and to
        be killed anywhere.

        Raises:
            StoreError: the database did not answer; the next run continues.
        """
        now, end = clock.now(), time.monotonic() + seconds

        def is_over() -> bool:
            return is_stopping() or time.monotonic() >= end

        counts = self._cleaning.clean(now, is_over)
        if any(counts):
            log.info("media_cleaned", **counts._asdict())
        if not is_over() and self._cleaning.is_walk_due(now, WALK_EVERY):
            self._cleaning.walk_stores(
                now, delete=self._delete_strays, mend=True, is_over=is_over, resume=True
            )
        return counts

    # -- for the command line, which has no actor
    def walk_stores(self, *, apply: bool) -> DiskCounts:
        """Compare the stores with the database.

        Args:
            apply: delete old files that no document names, and mend documents without files.
        """
        return self._cleaning.walk_stores(clock.now(), delete=apply, mend=apply)

    def recount(self) -> CheckCounts:
        """Count all references and each user's storage again, and correct wrong numbers."""
        counts = self._cleaning.recount()
        return counts._replace(wrong_usage=self._quota.recount_all(lambda: False))

    def measure(self) -> StorageStats:
        """Return how much is stored."""
        return self._cleaning.measure()

    def load_figures(self) -> StorageFigures:
        """Return figures for monitoring.

        Raises:
            StoreError: the database isn't responding.
        """
        return self._cleaning.load_figures()

    # -- for administrators
    def describe(self, actor: Actor) -> tuple[StorageStats, list[StoreState]]:
        """Return how much is stored, and the state of each store.

        Raises:
            ForbiddenError: the actor isn't an admin.
        """
        require_permission(actor, Permission.ADMIN_SEE)
        return self.measure(), self._stores.describe()

    def list_storage(self, actor: Actor, after: str = "") -> UserStoragePage:
        """Return a page of users and their storage, those who store most first.

        Args:
            after: ``next`` of the page before, or nothing.

        Raises:
            ForbiddenError: the actor isn't an admin.
        """
        require_permission(actor, Permission.ADMIN_SEE)
        return self._cleaning.list_storage(PAGE, after)

    def request_run(self, actor: Actor) -> None:
        """Queue a run now.

        Raises:
            ForbiddenError: the actor isn't an admin.
            StoreError: Redis isn't responding.
        """
        require_permission(actor, Permission.JOB_MANAGE)
        self._jobs.enqueue(make_clean_job())
        log.info("media_cleaning_asked", user_id=actor.user_id)


def make_clean_job() -> Job:
    """Return the job that deletes pictures and files that nothing needs."""
    return Job(Task.MEDIA_CLEAN, {}, Queue.MAINTENANCE)
