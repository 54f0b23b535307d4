"""Contracts that services own and outer layers fulfil."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from app.models.jobs import Job, JobView, Outcome, Ticket


class JobPort(Protocol):
    """Enqueue jobs and await their ends; ``app.jobs.RedisJobs`` in every process.

    All methods raise:
        StoreError: Redis does not answer.
    """

    def enqueue(self, job: Job) -> Ticket:
        """Queue a job, or join the one with the same task and arguments that is queued or running.

        Raises:
            TooLargeError: the arguments exceed 64 KiB as JSON.
            InvalidError: the arguments are not JSON.
        """
        ...

    def enqueue_many(self, jobs: Sequence[Job]) -> list[Ticket]:
        """The same for many jobs in few round trips; tickets in the order of the jobs."""
        ...

    def await_many(self, tickets: Sequence[Ticket], timeout: float) -> Iterator[Outcome]:
        """Yield outcomes as they come, at most ``timeout`` seconds long.

        What has not ended by then is simply not yielded: 95 of 100 may be enough for the caller.
        """
        ...

    def status(self, job_id: str) -> JobView:
        """Return a job's state and last progress; never raises for an unknown id."""
        ...
