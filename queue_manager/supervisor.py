"""Keeps the workers as the policy wants them. One event loop; all its state is in memory and may be lost.

State that must survive is in Redis: the in-flight lists, and which manager watches which worker. So the next
manager, here or on another host, recovers the jobs of a killed one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from typing import Any

from app import logs
from app.config import Settings
from app.errors import SettingsError
from app.models.jobs import redis_keys
from app.runtime.redis_errors import OUTAGE, describe_outage
from queue_manager import policy
from queue_manager.child import warm_up
from queue_manager.dead import DeadJobs
from queue_manager.groups import QueueSettings
from queue_manager.orphans import OrphanedJobs
from queue_manager.policy import DeathVerdict, Kill, Start, Stop
from queue_manager.processes import WorkerProcesses
from queue_manager.recovery import Recovery
from queue_manager.targets import WorkerTargets

_log = logs.get(__name__)

#: Seconds between two looks at all workers, and while no worker runs a job, starts or leaves; deaths and
#: the start of a job arrive at once. A short stall time needs more looks.
LOOK, CALM_LOOK = 0.25, 4.0
#: Seconds; a look later than this means that the machine or this process stood still.
_LATE = 1.0
#: Longest time between two heartbeats, seconds; a short lease needs more.
_BEAT = redis_keys.ALIVE_SECONDS / 3
_OUTAGE_PAUSE = 0.5
#: Seconds that a stopping manager tries to reach Redis; the next manager does the rest.
_LAST_TRY = 5.0


class Supervisor:
    """Starts, watches, limits and cleans up workers."""

    def __init__(self, settings: Settings, table: QueueSettings, recovery: Recovery, manager: str) -> None:
        self._recovery, self.manager = recovery, manager
        self._beat = min(_BEAT, settings.manager_lease / 4)
        self._stopping = asyncio.Event()
        self._news = asyncio.Event()
        self.processes = WorkerProcesses(settings, manager, self._on_burial, self._news.set)
        self.dead, self._strays = DeadJobs(recovery.client), OrphanedJobs(recovery.client, manager)
        self.targets = WorkerTargets(settings, table, recovery.client, self.processes, self._news.set)
        self._recoveries: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Stop all workers gracefully, then return from :meth:`run`; a second call doesn't wait for jobs."""
        if self._stopping.is_set():
            self.processes.kill_all(policy.SHUTDOWN)
        self._stopping.set()
        self._news.set()

    def on_hangup(self) -> None:
        """Read the settings file again, or log why it isn't valid."""
        try:
            self.targets.reload()
        except SettingsError as e:
            _log.error("settings_refused", message=e.message)

    # -- the loop

    async def run(self) -> None:
        """Work until :meth:`stop`; return when no worker is left and their jobs are back."""
        self.targets.warn()
        # In a thread, so that signals are handled while it loads.
        await asyncio.gather(asyncio.to_thread(warm_up), self._until_redis_answers())
        background = [
            asyncio.create_task(part)
            for part in (self._beat_all(), self.targets.follow_changes(), self.targets.listen())
        ]
        _log.info("ready", manager=self.manager, groups=",".join(self.targets.get_wanted()))
        while not self._stopping.is_set() or len(self.processes):
            await self._look()
            self._news.clear()
            began = time.monotonic()
            pause = self._get_calm_pause() if self._is_calm() else LOOK
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), pause)
            self._excuse(time.monotonic() - began - pause)
        for task in background:
            task.cancel()
        await self._sign_off()

    def _is_calm(self) -> bool:
        """Return whether all wanted workers are there, and none has a deadline soon."""
        wanted = sum(self.targets.get_wanted().values())
        return not self._stopping.is_set() and len(self.processes) == wanted and self.processes.is_calm()

    def _get_calm_pause(self) -> float:
        ticks = (policy.compute_tick(group.stall) for group in self.targets.table.groups)
        return min([CALM_LOOK, *ticks])

    def _excuse(self, late: float) -> None:
        """Don't count time against workers in which this process stood still: they may have too."""
        if late > _LATE:
            _log.warning("held_up", seconds=round(late, 1))
            self.processes.extend_deadlines(late)

    async def _look(self) -> None:
        now = time.monotonic()
        actions = policy.decide_actions(
            now,
            [*self.targets.table.groups, *self.targets.retired.values()],
            self.processes.build_views(now),
            stopping=self._stopping.is_set(),
            targets=self.targets.get_wanted(),
            not_before=self.processes.not_before,
        )
        for action in actions:
            match action:
                case Start(group):
                    await self._start(group)
                case Stop(worker, reason) if child := self.processes.get(worker):
                    _log.info("worker_stop", worker=worker, reason=reason)
                    child.stop(reason)
                case Kill(worker, reason) if child := self.processes.get(worker):
                    _log.warning("worker_kill", worker=worker, reason=reason)
                    child.kill(reason)

    async def _start(self, name: str) -> None:
        table = self.targets.table
        if (group := table.find_group(name)) is None:
            return  # the settings have changed since
        spec = self.processes.build_spec(group, table.rules)
        try:
            await self._recovery.register(spec.name)
        except OUTAGE as e:
            _log.warning("redis_silent", while_="starting a worker", error=describe_outage(e))
            self.processes.not_before[name] = time.monotonic() + _OUTAGE_PAUSE
            return
        if not self.processes.start(spec):
            self._in_background(self._recover(spec.name, DeathVerdict(False, "not started"), []))

    def _on_burial(self, worker: str, verdict: DeathVerdict, ran: list[str]) -> None:
        self._in_background(self._recover(worker, verdict, ran))
        self._news.set()

    # -- Redis

    async def _recover(self, worker: str, verdict: DeathVerdict, ran: list[str]) -> None:
        while True:
            try:
                rules = self.targets.table.rules
                _log_jobs(worker, await self._recovery.recover(worker, verdict, ran, rules))
            except OUTAGE as e:
                _log.warning("redis_silent", while_="recovering", worker=worker, error=describe_outage(e))
                await asyncio.sleep(_OUTAGE_PAUSE)
            else:
                return

    async def _until_redis_answers(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._recovery.send_heartbeat([])
                _log_jobs("of lost managers", await self._recovery.sweep())
                await self.targets.read_overrides()
            except OUTAGE as e:
                _log.warning("redis_silent", while_="starting", error=describe_outage(e))
                await asyncio.sleep(_OUTAGE_PAUSE)
            else:
                return

    async def _beat_all(self) -> None:
        while True:
            try:
                await self._recovery.send_heartbeat([child.spec.name for child in self.processes])
                _log_jobs("of lost managers", await self._recovery.sweep())
                if await self._strays.claim_turn():
                    await self._sweep_strays()
            except OUTAGE as e:
                _log.warning("redis_silent", while_="heartbeat", error=describe_outage(e))
            await asyncio.sleep(self._beat)

    async def _sweep_strays(self) -> None:
        for worker in await self._strays.find_workers():
            _log_jobs(worker, await self._recovery.recover(worker, DeathVerdict(False, "unknown worker")))
        for job_id, said in (await self._strays.requeue_jobs()).items():
            _log.warning("stray_job", job_id=job_id, said=said)
        await self.dead.forget_expired()

    async def _sign_off(self) -> None:
        try:
            async with asyncio.timeout(_LAST_TRY):
                while self._recoveries:
                    await asyncio.wait(self._recoveries)
                await self._strays.release_turn()
                await self._recovery.sign_off()
        except (TimeoutError, *OUTAGE):
            _log.warning("redis_silent", while_="ending")

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._recoveries.add(task)
        task.add_done_callback(self._recoveries.discard)


def _log_jobs(worker: str, jobs: dict[str, str]) -> None:
    for job_id, what in jobs.items():
        log = _log.error if what == "failed" else _log.warning
        log("job_recovered", worker=worker, job_id=job_id, became=what)
