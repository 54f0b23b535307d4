"""Feeds as stored, and the changes that a pull writes back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from app.models.feeds.fetched import Validators
from app.models.feeds.websub import HubAnnouncement
from app.models.media.icon import build_icon_path
from app.models.reading.entry import EntryChange, NewEntry
from app.models.subscriptions.read_state import RemovedEntries


class Unset(enum.Enum):
    """The value that means "leave this field unchanged"; None is a value and clears a field."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


class FeedKind(enum.StrEnum):
    """The source of a feed's entries."""

    WEB = "web"
    SHARED = "shared"
    #: Pages that one person saved; or, without ``private_to``, the pages behind shares of saved pages.
    SAVED = "saved"


#: Fewer readers of a feed than this aren't shown: on a small server the number would tell who they are.
READERS_SHOWN_FROM = 5


def count_shown_readers(subscribers: int, *, admin: bool) -> int:
    """Return the number of a feed's readers as an admin or someone else may see it; 0: it isn't shown."""
    return subscribers if admin or subscribers >= READERS_SHOWN_FROM else 0


class DueFeed(NamedTuple):
    """A feed that should be polled. A tuple, because the updater makes thousands of them per look.

    Attributes:
        host: batches are sorted by it.
        due_at: when it became due.
        readers: the number of its subscribers.
        slow: as in :class:`Feed`.
    """

    id: int
    host: str
    due_at: dt.datetime | None = None
    readers: int = 1
    slow: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """One feed.

    Attributes:
        url_key: hash that is equal for addresses of the same feed, unique.
        seen: hashes of the current items, 16 bytes each, in feed order; older ones may follow.
        chunks: hashes of their bytes (:mod:`app.feeds.parse.incremental`); empty if every fetch parses all.
        ttl_minutes, skip_hours: the feed's own wishes, from when it was last parsed.
        volatile_guids: the feed changes its guids; then (link, title) is the identity and ``chunks`` holds
            the last guid of each entry (:mod:`app.feeds.identity`).
        first_seq, last_seq: the range of existing entries; ``last_seq`` is 0 before the first entry.
        last_entry_at: sort time of the newest entry.
        next_check_at: when to poll next; None: never automatically (gone, or not a web feed).
        history: arrivals per hour, packed by the schedule.
        errors: failed polls in a row; ``error`` is the word of the last one. The detail of ``read_in_part``
            is the size limit in bytes.
        checked_at: last successful poll, or one of several truncated ones in a row (``cut_off``);
            changed_at: last poll that brought changes.
        moved_to, moved_times: a permanent redirect or new address, and how often in a row it was seen.
        retry_at: when the feed's server, asked by Retry-After, wants its next request at the earliest.
        other_url: another spelling of the address that someone entered; the next pull tries it.
        new_url: the new address that the feed itself states (``itunes:new-feed-url``).
        unlisted: the publisher wants the feed in no directory (``itunes:block``).
        distrusted_at: when the server last answered 304 although there were new entries; None: its validators
            are trusted.
        slow: its server needed almost all of the time that a fetch may take, so the next one may take longer.
        read_at: the day on which someone last read one of its entries.
        claim_token, claimed_until: the claim of the current poll.
        icon: the address of the icon or logo that the feed states. icon_next: when to look for its icon;
            None: as soon as possible. icon_blob: the id of the icon that Eventr stores for it.
            icon_uploaded: an administrator has uploaded it.
        topic: the name that :attr:`hub` uses for the feed. push_until: pushes replace polls until then.
        merged_into: the feed that took over its subscribers, after both proved to be the same.
        paused: an administrator stopped its polling.
        torn: a writer died or came too late; entries above ``last_seq`` may still need a number.
        owner: of a shared feed, the user whose shares these are.
        private_to: the only user who may read it; it holds what that user's login or cookie shows.
        sealed: how that user has it fetched (:mod:`app.gateways.feeds.fetch_secrets`).
        min_minutes, max_minutes: that user's limits of the time between two checks.
    """

    id: int
    url: str
    url_key: str
    created: dt.datetime
    kind: FeedKind = FeedKind.WEB
    title: str = ""
    site_url: str | None = None
    description: str = ""
    language: str | None = None
    icon: str | None = None
    hub: str | None = None
    ttl_minutes: int | None = None
    skip_hours: tuple[int, ...] = ()
    validators: Validators = Validators()
    seen: bytes = b""
    chunks: bytes = b""
    volatile_guids: bool = False
    first_seq: int = 1
    last_seq: int = 0
    last_entry_at: dt.datetime | None = None
    next_check_at: dt.datetime | None = None
    history: bytes | Mapping[str, Any] | None = None
    errors: int = 0
    error: str | None = None
    error_detail: str = ""
    error_since: dt.datetime | None = None
    subscribers: int = 0
    retry_at: dt.datetime | None = None
    checked_at: dt.datetime | None = None
    changed_at: dt.datetime | None = None
    moved_to: str | None = None
    moved_times: int = 0
    other_url: str | None = None
    new_url: str | None = None
    unlisted: bool = False
    distrusted_at: dt.datetime | None = None
    slow: bool = False
    claim_token: str | None = None
    claimed_until: dt.datetime | None = None
    read_at: dt.datetime | None = None
    torn: bool = False
    topic: str | None = None
    push_until: dt.datetime | None = None
    merged_into: int | None = None
    paused: bool = False
    owner: int | None = None
    icon_next: dt.datetime | None = None
    icon_blob: bytes | None = None
    icon_uploaded: bool = False
    private_to: int | None = None
    sealed: bytes | None = dataclasses.field(default=None, repr=False)
    min_minutes: int | None = None
    max_minutes: int | None = None

    @property
    def icon_path(self) -> str | None:
        """The path of its icon on this server."""
        return build_icon_path(self.icon_blob) if self.icon_blob else None


class FeedCard(NamedTuple):
    """The fields of a feed that lists, trees and marks need.

    ``icon`` is the path of its icon on this server, None without one; a feed that was merged into another
    one (``merged_into``) has that feed's.
    ``newest`` and ``read_ms`` are ``last_entry_at`` and ``read_at`` in milliseconds, or 0. ``owner`` is the
    user whose shares these are; ``removed`` holds the numbers of the shares they removed. ``hidden``: no one
    may see the shares. ``shown_ms``: since when they are visible again, in milliseconds; 0: always.
    ``unlisted``: the publisher wants the feed in no directory. ``private_to``: as in :class:`Feed`.
    ``avatar`` is the path of the owner's picture. ``saved``: it holds the pages that a person saved.
    A tuple: a tree makes a thousand of them, and a frozen dataclass takes five times as long to make.
    """

    id: int
    title: str
    url: str
    site_url: str | None
    icon: str | None
    error: str | None
    first_seq: int
    last_seq: int
    newest: int = 0
    read_ms: int = 0
    language: str | None = None
    owner: int | None = None
    removed: RemovedEntries = RemovedEntries()
    hidden: bool = False
    shown_ms: int = 0
    unlisted: bool = False
    avatar: str | None = None
    merged_into: int | None = None
    private_to: int | None = None
    saved: bool = False

    @property
    def picture(self) -> str | None:
        """The path of the picture that stands for it on pages: its icon, or the person's avatar."""
        return self.icon or self.avatar

    @property
    def missing(self) -> int:
        """The number of sequence numbers without an entry."""
        return self.removed.count_between(self.first_seq, self.last_seq)

    def find_first_seq(self, keep: int) -> int:
        """Return the number of the first of the ``keep`` newest entries; 0: of all."""
        if keep <= 0:
            return self.first_seq
        first, last = self.last_seq - keep + 1, self.last_seq
        while first > self.first_seq:
            lacking = keep - (last - first + 1 - self.removed.count_between(first, last))
            if lacking <= 0:
                return first
            first -= lacking
        return self.first_seq


@dataclasses.dataclass(frozen=True, slots=True)
class Position:
    """The current range of a feed's sequence numbers; ``last_entry_at`` as in :class:`Feed`.

    ``stored_bytes`` estimates the size of its entries, never too low for long; None: to be measured.
    """

    feed_id: int
    first_seq: int
    last_seq: int
    last_entry_at: dt.datetime | None = None
    stored_bytes: int | None = None


class FeedPoll(NamedTuple):
    """The fields of a feed that a poll without news needs; attributes as in :class:`Feed`.

    Most polls need nothing else, so it is as light as possible: a tuple, with times in milliseconds since
    the epoch.

    Attributes:
        read_ms: when someone last read it, or when it was created.
        due_ms: ``next_check_at``; None: never automatically.
        claimed_ms: ``claimed_until``. push_ms: ``push_until``.
        torn: its entries need to be put in order.
        retry_ms: ``retry_at``. checked_ms: ``checked_at``. readers: ``subscribers``.
        distrusted_ms: ``distrusted_at``.
    """

    id: int
    url: str
    read_ms: int
    due_ms: int | None = None
    validators: Validators = Validators()
    ttl_minutes: int | None = None
    skip_hours: frozenset[int] = frozenset()
    history: bytes | Mapping[str, Any] | None = None
    error: str | None = None
    moved_to: str | None = None
    claim_token: str | None = None
    claimed_ms: int = 0
    push_ms: int = 0
    torn: bool = False
    other_url: str | None = None
    retry_ms: int = 0
    checked_ms: int = 0
    readers: int = 0
    distrusted_ms: int = 0
    slow: bool = False
    private_to: int | None = None
    sealed: bytes | None = None
    min_minutes: int | None = None
    max_minutes: int | None = None


class NextCheck(NamedTuple):
    """When to poll a feed that wasn't fetched."""

    feed_id: int
    next_check_at: dt.datetime


class FetchRecord(NamedTuple):
    """One line of a feed's fetch log; ``error`` is an error word, None on success."""

    feed_id: int
    at: dt.datetime
    status: int
    ms: int
    bytes: int
    new: int = 0
    error: str | None = None


class UnchangedPoll(NamedTuple):
    """The result of a poll without news: the feed rests until ``next_check_at``."""

    fetch: FetchRecord
    next_check_at: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeedFields:
    """The fields of a feed that a pull found out; an omitted field stays unchanged."""

    title: str | Unset = UNSET
    site_url: str | Unset | None = UNSET
    description: str | Unset = UNSET
    language: str | Unset | None = UNSET
    icon: str | Unset | None = UNSET
    hub: str | Unset | None = UNSET
    topic: str | Unset | None = UNSET
    ttl_minutes: int | Unset | None = UNSET
    skip_hours: tuple[int, ...] | Unset = UNSET
    validators: Validators | Unset = UNSET
    seen: bytes | Unset = UNSET
    chunks: bytes | Unset = UNSET
    volatile_guids: bool | Unset = UNSET
    next_check_at: dt.datetime | Unset | None = UNSET
    history: bytes | Unset | None = UNSET
    errors: int | Unset = UNSET
    error: str | Unset | None = UNSET
    error_detail: str | Unset = UNSET
    error_since: dt.datetime | Unset | None = UNSET
    retry_at: dt.datetime | Unset | None = UNSET
    checked_at: dt.datetime | Unset | None = UNSET
    changed_at: dt.datetime | Unset | None = UNSET
    moved_to: str | Unset | None = UNSET
    moved_times: int | Unset = UNSET
    new_url: str | Unset | None = UNSET
    unlisted: bool | Unset = UNSET
    icon_next: dt.datetime | Unset | None = UNSET
    slow: bool | Unset = UNSET


@dataclasses.dataclass(frozen=True, slots=True)
class FeedUpdate:
    """The result of one feed's pull, to be stored.

    Attributes:
        token: the claim under which the feed was read; without a valid claim ``fields`` isn't written.
        fetched_at: when the fetch was sent; an older fetch never overwrites the changes of a newer fetch.
        new: entries that aren't stored yet, in feed order (usually newest first).
        changed: stored entries whose body changed.
        hub_announcement: what the response said about the feed's hub; None if it has no hub and had none.
        record: the fetch, for the feed's log; None: there was none.
        fields_of: returns ``fields`` for a subset of ``new``: an entry that reappears in a feed is already
            stored, and wasn't published now.
    """

    feed_id: int
    token: str
    fetched_at: dt.datetime
    new: tuple[NewEntry, ...] = ()
    changed: tuple[EntryChange, ...] = ()
    fields: FeedFields = FeedFields()
    hub_announcement: HubAnnouncement | None = None
    record: FetchRecord | None = None
    fields_of: Callable[[Sequence[NewEntry]], FeedFields] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )


@dataclasses.dataclass(frozen=True, slots=True)
class StoreResult:
    """The outcome of storing one :class:`FeedUpdate`.

    Attributes:
        stored: False if another writer had the claim: ``fields`` wasn't written.
        new: entries that became visible, including those that a crashed writer left.
        excess: entries above the limit per feed; above 0 the feed needs a ``retain``.
        too_big: whether its entries may take more bytes than are kept, which needs a ``retain`` as well.
    """

    feed_id: int
    stored: bool
    new: int = 0
    last_seq: int = 0
    excess: int = 0
    too_big: bool = False


class OrphanCounts(NamedTuple):
    """How many feeds and entries a run has deleted, and how many feeds have no readers now."""

    feeds: int = 0
    entries: int = 0
    waiting: int = 0


class UnindexedFeed(NamedTuple):
    """A feed with entries that aren't in the search index.

    Attributes:
        upto: the last indexed number.
        since: the time of the newest indexed change; None: the feed isn't indexed at all.
        index_at: the time of the newest entry or change; None: the feed has no news.
        language: as the feed states it; empty: it doesn't.
        is_owned: whether it holds what one person shares or saves.
    """

    id: int
    first_seq: int
    last_seq: int
    upto: int
    since: dt.datetime | None
    index_at: dt.datetime | None
    language: str = ""
    is_owned: bool = False


class IndexRemoval(NamedTuple):
    """Entries to remove from the search index.

    Attributes:
        id: of this record.
        entry_id: None: all entries of the feed, which is gone.
    """

    id: int
    feed_id: int
    entry_id: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class IndexState:
    """The state of the search index.

    Attributes:
        done, total: feeds in the new index that is being built, and feeds in all; total 0: none is built.
        wanted_at: when a rebuild was requested that hasn't begun.
        checked_at: when the writer last had the index open and complete.
        is_new: whether no index was ever begun.
        compared: the last feed whose number of entries was compared; the next check continues after it.
        swept: the last entry that was looked for both in the index and in the store.
        holder, held_at: the server that has the index, and when it last said so.
    """

    done: int = 0
    total: int = 0
    wanted_at: dt.datetime | None = None
    checked_at: dt.datetime | None = None
    is_new: bool = False
    holder: str = ""
    held_at: dt.datetime | None = None
    compared: int = 0
    swept: int = 0

    @property
    def percent(self) -> int:
        """How much of the new index is built."""
        return min(99, 100 * self.done // self.total) if self.total else 100


@dataclasses.dataclass(frozen=True, slots=True)
class StandbyState:
    """The state of a standby index.

    Attributes:
        holder, held_at: the server that has it, and when it last said so.
        complete_at: the news until this time are all in the index; None: it has none yet.
        is_behind: whether there is later news.
        is_building: whether it is being built.
    """

    holder: str
    held_at: dt.datetime
    complete_at: dt.datetime | None
    is_behind: bool
    is_building: bool
