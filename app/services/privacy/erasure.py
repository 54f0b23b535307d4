"""The deletion of accounts, as a job. There is no actor: the user is gone, and only a mark on the account
remains.

The mark is written before anything else, and the account's document is deleted last. So when a run ends early
(a kill, an emptied Redis, a store that doesn't answer), the next run finds the account and continues.
"""

from __future__ import annotations

import datetime as dt

from app import clock, logs
from app.gateways.privacy.erasure import ErasureGateway
from app.models.jobs.jobs import Job, Queue, Task
from app.services.media.uploads import UploadService

log = logs.get(__name__)

#: Accounts whose jobs are queued at a time.
AT_ONCE = 100


class ErasureService:
    """Finds the accounts to delete, and deletes them."""

    def __init__(self, erasure: ErasureGateway, uploads: UploadService) -> None:
        self._erasing, self._uploads = erasure, uploads

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the jobs of accounts to delete; a repeated call returns jobs with the same identity."""
        return [make_erasure_job(user_id) for user_id in self._erasing.find_leaving(AT_ONCE, now)]

    def run(self, user_id: int) -> dict[str, str]:
        """Delete an account marked for deletion, with all its data; leave any other account alone.

        Safe to run twice, even concurrently, and to be killed anywhere.

        Raises:
            StoreError: the store did not answer; the next run continues.
        """
        if not self._erasing.is_begun(user_id):
            return {"state": "stays"}
        self._uploads.end_all(user_id)  # while their documents still say where their bytes are
        if not self._erasing.finish(user_id, clock.now()):
            return {"state": "again"}
        log.info("user_deleted", user_id=user_id)
        return {"state": "gone"}


def make_erasure_job(user_id: int) -> Job:
    """Return the job that deletes an account."""
    return Job(Task.ERASE, {"user_id": user_id}, Queue.MAINTENANCE)
