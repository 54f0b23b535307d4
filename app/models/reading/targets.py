"""Targets: services of a user to which entries are sent. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
from typing import NamedTuple


class TargetKind(enum.StrEnum):
    """The services that Eventr can send entries to."""

    WEBHOOK = "webhook"
    NTFY = "ntfy"
    GOTIFY = "gotify"
    READECK = "readeck"
    LINKDING = "linkding"


class Occasion(enum.StrEnum):
    """Why an entry is sent."""

    RULE = "rule"
    KEY = "key"
    STAR = "star"
    SHARE = "share"
    TEST = "test"


#: Occasions at which every entry is sent, if the target says so.
AUTOMATIC = (Occasion.STAR, Occasion.SHARE)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A service of a user.

    Attributes:
        sealed: its secret, encrypted; None: it has none.
        on: the occasions among :data:`AUTOMATIC`.
        tried_at: when something was sent last, or couldn't be; None: nothing was yet.
        error: of the last attempt; empty: it succeeded. dropped: entries that weren't sent, because they were
            too many for a day.
        rests_until: nothing but a test is sent before, because the last attempt failed.
    """

    id: int
    user_id: int
    kind: TargetKind
    name: str
    address: str
    sealed: bytes | None = None
    on: tuple[Occasion, ...] = ()
    enabled: bool = True
    tried_at: dt.datetime | None = None
    error: str = ""
    dropped: int = 0
    rests_until: dt.datetime | None = None


class NoPageError(ValueError):
    """The service keeps addresses, and the entry has none."""


class DeliveryState(enum.StrEnum):
    """States of a delivery."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"


class Wanted(NamedTuple):
    """An entry to send. ``cause``: tells deliveries of one entry apart, such as ``rule`` or ``key:29411``."""

    target_id: int
    entry_id: int
    cause: str

    @property
    def occasion(self) -> Occasion:
        """Why it is sent."""
        return _get_occasion(self.cause)


def _get_occasion(cause: str) -> Occasion:
    return Occasion(cause.partition(":")[0])


@dataclasses.dataclass(frozen=True, slots=True)
class Delivery:
    """An entry that is sent to a target, once for each cause.

    Attributes:
        at: when it was requested. due: when it is tried next; None: it is over.
        tries: attempts that have begun.
    """

    user_id: int
    target_id: int
    entry_id: int
    cause: str
    at: dt.datetime
    state: DeliveryState = DeliveryState.WAITING
    due: dt.datetime | None = None
    tries: int = 0
    error: str = ""

    @property
    def occasion(self) -> Occasion:
        """Why it is sent."""
        return _get_occasion(self.cause)

    @property
    def event_id(self) -> str:
        """The same for all attempts, so that the receiver can tell a repeat."""
        text = f"{self.user_id}:{self.target_id}:{self.entry_id}:{self.cause}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclasses.dataclass(frozen=True, slots=True)
class SentEntry:
    """What a target learns of an entry.

    Attributes:
        url: of its page; empty: it has none. own_url: its page in Eventr.
    """

    id: int
    title: str
    url: str
    own_url: str
    author: str = ""
    excerpt: str = ""
    feed_title: str = ""
    published: dt.datetime | None = None
    tags: tuple[str, ...] = ()
