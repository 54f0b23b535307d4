"""Keeps the workers as the policy wants them. One event loop; all state is in memory and may be lost.

What must survive is in Redis: the in-flight lists, and which manager watches which worker. So the next
manager, here or on another host, puts back what this one leaves when it is killed.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Coroutine
from typing import Any

import redis

from app import logs
from app.config import Settings
from app.models.workers import WorkerSpec
from queue_manager import policy
from queue_manager.child import Child, warm_up
from queue_manager.groups import Group
from queue_manager.policy import Kill, Start, Stop, Verdict
from queue_manager.recovery import OUTAGE, Recovery

_log = logs.get(__name__)

#: Time between two looks at all workers, seconds; deaths and messages come by themselves.
LOOK = 0.25
_BEAT = 3.0
_OUTAGE_PAUSE = 0.5
#: How long a manager that stops tries to reach Redis; the next one does the rest.
_LAST_TRY = 5.0


class Supervisor:
    """Starts, watches, limits and buries workers."""

    def __init__(
        self, settings: Settings, groups: tuple[Group, ...], recovery: Recovery, manager: str
    ) -> None:
        self._settings, self._recovery, self._manager = settings, recovery, manager
        self._groups = {group.name: group for group in groups}
        self._children: dict[str, Child] = {}
        self._deaths: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._recoveries: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._news = asyncio.Event()

    def stop(self) -> None:
        """End all workers in order, then return from :meth:`run`; the second call does not wait for jobs."""
        if self._stopping.is_set():
            for child in self._children.values():
                child.kill(policy.SHUTDOWN)
        self._stopping.set()
        self._news.set()

    async def run(self) -> None:
        """Work until :meth:`stop`; returns when no worker is left and their jobs are back."""
        # In a thread: while it loads, signals are heard.
        await asyncio.gather(asyncio.to_thread(warm_up), self._until_redis_answers())
        beat = asyncio.create_task(self._beat_all())
        _log.info("ready", manager=self._manager, groups=",".join(self._groups))
        while not self._stopping.is_set() or self._children:
            await self._look()
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), LOOK)
            except TimeoutError:
                continue
        beat.cancel()
        await self._sign_off()

    # -- workers

    async def _look(self) -> None:
        now = time.monotonic()
        for child in self._children.values():
            child.measure()
        actions = policy.decide(
            now,
            list(self._groups.values()),
            [child.view(now) for child in self._children.values()],
            stopping=self._stopping.is_set(),
            not_before=self._not_before,
        )
        for action in actions:
            match action:
                case Start(group):
                    await self._start(self._groups[group])
                case Stop(worker, reason):
                    _log.info("worker_stop", worker=worker, reason=reason)
                    self._children[worker].stop(reason)
                case Kill(worker, reason):
                    _log.warning("worker_kill", worker=worker, reason=reason)
                    self._children[worker].kill(reason)

    async def _start(self, group: Group) -> None:
        spec = _spec(group, self._manager)
        try:
            await self._recovery.register(spec.name)
        except OUTAGE as e:
            _log.warning("redis_silent", while_="starting a worker", error=_word(e))
            self._not_before[group.name] = time.monotonic() + _OUTAGE_PAUSE
            return
        child = Child(spec, self._settings)
        try:
            child.start()
        except (OSError, EOFError):
            # No memory or no process left, or the fork server was killed: the next try starts a new one.
            _log.error("worker_not_started", exc_info=True, group=group.name)
            self._not_before[group.name] = time.monotonic() + policy.PAUSE_MOST / 10
            self._in_background(self._recover(spec.name, Verdict(False, "not started")))
            return
        self._children[spec.name] = child
        loop = asyncio.get_running_loop()
        loop.add_reader(child.line, child.read)
        loop.add_reader(child.sentinel, self._on_death, child)
        _log.info("worker_started", worker=spec.name, group=group.name, pid=child.pid)

    def _on_death(self, child: Child) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(child.sentinel)
        loop.remove_reader(child.line)
        code = child.bury()
        del self._children[child.spec.name]
        verdict = policy.verdict(code, child.killed)
        _log.info(
            "worker_ended", worker=child.spec.name, exitcode=code, crash=verdict.crash, reason=verdict.reason
        )
        group = child.spec.group
        self._deaths[group] = 0 if child.was_ready or not verdict.crash else self._deaths.get(group, 0) + 1
        self._not_before[group] = time.monotonic() + policy.pause(self._deaths[group])
        self._in_background(self._recover(child.spec.name, verdict))
        self._news.set()

    # -- Redis

    async def _recover(self, worker: str, verdict: Verdict) -> None:
        while True:
            try:
                _log_jobs(worker, await self._recovery.recover(worker, verdict))
            except OUTAGE as e:
                _log.warning("redis_silent", while_="recovering", worker=worker, error=_word(e))
                await asyncio.sleep(_OUTAGE_PAUSE)
            else:
                return

    async def _until_redis_answers(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._recovery.heartbeat([])
                _log_jobs("of lost managers", await self._recovery.sweep())
            except OUTAGE as e:
                _log.warning("redis_silent", while_="starting", error=_word(e))
                await asyncio.sleep(_OUTAGE_PAUSE)
            else:
                return

    async def _beat_all(self) -> None:
        while True:
            try:
                await self._recovery.heartbeat(list(self._children))
                _log_jobs("of lost managers", await self._recovery.sweep())
            except OUTAGE as e:
                _log.warning("redis_silent", while_="heartbeat", error=_word(e))
            await asyncio.sleep(_BEAT)

    async def _sign_off(self) -> None:
        try:
            async with asyncio.timeout(_LAST_TRY):
                while self._recoveries:
                    await asyncio.wait(self._recoveries)
                await self._recovery.leave()
        except (TimeoutError, *OUTAGE):
            _log.warning("redis_silent", while_="ending")

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._recoveries.add(task)
        task.add_done_callback(self._recoveries.discard)


def _spec(group: Group, manager: str) -> WorkerSpec:
    # Worn out at different times, so that never all of a group are replaced at once.
    wear = random.uniform(0.9, 1.1)  # noqa: S311 — nothing secret
    return WorkerSpec(
        name=f"{group.name}-{secrets.token_hex(6)}",
        manager=manager,
        group=group.name,
        queues=group.queues,
        mode=group.mode,
        slots=group.slots,
        system_slots=group.system_slots,
        memory=group.memory,
        lifetime=group.lifetime * wear,
        max_jobs=max(1, round(group.max_jobs * wear)),
        grace=group.grace,
    )


def _word(error: Exception) -> str:
    """Return what a log line needs of an outage: Redis' own words when it refuses, else the kind."""
    return str(error)[:120] if isinstance(error, redis.ResponseError) else type(error).__name__


def _log_jobs(worker: str, jobs: dict[str, str]) -> None:
    for job_id, what in jobs.items():
        log = _log.error if what == "failed" else _log.warning
        log("job_recovered", worker=worker, job_id=job_id, became=what)
