"""Jobs as everyone outside the workers sees them: a name, JSON arguments, a ticket to await."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any


class Queue(enum.StrEnum):
    """Queues in their order of priority; user queues come before system queues."""

    DISCOVERY = "discovery"
    PULL = "feed-pull"
    IMPORT = "import"
    PULL_SYSTEM = "feed-pull-sys"
    MAINTENANCE = "maintenance"
    SUSPECTS = "suspects"


class Task(enum.StrEnum):
    """Names of all tasks that workers run; nothing else can be run (J01)."""

    DISCOVER = "feeds.discover"
    PULL = "feeds.pull"
    PULL_SYSTEM = "feeds.pull_system"
    RETAIN = "maintenance.retain"
    SLEEP = "selftest.sleep"  # the engine's own tests and `eventr doctor` run it
    CRASH = "selftest.crash"


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """What to run: a task name, JSON arguments that hold ids only (J06), and the queue."""

    task: Task
    args: dict[str, Any]
    queue: Queue


@dataclasses.dataclass(frozen=True, slots=True)
class Ticket:
    """A queued or already running job.

    Attributes:
        id: hash of task and arguments; the same task never gets a second id.
        since_ms: Redis time of the enqueue; results before it belong to an earlier run.
        fresh: False when the job was queued or running already.
    """

    id: str
    since_ms: int
    fresh: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a job as a waiter sees it: ``error`` is an error word, None on success."""

    id: str
    value: Any = None
    error: str | None = None
