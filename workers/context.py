"""The context of a task: its job, settings, services and progress reports."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

from app.adapters.redis.jobs import RedisJobs
from app.bootstrap import services as bootstrap
from app.config import Settings
from app.errors import StoreError
from app.runtime.lazy import lazy
from workers.job import ClaimedJob
from workers.outcome import ProgressReport


class Resources:
    """Resources that all jobs of one worker process share, created at first use and never at import."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        #: Set when a solo worker should stop.
        self.stopping = threading.Event()

    @lazy
    def services(self) -> bootstrap.Services:
        """All services, as every process builds them."""
        return bootstrap.build(self.settings)

    @lazy
    def fetcher(self) -> Any:
        """The shared fetcher, so that all batches share its connections and per-host limits."""
        return bootstrap.build_fetcher(self.settings).__enter__()

    def close(self) -> None:
        """Close the resources, dependent ones first."""
        if (fetcher := self.__dict__.pop("fetcher", None)) is not None:
            fetcher.__exit__(None, None, None)
        if (services := self.__dict__.pop("services", None)) is not None:
            services.close()


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """One attempt of a job, as its task sees it.

    Attributes:
        job: The attempt; ``job.token`` identifies it uniquely, for claims in MongoDB.
        settings: The settings of this process, with those of the job's queue.
        limit: Longest run of this attempt, seconds.
    """

    job: ClaimedJob
    settings: Settings
    limit: float
    _resources: Resources
    _sink: Callable[[ProgressReport], None]

    @property
    def services(self) -> bootstrap.Services:
        """All services, shared by the jobs of this process."""
        return self._resources.services

    @property
    def fetcher(self) -> Any:
        """The shared fetcher; its ``stream()`` serves several batches at once."""
        return self._resources.fetcher

    @property
    def jobs(self) -> RedisJobs:
        """The job queue, to enqueue further jobs."""
        return self._resources.services.jobs

    @property
    def parents(self) -> tuple[str, ...]:
        """Tokens of earlier attempts of this job. They are dead: this attempt may take over their claims."""
        own = tuple(self.job.build_token(n) for n in range(1, self.job.attempt))
        return self.job.parents + own

    def is_held(self) -> bool:
        """Return whether this attempt is still this worker's. Blocking.

        A worker that was frozen for too long has lost its jobs without knowing. While Redis doesn't answer
        the job counts as held: nobody can take it over then.
        """
        try:
            return self.jobs.is_running(self.job.id, self.job.since, self.job.attempt)
        except StoreError:
            return True

    @property
    def stopping(self) -> threading.Event:
        """Set when the solo worker should stop: a long job then ends early."""
        return self._resources.stopping

    def report_progress(self, **data: Any) -> None:
        """Report the progress of this job to waiters. Never blocks; a newer report replaces an older one."""
        self._sink(ProgressReport(self.job, data))
