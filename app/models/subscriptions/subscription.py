"""A subscription: a person, a feed, and how the person keeps it. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from app.models.subscriptions.read_state import NO_ENTRIES, ReadState, RemovedEntries

_NO_ORDERS: Mapping[int, str] = MappingProxyType({})
#: No rule has highlighted anything.
NO_HIGHLIGHTERS: Mapping[int, RemovedEntries] = MappingProxyType({})
#: Instead of a folder's id: outside all folders.
TOP = 0


class Subscription(NamedTuple):
    """A user's subscription to a feed.

    Attributes:
        title: empty for the feed's own.
        rev: incremented by each write of ``state``.
        mass: the last bulk action on it, the only one that can be undone.
        orders: folder → its position there (:mod:`app.models.subscriptions.sort_key`); :data:`TOP`: outside
            all folders.
        paused: its reader doesn't count for polling.
        person: the feed holds a person's shares. muted: hidden from the people the user follows; or a feed
            that is hidden from lists of all feeds.
        private: the user keeps the feed to themselves, so they can't share its entries.
        original: titles in lists open the page at the feed's site.
        notify: the user is notified of new entries.
        full_text: the user reads the full texts of its entries.
        reopen: entries become unread again when their text changes.
        read_after: days after which its entries are marked as read; 0: never.
        keep_newest: how many of its newest entries the user's lists show; 0: all.
        hidden, highlighted: numbers of entries that the user's rules hide from lists, or highlight there.
        ruled: the last number that the user's rules were tried on; None: the user has no rules.
        read_after_done: the last number that ``read_after`` has marked. Entries up to it keep their state.
        highlighted_by: rule → numbers of the entries that it has highlighted. Older ones are in none.
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
    read_after: int = 0
    keep_newest: int = 0
    paused: bool = False
    person: bool = False
    muted: bool = False
    private: bool = False
    original: bool = False
    notify: bool = False
    full_text: bool = False
    reopen: bool = False
    hidden: RemovedEntries = NO_ENTRIES
    highlighted: RemovedEntries = NO_ENTRIES
    ruled: int | None = None
    read_after_done: int = 0
    highlighted_by: Mapping[int, RemovedEntries] = NO_HIGHLIGHTERS

    def find_highlighter(self, seq: int) -> int:
        """Return the id of the rule that has highlighted an entry; 0: none has, or it is unknown which."""
        if not self.highlighted.has_seq(seq):
            return 0
        return next((rule for rule, seqs in self.highlighted_by.items() if seqs.has_seq(seq)), 0)

    def move_to(self, feed_id: int, state: ReadState) -> Subscription:
        """Return the subscription to another feed, whose entries have other numbers."""
        none = NO_ENTRIES
        moved = self._replace(feed_id=feed_id, state=state, ruled=None, read_after_done=0)
        return moved._replace(hidden=none, highlighted=none, highlighted_by=NO_HIGHLIGHTERS)


@dataclasses.dataclass(frozen=True, slots=True)
class SubscribeResult:
    """The result of a subscribe.

    Attributes:
        existed: the subscription already existed and was left unchanged.
        ticket: id of the pull job that brings the first entries, or a failing feed's current ones; else None.
    """

    subscription: Subscription
    existed: bool = False
    ticket: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class AddressChangeResult:
    """The result of an address change.

    Attributes:
        feed_id: of the feed that is read now.
        undo: a token that restores the old subscription; "": the subscription stays, because the address is
            another spelling of the feed's own.
        was_known: the feed already existed here, and read marks of the old one were carried over.
        is_own_copy: the feed that is read now is the user's own copy.
    """

    feed_id: int
    undo: str
    was_known: bool
    is_own_copy: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class StartRule:
    """The start of a new subscription: entries younger than ``age`` are unread, within the two bounds."""

    age: dt.timedelta
    min_unread: int
    max_unread: int

    def calculate_upto(self, times: Sequence[dt.datetime], last_seq: int, now: dt.datetime) -> int:
        """Return the ``upto`` of a new subscription.

        Args:
            times: sort times of the newest entries, ascending; ``max_unread`` of them suffice.
            last_seq: the number of the newest entry.
            now: the current time, aware.
        """
        young = sum(at >= now - self.age for at in times)
        return max(0, last_seq - min(max(young, self.min_unread), self.max_unread))
