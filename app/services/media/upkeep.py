"""Maintenance of uploads every five minutes; storage is counted again every hour."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

from app import clock, logs
from app.gateways.media.quota import QuotaGateway
from app.models.jobs.jobs import Job, Queue, Task
from app.services.media.picture_uploads import PictureUploads
from app.services.media.uploads import UploadService

log = logs.get(__name__)

#: Seconds between two runs; the first run of each hour begins to count again.
EVERY = 300
#: Files of uploads that have ended are deleted with their day, this many days later.
DAYS = 3


class UpkeepService:
    """Ends what has expired, queues what was forgotten, and counts again."""

    def __init__(self, uploads: UploadService, pictures: PictureUploads, quota: QuotaGateway) -> None:
        self._uploads, self._pictures, self._quota = uploads, pictures, quota
        self._turn: int | None = None

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the job of the next run, once per :data:`EVERY` seconds; for the updater."""
        turn = int(now.timestamp()) // EVERY
        if turn == self._turn:
            return []
        self._turn = turn
        return [Job(Task.TEND_UPLOADS, {}, Queue.MAINTENANCE)]

    def run(self, seconds: float, is_stopping: Callable[[], bool]) -> dict[str, int]:
        """Do all that is due, for at most ``seconds``; the next run continues."""
        now, end = clock.now(), time.monotonic() + seconds

        def is_over() -> bool:
            return is_stopping() or time.monotonic() >= end

        report = {
            "expired": self._uploads.expire(now, is_over),
            "sealing": self._uploads.requeue_sealing(),
            "pictures": self._pictures.requeue_waiting(),
            "leftovers": self._uploads.remove_leftovers((now - dt.timedelta(days=DAYS)).date()),
        }
        if now.minute * 60 < EVERY or self._quota.is_recounting():
            report["recounted"] = self._quota.recount_all(is_over, resume=True)
        if any(report.values()):
            log.info("uploads_tended", **report)
        return report
