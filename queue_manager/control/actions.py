"""The operator's actions on a running manager; the control socket calls nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

from app import clock, logs
from app.errors import InvalidError, NotFoundError, StoreError
from app.models.jobs.jobs import Queue
from app.runtime.redis_errors import OUTAGE
from queue_manager import overrides, policy
from queue_manager.child import WorkerProcess
from queue_manager.groups import OF_GROUPS, Group
from queue_manager.supervisor import Supervisor

_log = logs.get(__name__)
_MB = 1 << 20


class Controls:
    """The actions of one manager; every method must be called in the manager's event loop.

    A *group* is a table of the queue settings (``feeds``), a *queue* one of its queues (``feed-pull``).

    Raises, in the methods that use Redis (``async``):
        StoreError: Redis doesn't answer.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor, self._sizing = supervisor, supervisor.targets
        self._since = clock.now().isoformat()

    def get_status(self) -> dict[str, Any]:
        """Return the manager's state.

        Its fields: ``manager``, ``host``, ``pid``, ``since`` (ISO), ``groups``, ``workers`` and ``unserved``,
        the queues that none of its groups serves.

        A group: ``name``, ``mode``, ``queues``, ``min_workers``, ``max_workers``, ``serving``, ``wanted``.
        A worker: ``name``, ``group``, ``pid``, ``age_s``, ``jobs_done``, ``rss_mb``, ``state`` (ready,
        starting, leaving, killed) and ``current``, a list of ``{id, task, for_s}``.
        """
        now = time.monotonic()
        wanted = self._sizing.get_wanted()
        workers = [_worker(child, now) for child in self._supervisor.processes]
        serving = [w["group"] for w in workers if w["state"] in ("ready", "starting")]
        return {
            "manager": self._supervisor.manager,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": self._since,
            "groups": [
                {**_group(group), "serving": serving.count(group.name), "wanted": wanted[group.name]}
                for group in self._sizing.table.groups
            ],
            "workers": workers,
            "unserved": self._sizing.table.list_unserved(),
        }

    async def list_queues(self) -> list[dict[str, Any]]:
        """Return all queues of the system, by priority.

        Each: ``name``, ``length``, ``oldest_s`` (wait of its first job, 0 when empty), ``paused``,
        ``draining``, ``running`` (its jobs that workers hold).
        """
        with _store():
            waiting = await self._sizing.loads.read_queues(map(str, Queue))
            running = await self._sizing.loads.count_running()
        return [
            {
                "name": queue.name,
                "length": queue.length,
                "oldest_s": round(queue.oldest, 1),
                "paused": queue.paused,
                "draining": queue.draining,
                "running": running[queue.name],
            }
            for queue in waiting.values()
        ]

    def get_settings(self) -> dict[str, dict[str, object]]:
        """Return the settings in force: by group, and by queue for settings of queues."""
        table = self._sizing.table
        found: dict[str, dict[str, object]] = {
            group.name: {"queues": list(group.queues), "mode": group.mode}
            | {key: getattr(group, key) for key in OF_GROUPS}
            for group in table.groups
        }
        for queue, rules in table.rules.items():
            # A group may have the name of a queue; no setting belongs to both.
            found[queue] = found.get(queue, {}) | dataclasses.asdict(rules)
        return found

    async def set(self, group: str, key: str, value: str) -> dict[str, Any]:
        """Change a setting for all managers until it is reset; return ``{name, key, value}``.

        Args:
            group: A group or a queue. For a setting of groups, a queue means the first group that serves it.
            key: The setting.
            value: The new value as text.

        Raises:
            InvalidError: The name or key doesn't exist, or the value isn't valid; the error lists valid ones.
        """
        name = overrides.find_target(self._sizing.table, group, key)
        overrides.check(self._sizing.table, name, key, value)
        return await self._change(name, key, value)

    async def reset(self, group: str, key: str) -> dict[str, Any]:
        """Restore the file's value; returns and raises as :meth:`set`."""
        return await self._change(overrides.find_target(self._sizing.table, group, key), key, None)

    async def pause(self, queue: str) -> dict[str, Any]:
        """Stop all workers of the system from dequeuing from a queue; return ``{queue, paused, draining}``.

        Raises:
            InvalidError: The queue doesn't exist.
        """
        return await self._switch(queue, paused=True)

    async def resume(self, queue: str) -> dict[str, Any]:
        """End the pause and drain of a queue; returns and raises as :meth:`pause`."""
        return await self._switch(queue, paused=False, draining=False)

    async def drain(self, queue: str) -> dict[str, Any]:
        """Reject new jobs in a queue but run the waiting ones; returns and raises as :meth:`pause`."""
        return await self._switch(queue, draining=True)

    async def kill(self, worker: str, *, gently: bool = False) -> dict[str, Any]:
        """End a worker of this manager; its jobs return to their queues without counting as failed.

        Args:
            worker: The name of the worker.
            gently: Let its jobs finish within the grace period.

        Returns:
            ``{worker, pid, gently}``.

        Raises:
            NotFoundError: This manager doesn't have this worker.
        """
        child = self._supervisor.processes.get(worker)
        if child is None:
            raise NotFoundError(f"This manager doesn't have a worker named {worker}.", worker=worker)
        _log.warning("worker_kill", worker=worker, reason=policy.OPERATOR, gently=gently)
        (child.stop if gently else child.kill)(policy.OPERATOR)
        return {"worker": worker, "pid": child.pid, "gently": gently}

    async def list_dead(self, limit: int = 50) -> list[dict[str, Any]]:
        """Return dead jobs, newest first.

        Each: ``id``, ``task``, ``queue``, ``args``, ``error``, ``failures``, ``crashes``, ``ended`` (ISO)
        and ``history``, a list of ``{attempt, at, worker, error, where}``.
        """
        with _store():
            return await self._supervisor.dead.list_newest(limit)

    async def retry_dead(self, job_id: str | None) -> int:
        """Queue a dead job again with a clean record; None: all dead jobs. Return their number.

        Raises:
            NotFoundError: No dead job has this id.
        """
        with _store():
            return _found(await self._supervisor.dead.retry_dead(job_id), job_id)

    async def remove_dead(self, job_id: str | None) -> int:
        """Delete a dead job; None: all dead jobs. Return their number.

        Raises:
            NotFoundError: No dead job has this id.
        """
        with _store():
            return _found(await self._supervisor.dead.remove_dead(job_id), job_id)

    def reload(self) -> dict[str, Any]:
        """Read the settings file again, as on SIGHUP; returns ``{"groups": [names], "unserved": [queues]}``.

        Raises:
            SettingsError: The file isn't valid; nothing has changed.
        """
        table = self._sizing.reload()
        return {"groups": [group.name for group in table.groups], "unserved": table.list_unserved()}

    async def _change(self, name: str, key: str, value: str | None) -> dict[str, Any]:
        with _store():
            await self._sizing.overrides.write(name, key, value)
            await self._sizing.read_overrides()
        return {"name": name, "key": key, "value": self.get_settings()[name][key]}

    async def _switch(
        self, queue: str, *, paused: bool | None = None, draining: bool | None = None
    ) -> dict[str, Any]:
        if queue not in set(Queue):
            raise InvalidError(f"{queue} isn't a queue. Choose one of {', '.join(Queue)}.", queue=queue)
        with _store():
            await self._sizing.loads.set_switches(queue, paused=paused, draining=draining)
            now = (await self._sizing.loads.read_queues([queue]))[queue]
        return {"queue": queue, "paused": now.paused, "draining": now.draining}


def _group(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "mode": group.mode,
        "queues": list(group.queues),
        "min_workers": group.min_workers,
        "max_workers": group.max_workers,
    }


def _worker(child: WorkerProcess, now: float) -> dict[str, Any]:
    view = child.build_view(now)
    if view.killed:
        state = "killed"
    elif view.leaving is not None:
        state = "leaving"
    else:
        state = "ready" if view.ready else "starting"
    return {
        "name": view.name,
        "group": view.group,
        "pid": child.pid,
        "age_s": round(now - view.born, 1),
        "jobs_done": child.done,
        "rss_mb": round(view.rss / _MB, 1),
        "state": state,
        "current": [
            {"id": run.id, "task": run.task, "for_s": round(now - run.since, 1)} for run in child.running
        ],
    }


def _found(count: int, job_id: str | None) -> int:
    if job_id is not None and not count:
        raise NotFoundError(
            f"There's no failed job {job_id[:80]}. Use “dead” to list failed jobs.", job_id=job_id
        )
    return count


@contextlib.contextmanager
def _store() -> Iterator[None]:
    try:
        yield
    except OUTAGE as e:
        raise StoreError from e
