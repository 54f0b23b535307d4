"""The end of accounts, as a job. There is no actor: he has gone, and only his account's mark says so.

That an account goes is written in itself before anything else, and it is deleted last. So whatever ends
a run (a kill, an emptied Redis, a store that is silent), the next one finds it and goes on.
"""

from __future__ import annotations

import datetime as dt

from app import clock, logs
from app.gateways.privacy.erasure import ErasureGateway
from app.models.jobs.jobs import Job, Queue, Task

log = logs.get(__name__)

#: Accounts whose jobs are queued at once.
AT_ONCE = 100


class ErasureService:
    """Finds accounts that go, and deletes them."""

    def __init__(self, erasure: ErasureGateway) -> None:
        self._erasing = erasure

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the jobs of accounts that go; however often asked, each is one."""
        return [make_erasure_job(user_id) for user_id in self._erasing.find_leaving(AT_ONCE, now)]

    def run(self, user_id: int) -> dict[str, str]:
        """Delete an account that goes, with all that is in it; one that stays is left alone.

        Safe to run twice, at once too, and to be killed anywhere.

        Raises:
            StoreError: the store did not answer; the next run goes on.
        """
        if not self._erasing.is_begun(user_id):
            return {"state": "stays"}
        if not self._erasing.finish(user_id, clock.now()):
            return {"state": "again"}
        log.info("user_deleted", user_id=user_id)
        return {"state": "gone"}


def make_erasure_job(user_id: int) -> Job:
    """Return the job that deletes an account."""
    return Job(Task.ERASE, {"user_id": user_id}, Queue.MAINTENANCE)
