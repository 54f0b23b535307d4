"""What goes over the bus: events of jobs in one Redis stream, and lines on the hub's socket.

On the socket each message is one JSON object on one line with its type in ``op``.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, ClassVar

#: Longest line a client may send to the hub, bytes: room for 10,000 job ids.
LINE_MAX = 512 << 10


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """Something happened to a job.

    Attributes:
        at: stream id ``<ms>-<n>``; resume after it. Empty for a state that was read, not streamed.
        kind: ``started``, ``progress``, ``finished``, ``retry``, ``returned``, ``suspect`` or ``failed``;
            only ``finished`` and ``failed`` are ends, each once per run.
        id: job id.
        fields: ``task``, ``queue``, ``worker``, ``error``, ``data`` … as far as they are known.
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
    """Hub → client: all events after ``at`` will follow."""

    op: ClassVar[str] = "subscribed"
    at: str


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """Hub → client, then the line is closed: bad request, or the client reads too slowly."""

    op: ClassVar[str] = "refused"
    reason: str


Message = Event | Subscribe | Subscribed | Refused
_TYPES: dict[str, type[Message]] = {t.op: t for t in (Event, Subscribe, Subscribed, Refused)}


def encode(message: Message) -> bytes:
    """Return a message as one line."""
    return json.dumps({"op": message.op, **dataclasses.asdict(message)}).encode() + b"\n"


def decode(line: bytes) -> Message:
    """Read one line.

    Raises:
        ValueError: not a message of these types.
    """
    document = json.loads(line)
    if not isinstance(document, dict) or document.get("op") not in _TYPES:
        raise ValueError("unknown message")
    kind = _TYPES[document.pop("op")]
    if set(document) - {f.name for f in dataclasses.fields(kind)}:
        raise ValueError("unknown field")
    ids = document.get("ids")
    if ids is not None and not (isinstance(ids, list) and all(isinstance(i, str) for i in ids)):
        raise ValueError("ids must be a list of texts")
    if ids is not None:
        document["ids"] = tuple(ids)
    try:
        return kind(**document)
    except TypeError as e:
        raise ValueError(str(e)) from e


def event(at: bytes, row: Mapping[bytes, bytes]) -> Event:
    """Read an entry of the event stream."""
    fields: dict[str, Any] = {k.decode(): v.decode() for k, v in row.items()}
    return Event(at.decode(), fields.pop("kind", ""), fields.pop("id", ""), fields)
