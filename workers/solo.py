"""Solo mode: one job at a time in the main thread, for CPU work and blocking code.

With several slots it claims the next jobs in advance by one TAKE, which pays off for short jobs. Before each
job it looks for new orders. Each outcome is sent at once, but the answer is only awaited when no job is in
hand: Redis works while the next job runs.

The worker can't react while a job runs. So the manager holds the job's deadline, and kills the process when
a stop takes longer than the grace period; the job then returns without counting.
"""

from __future__ import annotations

import asyncio
import collections
import threading
import time
from typing import Any

from app import logs
from app.errors import StoreError
from app.models.jobs.workers import Began, Ended, Leaving, Tick, WorkerSpec
from workers import outcome
from workers.job import ClaimedJob
from workers.lifeline import ManagerChannel
from workers.loop import IDLE, compute_caps
from workers.outcome import AttemptOutcome, ProgressReport
from workers.queue_client import QueueClient, UnregisteredError
from workers.rlimits import limit_memory
from workers.runner import Runner
from workers.wakeup import WakeupSignal

_log = logs.get(__name__)
_OUTAGE_PAUSE = 0.25
_TICK = 0.5


class SoloWorker:
    """Runs one job after the other until it is stopped, reaches its lifetime, or is unregistered."""

    def __init__(self, spec: WorkerSpec, desk: QueueClient, link: ManagerChannel) -> None:
        self._spec, self._desk, self._link = spec, desk, link
        self._born = time.monotonic()
        self._hand: collections.deque[ClaimedJob] = collections.deque()
        #: Outcomes that were sent and have no answer yet.
        self._sent: collections.deque[AttemptOutcome] = collections.deque()
        self._done = 0
        self._last = ""  # id of the last job
        self._ticked = 0.0
        self._reason: str | None = None
        self._bell = WakeupSignal()
        #: Set when the worker should stop; a job that waits looks at it.
        self.stopping = threading.Event()

    def wake_up(self) -> None:
        """Look for jobs now; from any thread."""
        self._bell.notify()

    def request_stop(self, reason: str) -> None:
        """Claim no more jobs; safe in a signal handler."""
        self._reason = self._reason or reason
        self.stopping.set()
        self._bell.notify()

    def apply_orders(self, spec: WorkerSpec) -> None:
        """Adopt new orders from the next job on."""
        self._spec = spec
        self._desk.set_queues(spec.queues)
        limit_memory(spec.memory)

    def report(self, report: ProgressReport) -> None:
        """Publish progress now; drop it if that fails."""
        try:
            self._desk.report([report])
        except StoreError:
            _log.warning("progress_dropped", job_id=report.job.id)

    def run(self, runner: Runner) -> None:
        """Claim and run jobs; return when the last outcome is recorded and the rest is returned."""
        with asyncio.Runner() as owner:
            loop = owner.get_loop()  # Runner.run() would set and restore signal handlers for each job
            while self._reason is None:
                self._bell.wait(0)  # clears the signal: this turn looks for jobs and orders
                self._tick()
                if (orders := self._link.receive()) is not None:
                    self.apply_orders(orders)
                    runner.set_rules(orders.rules)
                if self._hand or self._take():
                    self._send(self._run(self._hand.popleft(), runner, loop))
                else:
                    self._bell.wait(self._get_pause())
                self._retire()
        self._settle(wait=True)
        # In reverse: each goes to the front of its queue, so their order stays.
        self._record([outcome.return_job(job) for job in reversed(self._hand)])
        self._link.send(Leaving(self._reason))
        _log.info("worker_leaving", reason=self._reason)

    def _tick(self) -> None:
        """Send a sign of life; with short jobs, their starts and ends are enough."""
        now = time.monotonic()
        if now - self._ticked >= _TICK:
            self._ticked = now
            self._link.send(Tick(self._done))

    def _get_pause(self) -> float:
        """Return the seconds for which an idle worker sleeps unless a job arrives."""
        left = self._born + self._spec.lifetime - time.monotonic()
        return max(0.0, self._desk.limit_pause(min(IDLE, self._spec.tick, left)))

    def _retire(self) -> None:
        if self._done >= self._spec.max_jobs:
            self.request_stop("max_jobs")
        elif time.monotonic() > self._born + self._spec.lifetime:
            self.request_stop("lifetime")

    def _take(self) -> bool:
        spec, held = self._spec, [ending.job for ending in self._sent]
        try:
            self._hand += self._desk.claim_jobs(spec.slots, compute_caps(spec, {}), held, spec.system_slots)
        except UnregisteredError:
            self.request_stop("unregistered")
        except StoreError:
            _log.warning("redis_silent", while_="taking")
            time.sleep(_OUTAGE_PAUSE)
        self._settle(wait=True)  # these answers arrived before the TAKE's
        return bool(self._hand)

    def _run(self, job: ClaimedJob, runner: Runner, loop: asyncio.AbstractEventLoop) -> AttemptOutcome:
        self._link.send(Began(job.id, runner.get_hard_limit(job), job.task, job.queue))
        attempt = loop.run_until_complete(_await_end(runner, job))
        self._last = job.id
        if not self._hand:
            self._link.send(Ended(job.id))  # else the next job's start implies it
        self._done += 1
        return runner.build_outcome(job, attempt, stopping=False)

    def _send(self, ending: AttemptOutcome) -> None:
        self._settle(wait=False)
        try:
            self._desk.send_outcome(ending)
        except StoreError:
            self._record([*self._sent, ending])
            self._sent.clear()
        else:
            self._sent.append(ending)

    def _settle(self, *, wait: bool) -> None:
        """Read the answers to sent outcomes: those that have arrived, or all."""
        try:
            while self._sent and (wait or self._desk.has_answer()):
                ours = self._desk.read_answer()
                _judge(self._sent.popleft(), ours)
        except StoreError:
            self._record([*self._sent])
            self._sent.clear()

    def _record(self, batch: list[AttemptOutcome]) -> None:
        while batch:
            try:
                kept = self._desk.finish(batch)
            except StoreError:
                _log.warning("redis_silent", while_="recording")
                # The worker is healthy and no job runs: neither this worker nor the last job is to blame.
                self._link.send(Ended(self._last))
                self._tick()
                time.sleep(_OUTAGE_PAUSE)
                continue
            for ending, ours in zip(batch, kept, strict=True):
                _judge(ending, ours)
            return


def _judge(ending: AttemptOutcome, ours: bool) -> None:
    if not ours:
        _log.warning("ending_refused", job_id=ending.job.id, attempt=ending.job.attempt)


async def _await_end(runner: Runner, job: ClaimedJob) -> asyncio.Task[Any]:
    attempt = asyncio.create_task(runner.run(job))
    await asyncio.wait({attempt})
    return attempt
