"""Solo mode: one job at a time in the main thread, for CPU work and for code that blocks.

Nothing can be done here while a job runs, so the manager holds its deadline and ends the process when
a stop takes longer than the grace; the job then goes back uncounted.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from app import logs
from app.errors import StoreError
from app.models.workers import Began, Ended, Leaving, Tick, WorkerSpec
from workers.desk import Desk, UnregisteredError
from workers.endings import Ending, Report
from workers.lifeline import Link
from workers.loop import IDLE
from workers.runner import Runner
from workers.taken import Taken

_log = logs.get(__name__)
_OUTAGE_PAUSE = 0.25


class SoloWorker:
    """Runs one job after the other until it is stopped, has served its time, or is unregistered."""

    def __init__(self, spec: WorkerSpec, desk: Desk, link: Link) -> None:
        self._spec, self._desk, self._link = spec, desk, link
        self._until = time.monotonic() + spec.lifetime
        self._done = 0
        self._reason: str | None = None
        self._kick = threading.Event()

    def kick(self) -> None:
        """Look for jobs now; from any thread."""
        self._kick.set()

    def leave(self, reason: str) -> None:
        """Take no more jobs; safe in a signal handler."""
        self._reason = self._reason or reason
        self._kick.set()

    def report(self, report: Report) -> None:
        """Publish progress now; what cannot be published is dropped."""
        try:
            self._desk.report([report])
        except StoreError:
            _log.warning("progress_dropped", job_id=report.job.id)

    def work(self, runner: Runner) -> None:
        """Take and run jobs; returns when the last end is recorded."""
        with asyncio.Runner() as loop:
            while self._reason is None:
                self._kick.clear()
                self._link.send(Tick(self._done))
                job = self._take()
                if job is None:
                    self._kick.wait(IDLE)
                    continue
                self._record(self._run(job, runner, loop))
                self._retire()
        self._link.send(Leaving(self._reason))
        _log.info("worker_leaving", reason=self._reason)

    def _retire(self) -> None:
        if self._done >= self._spec.max_jobs:
            self.leave("max_jobs")
        elif time.monotonic() > self._until:
            self.leave("lifetime")

    def _take(self) -> Taken | None:
        try:
            jobs = self._desk.take(1, {}, ())
        except UnregisteredError:
            self.leave("unregistered")
            return None
        except StoreError:
            _log.warning("redis_silent", while_="taking")
            time.sleep(_OUTAGE_PAUSE)
            return None
        return jobs[0] if jobs else None

    def _run(self, job: Taken, runner: Runner, loop: asyncio.Runner) -> Ending:
        self._link.send(Began(job.id, runner.limit(job)))
        attempt = loop.run(_await_end(runner, job))
        self._link.send(Ended(job.id))
        self._done += 1
        return runner.ending(job, attempt, stopping=False)

    def _record(self, ending: Ending) -> None:
        while True:
            try:
                (kept,) = self._desk.finish([ending])
            except StoreError:
                _log.warning("redis_silent", while_="recording")
                time.sleep(_OUTAGE_PAUSE)
                continue
            if not kept:
                _log.warning("ending_refused", job_id=ending.job.id, attempt=ending.job.attempt)
            return


async def _await_end(runner: Runner, job: Taken) -> asyncio.Task[Any]:
    attempt = asyncio.create_task(runner.run(job))
    await asyncio.wait({attempt})
    return attempt
