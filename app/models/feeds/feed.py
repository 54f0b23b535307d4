"""A feed as it is stored, and what a pull writes back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from app.models.feeds.fetched import Validators
from app.models.feeds.websub import HubAnnouncement, PushSource
from app.models.reading.entry import EntryChange, NewEntry
from app.models.subscriptions.read_state import RemovedEntries


class Unset(enum.Enum):
    """The one value that says "leave this field as it is"; None is a value and clears a field."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


class FeedKind(enum.StrEnum):
    """Where a feed's entries come from."""

    WEB = "web"
    SHARED = "shared"


class DueFeed(NamedTuple):
    """A feed that should be polled. A tuple, because the updater makes thousands of them at each look.

    Attributes:
        host: lets batches be sorted by it.
        due_at: since when.
        readers: how many people subscribe to it.
    """

    id: int
    host: str
    due_at: dt.datetime | None = None
    readers: int = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """One feed.

    Attributes:
        url_key: hash that is equal for addresses of the same feed, unique.
        seen: hashes of the current items, 16 bytes each, in feed order, maybe with older ones behind them.
        chunks: hashes of their bytes (:mod:`app.feeds.parse.incremental`), empty when all have to be parsed
        each time. ttl_minutes, skip_hours: what the feed asked of its pollers the last time it was parsed.
        volatile_guids: the feed changes its guids; identity is then (link, title), and ``chunks`` holds
            the last guid of each (:mod:`app.feeds.identity`).
        first_seq, last_seq: the entries that are there; ``last_seq`` 0 before the first.
        last_entry_at: sort time of the newest entry.
        next_check_at: when to poll again; None: never by itself (gone, or not of the web).
        history: the schedule's own, packed.
        errors: failed polls in a row; ``error`` is the last one's word.
        checked_at: last successful poll, or one of several in a row without an end (``cut_off``);
            changed_at: last one that brought something.
        moved_to, moved_times: the permanent redirect that was seen so often in a row.
        read_at: when somebody last read an entry of it, to the day.
        claim_token, claimed_until: who is polling it now.
        topic: what :attr:`hub` calls the feed. push_until: so long pushes stand in for polls.
        merged_into: the feed that took over its subscribers, when it proved to be the same.
        paused: an administrator lets it not be polled.
        torn: a writer died or came too late; entries above ``last_seq`` may wait for their place.
        owner: of a shared feed, the user whose shares these are.
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
    checked_at: dt.datetime | None = None
    changed_at: dt.datetime | None = None
    moved_to: str | None = None
    moved_times: int = 0
    claim_token: str | None = None
    claimed_until: dt.datetime | None = None
    read_at: dt.datetime | None = None
    torn: bool = False
    topic: str | None = None
    push_until: dt.datetime | None = None
    merged_into: int | None = None
    paused: bool = False
    owner: int | None = None


class FeedCard(NamedTuple):
    """What lists, trees and marks need of a feed.

    ``newest`` and ``read_ms`` are ``last_entry_at`` and ``read_at`` in milliseconds or 0. ``owner`` is the
    user whose shares these are; ``gone`` are the numbers of those he took back; ``hidden``: nobody may see
    them; ``shown_ms``: since when they are seen again, in milliseconds, 0: always.
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

    @property
    def missing(self) -> int:
        """How many of its numbers hold nothing any more."""
        return self.removed.count_between(self.first_seq, self.last_seq)


@dataclasses.dataclass(frozen=True, slots=True)
class Position:
    """How far a feed's numbering has come; ``last_entry_at`` as in :class:`Feed`."""

    feed_id: int
    first_seq: int
    last_seq: int
    last_entry_at: dt.datetime | None = None


class FeedPoll(NamedTuple):
    """What asking a feed and an answer without news need of it; attributes as in :class:`Feed`.

    Most polls need nothing else, so it is as light as can be: a tuple, with times in milliseconds since
    the epoch.

    Attributes:
        read_ms: when somebody last read it, or when it was created.
        due_ms: ``next_check_at``; None: never by itself.
        claimed_ms: ``claimed_until``. push_ms: ``push_until``.
        torn: its entries have to be put in order.
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


class NextCheck(NamedTuple):
    """A poll that brought nothing: the feed rests until ``next_check_at``."""

    feed_id: int
    next_check_at: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeedFields:
    """What a pull learnt about a feed; a field that is left out stays as it is."""

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
    checked_at: dt.datetime | Unset | None = UNSET
    changed_at: dt.datetime | Unset | None = UNSET
    moved_to: str | Unset | None = UNSET
    moved_times: int | Unset = UNSET


@dataclasses.dataclass(frozen=True, slots=True)
class FeedUpdate:
    """The end of one feed's pull, to be stored.

    Attributes:
        token: the claim under which the feed was read; without it nothing of ``fields`` is written.
        fetched_at: when the fetch was sent; an older fetch never overwrites a newer one's changes.
        new: entries that are not stored yet, in feed order (newest first, as feeds are written).
        changed: entries that are stored with another body.
        heard: what the answer said of the feed's hub; None: it has none, and had none.
        fields_of: returns ``fields`` for these of ``new`` alone: what a feed lists again after it was out of
            it is stored already, and was not published now.
    """

    feed_id: int
    token: str
    fetched_at: dt.datetime
    new: tuple[NewEntry, ...] = ()
    changed: tuple[EntryChange, ...] = ()
    fields: FeedFields = FeedFields()
    hub_announcement: HubAnnouncement | None = None
    fields_of: Callable[[Sequence[NewEntry]], FeedFields] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )


@dataclasses.dataclass(frozen=True, slots=True)
class StoreResult:
    """What became of one :class:`FeedUpdate`.

    Attributes:
        stored: False when the claim had passed to another writer: nothing of ``fields`` was written.
        new: entries that became visible, those included that a crashed writer had left.
        excess: entries above what is kept per feed; above 0 the feed wants a ``retain``.
    """

    feed_id: int
    stored: bool
    new: int = 0
    last_seq: int = 0
    excess: int = 0


class FetchRecord(NamedTuple):
    """One line of a feed's fetch log; ``error`` is an error word, None on success."""

    feed_id: int
    at: dt.datetime
    status: int
    ms: int
    bytes: int
    new: int = 0
    error: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class FeedHealth:
    """What the feed page shows.

    Attributes:
        fetches: the last ones, newest first. log: all that are kept, newest first.
        message: its error in words.
        rests_until: so long its site asked to be left alone.
        forecast: seconds expected between entries, by hour of day (UTC).
        per_week: entries a week, of the last ten days.
    """

    feed: Feed
    fetches: tuple[FetchRecord, ...]
    message: str | None
    next_check_at: dt.datetime | None
    rests_until: dt.datetime | None = None
    pushed_by: PushSource | None = None
    log: tuple[FetchRecord, ...] = ()
    forecast: tuple[float, ...] = ()
    per_week: float = 0.0


class UnindexedFeed(NamedTuple):
    """A feed with entries that the search does not know.

    Attributes:
        upto: the last number that it knows.
        since: how new the changes are that it knows; None: it knows nothing of this feed.
        index_at: the time of the newest entry or change.
    """

    id: int
    first_seq: int
    last_seq: int
    upto: int
    since: dt.datetime | None
    index_at: dt.datetime
