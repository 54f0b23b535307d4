"""Reading uploaded archives in the background: requests, the job, and its restart after a crash."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from app import clock, logs
from app.config import Settings
from app.errors import StoreError
from app.gateways.imports.archives import ArchiveGateway
from app.models.accounts.actor import Actor, Permission
from app.models.imports.imports import Import
from app.models.jobs.jobs import Job, Queue, Task
from app.models.jobs.later import PendingTask
from app.ports import EventPort, JobPort
from app.services.access import Limiter, require_permission, throttle
from app.services.free_space import FreeSpace
from app.services.validation import check_id

log = logs.get(__name__)

#: Kind of the delayed task that reads a file whose job was lost.
READ = "import.read"


class ArchiveService:
    """Reads an actor's uploaded files into imports."""

    def __init__(
        self,
        archives: ArchiveGateway,
        jobs: JobPort,
        events: EventPort,
        limiter: Limiter,
        *,
        free_space: FreeSpace,
        settings: Settings,
    ) -> None:
        self._archives, self._jobs, self._events, self._limiter = archives, jobs, events, limiter
        self._free_space, self._limit = free_space, settings.imports_per_hour

    def request_reading(self, actor: Actor, file_id: int) -> Import:
        """Let a job read a file of the actor; it becomes an import with a preview.

        Raises:
            NotFoundError: the actor has no such file.
            RateLimitedError: too many files within the hour.
            NoSpaceError: a disk is almost full.
        """
        require_permission(actor, Permission.SUBSCRIPTION_EDIT)
        self._free_space.require_space()
        throttle(self._limiter, f"import:{actor.user_id}", limit=self._limit, window=clock.HOUR)
        found = self._archives.request_reading(actor.user_id, check_id(file_id, "file_id"), clock.now())
        log.info("import_requested", user_id=actor.user_id, import_id=found.id)
        with contextlib.suppress(StoreError):  # found again in the database, see find_pending
            self._jobs.enqueue(_make_job(actor.user_id, found.id))
        return found

    def read_file(self, user_id: int, import_id: int) -> dict[str, Any]:
        """Read the file of an import; safe to run twice, and to be killed anywhere.

        Raises:
            StoreError: a store isn't responding; the job runs again.
        """
        found = self._archives.read_file(user_id, import_id, clock.now())
        if found is None:
            return {"state": "ended"}
        self._events.notify_progress(user_id, found.id, found.build_report(clock.now()))
        log.info("import_read", user_id=user_id, import_id=found.id, **found.counts)
        return {"state": found.state.value}

    def drop_files(self, is_over: Callable[[], bool]) -> int:
        """Delete the files of imports that ended a week ago; return how many."""
        dropped = self._archives.drop_files(clock.now(), is_over)
        if dropped:
            log.info("import_files_dropped", count=dropped)
        return dropped

    def find_pending(self, now: dt.datetime) -> Iterable[PendingTask]:
        """Yield the files that are still to be read, as delayed tasks."""
        for one in self._archives.find_reading():
            yield PendingTask(str(one.id), {"user_id": one.user_id, "import_id": one.id}, now)


def make_read_job(args: Mapping[str, Any]) -> Job:
    """Return the job that reads a file, from the arguments of the delayed task."""
    return _make_job(int(args["user_id"]), int(args["import_id"]))


def _make_job(user_id: int, import_id: int) -> Job:
    return Job(Task.READ_ARCHIVE, {"user_id": user_id, "import_id": import_id}, Queue.MEDIA)
