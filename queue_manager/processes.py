"""The worker processes of one manager: starting, orders, ending, cleaning up. Makes no decisions."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping

from app import logs
from app.config import Settings
from app.models.jobs.workers import QueueRules, WorkerSpec
from queue_manager import policy
from queue_manager.child import RunningJob, WorkerProcess
from queue_manager.groups import Group, QueueSettings
from queue_manager.policy import DeathVerdict, WorkerView

_log = logs.get(__name__)

#: Called with an ended worker's name, the verdict on its death, and the jobs that it ran.
Buried = Callable[[str, DeathVerdict, list[str]], None]


class WorkerProcesses:
    """All worker processes, used only by the manager's event loop."""

    def __init__(
        self, settings: Settings, manager: str, buried: Buried, stirred: Callable[[], None] = lambda: None
    ) -> None:
        """Create the table.

        Args:
            settings: The settings of the process.
            manager: This manager's identity.
            buried: Called after the end of a worker.
            stirred: Called when :meth:`is_calm` ends because a worker has begun a job.
        """
        self._settings, self._manager, self._buried = settings, manager, buried
        self._stirred = stirred
        self._children: dict[str, WorkerProcess] = {}
        self._deaths: dict[str, int] = {}
        #: Per group, the earliest time to start the next worker.
        self.not_before: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[WorkerProcess]:
        return iter(list(self._children.values()))

    def get(self, worker: str) -> WorkerProcess | None:
        """Return a worker by name."""
        return self._children.get(worker)

    def build_views(self, now: float) -> list[WorkerView]:
        """Return the current state of all workers, including their memory."""
        for child in self._children.values():
            child.measure()
        return [child.build_view(now) for child in self._children.values()]

    def list_running(self, group: str) -> list[RunningJob]:
        """Return the jobs that run in a group."""
        return [run for child in self if child.spec.group == group for run in child.running]

    def build_spec(self, group: Group, rules: Mapping[str, QueueRules]) -> WorkerSpec:
        """Return the orders for a new worker."""
        # Vary the lifetimes, so that a group's workers aren't all replaced at once.
        wear = random.uniform(0.9, 1.1)  # noqa: S311 — not a secret
        name = f"{group.name}-{secrets.token_hex(6)}"
        return _spec(name, self._manager, group, rules, wear)

    def start(self, spec: WorkerSpec) -> bool:
        """Start a worker; blocks for the fork, about 20 ms. Return False if no process could be created."""
        child = WorkerProcess(spec, self._settings)
        try:
            child.start()
        except (OSError, EOFError):
            # Out of memory or processes, or the fork server was killed: the next attempt starts a new one.
            _log.error("worker_not_started", exc_info=True, group=spec.group)
            self.not_before[spec.group] = time.monotonic() + policy.PAUSE_MOST / 10
            return False
        self._children[spec.name] = child
        loop = asyncio.get_running_loop()
        loop.add_reader(child.line, self._on_message, child)
        loop.add_reader(child.sentinel, self._on_death, child)
        _log.info("worker_started", worker=spec.name, group=spec.group, pid=child.pid)
        return True

    def is_calm(self) -> bool:
        """Return whether no worker runs a job, starts, or leaves: deadlines are far away then."""
        return all(child.is_calm for child in self)

    def _on_message(self, child: WorkerProcess) -> None:
        before = child.is_calm
        child.read_messages()
        if before and not child.is_calm:
            self._stirred()

    def apply_table(self, table: QueueSettings) -> None:
        """Send new orders to workers whose group has changed."""
        for child in self:
            group = table.find_group(child.spec.group)
            if group is not None and group.mode == child.spec.mode:
                spec = _spec(child.spec.name, self._manager, group, table.rules, child.spec.wear)
                if spec != child.spec:
                    child.send_orders(spec)

    def extend_deadlines(self, seconds: float) -> None:
        """Extend all deadlines by time in which the machine stood still, for which no worker is to blame."""
        for child in self:
            child.extend_deadlines(seconds)

    def kill_all(self, reason: str) -> None:
        """Kill all workers now."""
        for child in self:
            child.kill(reason)

    def _on_death(self, child: WorkerProcess) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(child.sentinel)
        loop.remove_reader(child.line)
        code = child.reap_process()
        name, group = child.spec.name, child.spec.group
        del self._children[name]
        verdict = policy.judge_death(code, child.killed)
        _log.info("worker_ended", worker=name, exitcode=code, crash=verdict.is_crash, reason=verdict.reason)
        self._deaths[group] = 0 if child.was_ready or not verdict.is_crash else self._deaths.get(group, 0) + 1
        self.not_before[group] = time.monotonic() + policy.compute_pause(self._deaths[group])
        self._buried(name, verdict, [run.id for run in child.running])


def _spec(name: str, manager: str, group: Group, rules: Mapping[str, QueueRules], wear: float) -> WorkerSpec:
    return WorkerSpec(
        name=name,
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
        tick=policy.compute_tick(group.stall),
        wear=wear,
        rules={queue: rules[queue] for queue in group.queues},
    )
