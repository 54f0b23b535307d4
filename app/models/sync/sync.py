"""What programs that sync ask for and get: streams that are joined and sifted, items with all their marks."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from app.models.feeds.feed import FeedCard
from app.models.names import fold_name, normalise_name
from app.models.reading.entry import Entry
from app.models.reading.tag import Tag
from app.models.sharing.sharing import Sharer
from app.models.subscriptions.folder import Folder
from app.models.subscriptions.subscription import Subscription


class SyncStreamKind(enum.StrEnum):
    """What an entry can be for a user: each is a stream, and something to sift others by."""

    READING = "reading-list"
    READ = "read"
    UNREAD = "unread"
    STARRED = "starred"
    LIKED = "like"
    #: What the user shares himself, what those do whom he follows, and what of that is talked about.
    SHARED = "broadcast"
    FRIENDS = "broadcast-friends"
    COMMENTED = "broadcast-friends-comments"
    FEED = "feed"
    LABEL = "label"
    NONE = "none"


class SyncStream(NamedTuple):
    """A stream: ``id`` of a feed, ``name`` of a label (a folder, a tag, or both)."""

    kind: SyncStreamKind
    id: int = 0
    name: str = ""


class SyncCursor(NamedTuple):
    """The last key that a page ended with; ``at`` in milliseconds."""

    at: int
    id: int


@dataclasses.dataclass(frozen=True, slots=True)
class SyncQuery:
    """Which entries, in which order.

    Attributes:
        parts: of any of these streams. include: and of each of these. exclude: and of none of these.
        since: that came or were changed by anybody, or whose feed the user subscribed to, since then.
        until: that came by then.
        after: the end of the page before.
    """

    streams: tuple[SyncStream, ...]
    include: tuple[SyncStream, ...] = ()
    exclude: tuple[SyncStream, ...] = ()
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    newest_first: bool = True
    limit: int = 20
    after: SyncCursor | None = None


class SyncFeed(NamedTuple):
    """A subscription as programs know it; ``labels`` are its folders' names, the folders' order kept."""

    subscription: Subscription
    card: FeedCard
    title: str
    labels: tuple[str, ...]
    unread: int


@dataclasses.dataclass(frozen=True, slots=True)
class SyncItem:
    """An entry with everything that a user made of it.

    Attributes:
        read: what he can no longer mark is.
        shared: he shares it himself. labels: its feed's folders. tags: his own.
        feed_title, site_url: of the feed it lies in; its language too.
        by: of a share, who shared it, his note with it. via: the way it came, backwards from that share;
            None for whom he may not see.
        person: it lies in somebody's stream, whose user id this is.
        likers: of a share, some of those who like it.
    """

    entry: Entry
    read: bool
    starred: bool
    liked: bool
    shared: bool
    labels: tuple[str, ...]
    tags: tuple[str, ...]
    feed_title: str
    site_url: str | None
    subscribed: bool
    by: Sharer | None = None
    via: tuple[Sharer | None, ...] = ()
    person: int | None = None
    likers: tuple[int, ...] = ()


class UnreadCounts(NamedTuple):
    """Unread counts with the newest arrival of each, in microseconds; 0: nothing is there.

    ``people``: which of the feeds is whose.
    """

    feeds: Mapping[int, tuple[int, int]]
    labels: Mapping[str, tuple[int, int]]
    total: tuple[int, int]
    friends: tuple[int, int]
    people: Mapping[int, int]


def find_by_name(candidates: Iterable[Folder | Tag], name: str) -> list[int]:
    """Return the folders or tags of a name: as it is written or kept, else in another case or spelling."""
    found, said = list(candidates), (name, normalise_name(name))
    exact = [thing.id for thing in found if thing.name in said]
    if exact:
        return exact
    # Tags of one spelling are one: what is added under any is found under it.
    key = fold_name(name)
    return [thing.id for thing in found if fold_name(thing.name) == key]
