"""Delayed tasks: of several requests for the same work, only the last one counts."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

#: Names of kinds, and of the keys that administrators see: ids, never texts of people.
KIND = re.compile(r"[a-z][a-z_.]{0,39}")
_IDS = re.compile(r"[0-9a-f:]{1,80}")
#: Longest key, characters.
KEY_MAX = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """A request to run a task after ``delay`` seconds without another request of the same kind and key.

    Attributes:
        key: names what the task is about within its kind.
        args: of the last request count.
        limit: seconds after the first request at which the task runs in any case.
    """

    kind: str
    key: str
    args: Mapping[str, Any]
    delay: float
    limit: float


@dataclasses.dataclass(frozen=True, slots=True)
class PendingTask:
    """A task that the database says is pending, and when it is due."""

    key: str
    args: Mapping[str, Any]
    due: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class DueTask:
    """A delayed task whose time has come.

    Attributes:
        member: its name in Redis.
        state: what Redis knows of it. A request in the meantime changes it.
        args: None if they can't be read.
    """

    member: bytes
    kind: str
    key: str
    args: Mapping[str, Any] | None
    state: bytes
    due: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class DueBatch:
    """Due tasks that one process has locked for half a minute."""

    shard: int
    minute: int
    tasks: Sequence[DueTask]


@dataclasses.dataclass(frozen=True, slots=True)
class DeadLetter:
    """A delayed task that couldn't be queued.

    Attributes:
        id: hash of kind and key, 32 hexadecimal digits.
        args: None if they are unreadable or too long, so that it can't run again.
        error: error word.
    """

    id: str
    kind: str
    key: str
    args: Mapping[str, Any] | None
    error: str
    due: dt.datetime
    at: dt.datetime

    @property
    def about(self) -> str:
        """The key if it consists of ids; texts are omitted, they may be private."""
        return self.key if _IDS.fullmatch(self.key) else ""
