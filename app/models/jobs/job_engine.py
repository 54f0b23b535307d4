"""The job engine as administrators see it: queues, managers with their workers, controllers, the updater."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

from app.models.jobs.jobs import State


@dataclasses.dataclass(frozen=True, slots=True)
class QueueView:
    """A queue as it is now.

    Attributes:
        length: jobs that wait or whose retry is due.
        oldest: how long the first of them has waited, seconds.
        running: jobs that a worker holds.
    """

    name: str
    length: int
    oldest: float
    running: int
    paused: bool
    draining: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A task that a worker is running; ``seconds`` is how long it has been running."""

    id: str
    task: str
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker process; ``age`` in seconds, ``memory`` resident bytes, ``jobs`` the number it has ended.

    ``state`` is one of starting, ready, leaving, killed.
    """

    name: str
    group: str
    pid: int
    age: float
    jobs: int
    memory: int
    state: str
    runs: tuple[Run, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class GroupView:
    """A group of workers that serve the same queues."""

    name: str
    queues: tuple[str, ...]
    serving: int
    wanted: int
    least: int
    most: int


@dataclasses.dataclass(frozen=True, slots=True)
class ManagerView:
    """A queue manager and its workers, as it reported within the last seconds."""

    id: str
    host: str
    pid: int
    since: dt.datetime | None
    groups: tuple[GroupView, ...]
    workers: tuple[WorkerView, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ControllerView:
    """A controller: open ``streams`` to browsers, and jobs ``awaited`` through it."""

    host: str
    pid: int
    since: dt.datetime | None
    streams: int
    awaited: int


@dataclasses.dataclass(frozen=True, slots=True)
class UpdaterView:
    """What the updater saw at its last look; fields as explained in ``workers.updater.updater.Sight``."""

    backlog: int
    late_s: float
    waiting: int
    running: int
    pace: float
    queued_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Engine:
    """The whole job engine now. ``updater`` is None if none runs. ``dead``: permanently failed tasks."""

    queues: tuple[QueueView, ...]
    managers: tuple[ManagerView, ...]
    controllers: tuple[ControllerView, ...]
    updater: UpdaterView | None
    dead: int

    @property
    def workers(self) -> tuple[WorkerView, ...]:
        """The workers of all managers."""
        return tuple(worker for manager in self.managers for worker in manager.workers)


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """A failed attempt of a job; ``where`` is a place in our code, or why its worker ended."""

    number: int
    at: dt.datetime | None
    worker: str
    error: str
    where: str


@dataclasses.dataclass(frozen=True, slots=True)
class JobRecord:
    """Everything known about a job.

    Attributes:
        about: the numbers among its arguments, ``feed_ids 17, 18``; texts are omitted, they may be private.
        progress: the task's last report, numbers only.
    """

    id: str
    task: str
    queue: str
    state: State
    about: str
    error: str = ""
    worker: str = ""
    failures: int = 0
    crashes: int = 0
    attempts: int = 0
    created: dt.datetime | None = None
    started: dt.datetime | None = None
    ended: dt.datetime | None = None
    progress: tuple[tuple[str, float], ...] = ()
    history: tuple[Attempt, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class DeadKind:
    """Dead tasks of one kind: the same task failed with the same error word."""

    task: str
    error: str
    count: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class DeadPage:
    """A page of dead tasks, newest first; ``next`` is the cursor of the next page, None at the end."""

    jobs: tuple[JobRecord, ...]
    next: str | None = None


def describe_args(args: dict[str, Any]) -> str:
    """Return a description of a job's arguments that may be shown."""
    parts = []
    for name, value in args.items():
        items = value if isinstance(value, list) else [value]
        numbers = [
            str(item) for item in items if isinstance(item, int | float) and not isinstance(item, bool)
        ]
        shown = ", ".join(numbers[:_SHOWN]) + (f" … ({len(numbers)})" if len(numbers) > _SHOWN else "")
        parts.append(f"{name} {shown}" if numbers else f"{name} …")
    return "; ".join(parts)


_SHOWN = 10
