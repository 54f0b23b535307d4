"""Messages between a queue manager and its workers: the worker's orders and its reports.

Reports are single JSON packets on a socket pair. They aren't pickles: a worker reads foreign data, and an
attacker who takes over a worker must not take over the manager too. When settings change, the manager
sends new orders.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import ClassVar


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """The rules for the jobs of one queue; names, units and defaults as explained in ``queues.toml``.

    Attributes:
        timeout: longest run, seconds, even for tasks that allow themselves more; None: the task's own.
        buffer: most jobs of the queue that one worker holds; None: no limit but the worker's own.
    """

    timeout: float | None = None
    retries: int
    backoff_first: float
    backoff_factor: float
    backoff_most: float
    backoff_jitter: float
    result_ttl: int
    failure_ttl: int
    buffer: int | None = None
    priority: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """Orders for one worker process.

    Attributes:
        name: never reused; its in-flight list is named after it.
        manager: id of the manager that watches it.
        group: table of the queue settings it belongs to.
        queues: by priority.
        rules: by queue; each of ``queues`` has some.
        mode: ``loop`` (many jobs at once) or ``solo`` (one at a time, in the main thread).
        slots: jobs that it holds: all run at once in loop mode, one after the other in solo mode.
        system_slots: most of these slots for system queues; the rest is reserved for people.
        memory: bytes of RSS above which it is replaced; 1.5 times as much is its RLIMIT_DATA.
        lifetime: seconds after which it exits.
        max_jobs: jobs after which it exits.
        grace: seconds that running jobs get when it stops.
        tick: seconds between its signs of life while it is idle.
        wear: factor by which its lifetime and jobs differ from those of its group.
    """

    name: str
    manager: str
    group: str
    queues: tuple[str, ...]
    mode: str
    slots: int
    system_slots: int
    memory: int
    lifetime: float
    max_jobs: int
    grace: float
    tick: float = 1.0
    wear: float = 1.0
    rules: Mapping[str, QueueRules] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Ready:
    """The worker accepts jobs from now on."""

    op: ClassVar[str] = "ready"


@dataclasses.dataclass(frozen=True, slots=True)
class Tick:
    """A heartbeat, one per second; ``done``: jobs ended so far."""

    op: ClassVar[str] = "tick"
    done: int


@dataclasses.dataclass(frozen=True, slots=True)
class Began:
    """A job started and must end within ``limit`` seconds; in solo mode the previous one has ended."""

    op: ClassVar[str] = "began"
    job_id: str
    limit: float
    task: str = ""
    queue: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """A job isn't running anymore."""

    op: ClassVar[str] = "ended"
    job_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Leaving:
    """The worker accepts no more jobs and exits after its last one: lifetime, jobs or a signal."""

    op: ClassVar[str] = "leaving"
    reason: str


Message = Ready | Tick | Began | Ended | Leaving
_TYPES: dict[str, type[Message]] = {t.op: t for t in (Ready, Tick, Began, Ended, Leaving)}


def encode_message(message: Message) -> bytes:
    """Return a message as one packet."""
    # All fields are plain: asdict() would copy each, and there are two messages per job.
    fields = {field: getattr(message, field) for field in message.__slots__}
    return json.dumps({"op": message.op, **fields}).encode()


def decode_message(packet: bytes) -> Message:
    """Read one packet.

    Raises:
        ValueError: not a message of these types.
    """
    document = json.loads(packet)
    kind = _TYPES.get(document.pop("op", None)) if isinstance(document, dict) else None
    if kind is None:
        raise ValueError("unknown message")
    try:
        return kind(**document)
    except TypeError as e:
        raise ValueError(str(e)) from e


def encode_orders(spec: WorkerSpec) -> bytes:
    """Return new orders for a running worker as one packet."""
    return json.dumps(dataclasses.asdict(spec)).encode()


def decode_orders(packet: bytes) -> WorkerSpec:
    """Read one packet with orders from the manager.

    Raises:
        ValueError: the packet contains no orders.
    """
    document = json.loads(packet)
    try:
        rules = {queue: QueueRules(**row) for queue, row in document.pop("rules").items()}
        return WorkerSpec(**{**document, "queues": tuple(document["queues"]), "rules": rules})
    except (TypeError, KeyError, AttributeError) as e:
        raise ValueError(str(e)) from e
