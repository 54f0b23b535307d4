"""Messages of the event bus: job events in one Redis stream, and lines on the hub's socket.

On the socket each message is one JSON object on one line with its type in ``op``. A client's first line
declares its kind: ``subscribe`` for the events of jobs, ``await`` for their results.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from app.config import Settings

#: Longest line a client may send to the hub, bytes: enough for 10,000 job ids.
LINE_MAX = 512 << 10
#: Most tickets in one line.
TICKETS_MAX = 1000
#: Seconds between the hub's beats to waiting clients; after two missed beats they consider the hub dead.
BEAT_SECONDS = 2.0


def get_socket_path(settings: Settings) -> Path:
    """Return the path of the hub's socket."""
    return settings.home / "run" / "controller.sock"


def get_handover_path(settings: Settings) -> Path:
    """Return the path of the socket where the web tier hands over event connections."""
    return settings.home / "run" / "events.sock"


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """An event of a job.

    Attributes:
        at: Stream id ``<ms>-<n>``; resume after it. Empty for a state that was read, not streamed.
        kind: ``started``, ``progress``, ``finished``, ``retry``, ``returned``, ``suspect`` or ``failed``;
            only ``finished`` and ``failed`` are ends, each once per run.
        id: Job id.
        fields: ``task``, ``queue``, ``worker``, ``error``, ``data``, … as far as known.
    """

    op: ClassVar[str] = "event"
    at: str
    kind: str
    id: str
    fields: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Subscribe:
    """Client → hub, first line: which jobs (None: all), and the stream id to resume after."""

    op: ClassVar[str] = "subscribe"
    ids: tuple[str, ...] | None = None
    since: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Subscribed:
    """Hub → client: all events after ``at`` follow, but none that precede an end sent as a state."""

    op: ClassVar[str] = "subscribed"
    at: str


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """Hub → client, before closing: bad request, or the client reads too slowly."""

    op: ClassVar[str] = "refused"
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Await:
    """Client → hub: (job id, first stamp of its run) of more jobs whose results are wanted."""

    op: ClassVar[str] = "await"
    tickets: tuple[tuple[str, int], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Forget:
    """Client → hub: nobody waits for these anymore."""

    op: ClassVar[str] = "forget"
    tickets: tuple[tuple[str, int], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """Hub → client: the end of an awaited job, once for each ticket.

    Attributes:
        since: The ticket's first stamp.
        value: The task's return value, base64 of JSON as RQ's result streams hold it; None on failure.
        error: Error code, None on success; ``lost`` if the job's record is gone.
    """

    op: ClassVar[str] = "result"
    id: str
    since: int
    value: str | None = None
    error: str | None = None
    message: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Beat:
    """Hub → waiting client: a sign of life."""

    op: ClassVar[str] = "beat"


Message = Event | Subscribe | Subscribed | Refused | Await | Forget | Result | Beat
_TYPES: dict[str, type[Message]] = {
    t.op: t for t in (Event, Subscribe, Subscribed, Refused, Await, Forget, Result, Beat)
}


def encode(message: Message) -> bytes:
    """Return a message as one line."""
    # dataclasses.asdict copies deeply and takes four times as long.
    fields = {name: getattr(message, name) for name in type(message).__dataclass_fields__ if name != "op"}
    return json.dumps({"op": message.op, **fields}).encode() + b"\n"


def decode(line: bytes) -> Message:
    """Read one line.

    Raises:
        ValueError: The line isn't a message of these types.
    """
    document = json.loads(line)
    if not isinstance(document, dict) or document.get("op") not in _TYPES:
        raise ValueError("unknown message")
    kind = _TYPES[document.pop("op")]
    if set(document) - set(kind.__dataclass_fields__):
        raise ValueError("unknown field")
    if document.get("ids") is not None:
        document["ids"] = _texts(document["ids"])
    if "tickets" in document:
        document["tickets"] = _tickets(document["tickets"])
    try:
        return kind(**document)
    except TypeError as e:
        raise ValueError(str(e)) from e


def _texts(ids: Any) -> tuple[str, ...]:
    if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
        raise ValueError("ids must be a list of strings")
    return tuple(ids)


def _tickets(rows: Any) -> tuple[tuple[str, int], ...]:
    if not isinstance(rows, list) or len(rows) > TICKETS_MAX:
        raise ValueError(f"tickets must be a list of at most {TICKETS_MAX}")
    for row in rows:
        if not isinstance(row, list) or [type(part) for part in row] != [str, int]:
            raise ValueError("a ticket is an id and a number")
    return tuple((job_id, since) for job_id, since in rows)


def parse_event(at: bytes, row: Mapping[bytes, bytes]) -> Event:
    """Read an entry of the event stream."""
    fields: dict[str, Any] = {k.decode(): v.decode() for k, v in row.items()}
    return Event(at.decode(), fields.pop("kind", ""), fields.pop("id", ""), fields)
