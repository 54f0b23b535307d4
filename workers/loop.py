"""Loop mode: many jobs at once on one event loop.

Three parts share the work: one coroutine claims jobs, a task per job runs it, one coroutine records the
outcomes. The blocking Redis calls of each part run in a thread of their own, so neither waits for the other.
All jobs that end while a record is being written go into the next one: the busier the worker, the fewer
round trips.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from app import logs
from app.errors import StoreError
from app.models.jobs.jobs import USER_QUEUES, Queue
from app.models.jobs.workers import Began, Ended, Leaving, Tick, WorkerSpec
from app.runtime.malloc import Trimmer
from workers import outcome
from workers.job import ClaimedJob
from workers.lifeline import ManagerChannel
from workers.outcome import AttemptOutcome, ProgressReport
from workers.queue_client import QueueClient, UnregisteredError
from workers.rlimits import limit_memory
from workers.runner import Runner

T = TypeVar("T")
_log = logs.get(__name__)

#: Seconds between looks of an idle worker, for lost wake-ups. New jobs and due retries end its sleep at once.
IDLE = 5.0
_OUTAGE_PAUSE = 0.25
#: Seconds between signs of life while jobs run; the orders say how rare they may be otherwise.
_TICK = 1.0
#: Seconds that progress waits for an outcome to be recorded with.
_GATHER = 0.1
#: Seconds that canceled tasks get to clean up; a task that ignores its cancellation is abandoned.
_CANCEL = 2.0


class LoopWorker:
    """Runs jobs until it is stopped, reaches its lifetime, or is no longer registered.

    Args:
        spec: The orders.
        desks: One client to claim jobs and one to record outcomes; each is used by one thread.
        link: The channel to the manager.
    """

    def __init__(
        self, spec: WorkerSpec, desks: tuple[QueueClient, QueueClient], link: ManagerChannel
    ) -> None:
        self._spec, self._link = spec, link
        self._desk, self._recorder = desks
        self._running: dict[str, tuple[ClaimedJob, asyncio.Task[Any]]] = {}
        self._unrecorded: list[AttemptOutcome] = []
        self._reports: dict[str, ProgressReport] = {}
        self._gathering: asyncio.TimerHandle | None = None
        self._done = 0
        self._leaving = False
        self._cancelled = False
        self._drained = False
        self._kick = asyncio.Event()  # a slot is free, a job has arrived, or it is time to leave
        self._news = asyncio.Event()  # there are outcomes to record
        self._loop = asyncio.get_running_loop()
        self._born = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def wake_up(self) -> None:
        """Look for jobs now; for wake-up hints, from any thread."""
        self._loop.call_soon_threadsafe(self._kick.set)

    def request_stop(self, reason: str) -> None:
        """Claim no more jobs, let the running ones end, then return."""
        if not self._leaving:
            self._leaving = True
            self._link.send(Leaving(reason))
            _log.info("worker_leaving", reason=reason, running=len(self._running))
            self._kick.set()

    def apply_orders(self, spec: WorkerSpec) -> None:
        """Adopt new orders; running jobs continue. Mode and name never change."""
        self._spec = spec
        self._desk.set_queues(spec.queues)
        limit_memory(spec.memory)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._born + spec.lifetime, self.request_stop, "lifetime")
        self._kick.set()

    def report(self, report: ProgressReport) -> None:
        """Publish progress with the next record; from any thread."""
        self._loop.call_soon_threadsafe(self._note, report)

    async def run(self, runner: Runner) -> None:
        """Claim and run jobs; return when all outcomes are recorded and the rest is returned."""
        with ThreadPoolExecutor(1, "take") as taking, ThreadPoolExecutor(1, "record") as recording:
            recorder = asyncio.create_task(self._record_all(recording))
            ticker = asyncio.create_task(self._tick_all())
            self.apply_orders(self._spec)
            await self._take_all(taking, runner)
            await self._drain()
            if self._timer is not None:
                self._timer.cancel()
            self._drained = True
            self._news.set()
            await recorder
            # Not earlier: while Redis is down this worker is healthy and must keep sending ticks.
            ticker.cancel()

    # -- take

    async def _take_all(self, thread: ThreadPoolExecutor, runner: Runner) -> None:
        while not self._leaving:
            self._kick.clear()
            jobs = await self._take(thread)
            for job in jobs:
                self._start(job, runner)
            if not jobs:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._kick.wait(), self._desk.limit_pause(IDLE))

    async def _take(self, thread: ThreadPoolExecutor) -> list[ClaimedJob]:
        self._desk.next_retry = None  # with no slot free, the retry must wait, too
        free = self._spec.slots - len(self._running)
        if self._spec.slots == 1:
            # A single slot means that a job runs alone; unrecorded jobs would share the next job's crash.
            free -= len(self._unrecorded)
        if free <= 0:
            return []
        of = collections.Counter(job.queue for job, _ in self._running.values())
        system = sum(count for queue, count in of.items() if queue not in USER_QUEUES)
        left = max(0, self._spec.system_slots - system)
        held = [job for job, _ in self._running.values()]
        held += [ending.job for ending in self._unrecorded]
        # A buffer counts all held jobs, including ended jobs that aren't recorded yet.
        of.update(ending.job.queue for ending in self._unrecorded)
        try:
            return await self._in(
                thread, partial(self._desk.claim_jobs, free, compute_caps(self._spec, of), held, left)
            )
        except UnregisteredError:
            # Another worker has recovered this worker's list; no outcome would be accepted anymore.
            self._cancel()
            self.request_stop("unregistered")
        except StoreError:
            _log.warning("redis_silent", while_="taking")
            await asyncio.sleep(_OUTAGE_PAUSE)
        return []

    def _start(self, job: ClaimedJob, runner: Runner) -> None:
        self._link.send(Began(job.id, runner.get_hard_limit(job), job.task, job.queue))
        attempt = asyncio.create_task(runner.run(job))
        self._running[job.id] = job, attempt
        attempt.add_done_callback(partial(self._end, job, runner))

    def _end(self, job: ClaimedJob, runner: Runner, attempt: asyncio.Task[Any]) -> None:
        if self._running.pop(job.id, None) is None:
            return  # abandoned and returned already
        self._unrecorded.append(runner.build_outcome(job, attempt, stopping=self._cancelled))
        self._link.send(Ended(job.id))
        self._done += 1
        if self._done >= self._spec.max_jobs:
            self.request_stop("max_jobs")
        self._news.set()
        self._kick.set()

    # -- record

    async def _record_all(self, thread: ThreadPoolExecutor) -> None:
        # Not "no job is running": a pending TAKE may still claim some.
        while not (self._drained and not self._unrecorded):
            await self._news.wait()
            self._news.clear()
            batch, reports = self._unrecorded[:], [*self._reports.values()]
            self._reports.clear()
            if self._gathering is not None:
                self._gathering.cancel()
                self._gathering = None
            await self._record(thread, batch, reports)
            del self._unrecorded[: len(batch)]
            self._kick.set()

    async def _record(
        self, thread: ThreadPoolExecutor, batch: list[AttemptOutcome], reports: list[ProgressReport]
    ) -> None:
        """Record until it succeeds: outcomes wait in memory while Redis is down."""
        while batch or reports:
            try:
                kept = await self._in(thread, partial(self._recorder.finish, batch, reports))
            except StoreError:
                _log.warning("redis_silent", while_="recording")
                await asyncio.sleep(_OUTAGE_PAUSE)
                continue
            for ending, ours in zip(batch, kept, strict=True):
                if not ours:
                    _log.warning("ending_refused", job_id=ending.job.id, attempt=ending.job.attempt)
            return

    def _note(self, report: ProgressReport) -> None:
        self._reports[report.job.id] = report
        if self._gathering is None:
            self._gathering = self._loop.call_later(_GATHER, self._news.set)

    # -- end

    async def _drain(self) -> None:
        """Let running jobs end within the grace period, then cancel the rest; those return uncounted."""
        deadline = time.monotonic() + self._spec.grace
        if self._running and not self._cancelled:
            await asyncio.wait(self._tasks(), timeout=max(0.0, deadline - time.monotonic()))
        if self._running:
            self._cancel()
            await asyncio.wait(self._tasks(), timeout=_CANCEL)
        # Tasks that ignore their cancellation are returned too; their later outcome will be refused.
        for job, _ in self._running.values():
            _log.warning("task_ignores_stop", job_id=job.id, task=job.task)
            self._unrecorded.append(outcome.return_job(job))
        self._running.clear()

    def _cancel(self) -> None:
        self._cancelled = True
        # In reverse: each goes to the front of its queue, so their order stays.
        for task in reversed(self._tasks()):
            task.cancel()

    def _tasks(self) -> list[asyncio.Task[Any]]:
        return [task for _, task in self._running.values()]

    async def _tick_all(self) -> None:
        trimmer = Trimmer()
        while True:
            self._link.send(Tick(self._done))
            trimmer.trim_after(self._done)
            busy = self._running or self._unrecorded or self._leaving
            await asyncio.sleep(min(_TICK, self._spec.tick) if busy else self._spec.tick)

    async def _in(self, thread: ThreadPoolExecutor, call: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(thread, call)


def compute_caps(spec: WorkerSpec, held: Mapping[str, int]) -> dict[str, int]:
    """Return how many more jobs may be claimed from each queue with its own buffer."""
    most = {q: rule.buffer for q, rule in spec.rules.items() if rule.buffer is not None}
    # An import waits for pulls, so imports alone must never fill a worker.
    most.setdefault(Queue.IMPORT, max(1, spec.slots - max(1, spec.slots // 3)))
    return {q: max(0, buffer - held.get(q, 0)) for q, buffer in most.items()}
