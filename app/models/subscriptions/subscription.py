"""A subscription: a person, a feed, and how the person keeps it. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from app.models.subscriptions.read_state import ReadState

_NO_ORDERS: Mapping[int, str] = MappingProxyType({})
#: In place of a folder's id: outside all folders.
TOP = 0


class Subscription(NamedTuple):
    """A user's subscription to a feed.

    Attributes:
        title: empty: the feed's own.
        rev: rises with each write of ``state``.
        mass: the last mass action on it, which alone can be undone.
        orders: folder → its place there (:mod:`app.models.subscriptions.sort_key`); :data:`TOP`: outside of
        all. paused: its reader counts for no polls.
        person: the feed is what somebody shares. muted: not among those he follows.
    """

    id: int
    user_id: int
    feed_id: int
    title: str = ""
    folder_ids: tuple[int, ...] = ()
    orders: Mapping[int, str] = _NO_ORDERS
    state: ReadState = ReadState()
    rev: int = 0
    mass: str | None = None
    paused: bool = False
    person: bool = False
    muted: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class SubscribeResult:
    """The answer to a subscribe.

    Attributes:
        existed: it was there already and was left as it is.
        ticket: id of the pull job that brings the first entries, or what a feed in error has now; else None.
    """

    subscription: Subscription
    existed: bool = False
    ticket: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class AddressChangeResult:
    """The answer to a change of address.

    Attributes:
        feed_id: of the feed that is read now.
        undo: a token that brings the old subscription back.
        known: the feed was here already, and what was read of the old one is read there.
    """

    feed_id: int
    undo: str
    was_known: bool


@dataclasses.dataclass(frozen=True, slots=True)
class StartRule:
    """Where reading begins: what is younger than ``age`` is unread, but ``least`` … ``most`` entries."""

    age: dt.timedelta
    min_unread: int
    max_unread: int

    def calculate_upto(self, times: Sequence[dt.datetime], last_seq: int, now: dt.datetime) -> int:
        """Return the ``upto`` of a new subscription.

        Args:
            ats: sort times of the newest entries, rising; ``most`` of them are enough.
        """
        young = sum(at >= now - self.age for at in times)
        return max(0, last_seq - min(max(young, self.min_unread), self.max_unread))
