"""Values that each process keeps to spare MongoDB reads, and how processes report changes to each other."""

from __future__ import annotations

import dataclasses
import enum
from typing import NamedTuple


class CacheKind(enum.Enum):
    """Kinds of kept values, each with an id. The letter begins their names in the change log."""

    #: Card of a feed, by feed.
    CARD = b"c"
    #: Lists of a person, by person.
    FOLDERS = b"f"
    TAGS = b"t"
    SEARCHES = b"s"
    STREAM_VIEWS = b"v"
    NO_IMPORT = b"i"
    NOTIFICATIONS = b"n"
    #: What visitors see of people; one for all, with id 0.
    PUBLIC = b"p"


class Changed(NamedTuple):
    """A value that a write may have changed; ``id``: None: all of the kind."""

    kind: CacheKind
    id: int | None

    def encode(self) -> bytes:
        """Return the name in the change log."""
        return self.kind.value + (b"" if self.id is None else self.id.to_bytes(8, "big", signed=True))


def decode_changed(name: bytes) -> Changed:
    """Return what a name in the change log means.

    Raises:
        ValueError: another version of Eventr has written it.
    """
    return Changed(CacheKind(name[:1]), int.from_bytes(name[1:], "big", signed=True) if name[1:] else None)


@dataclasses.dataclass(frozen=True, slots=True)
class LogPosition:
    """A place in the change log. Without the log, there is a new epoch."""

    epoch: bytes
    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class LogChanges:
    """What the change log says.

    Attributes:
        position: The end of the log.
        changed: Values that have changed since the reader's position; None: the log doesn't go back so far.
        held: Values that are being written at this moment.
    """

    position: LogPosition
    changed: tuple[Changed, ...] | None
    held: frozenset[Changed]


@dataclasses.dataclass(frozen=True, slots=True)
class WriteHold:
    """A write in progress, to these values."""

    changed: tuple[Changed, ...]
    token: bytes
