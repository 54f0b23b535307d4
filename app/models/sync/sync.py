"""Sync queries and results: combined and filtered streams, items with all their marks."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from app.models.feeds.feed import FeedCard
from app.models.names import fold_name, normalise_name
from app.models.reading.entry import Entry
from app.models.reading.stream import MAX_ID
from app.models.reading.tag import Tag, make_tag_key, normalise_tag
from app.models.sharing.sharing import Sharer
from app.models.subscriptions.folder import (
    Folder,
    build_folder_labels,
    build_folder_paths,
    join_folder_path,
)
from app.models.subscriptions.subscription import Subscription


class SyncStreamKind(enum.StrEnum):
    """What an entry can be for a user: each is a stream, and a filter for others."""

    READING = "reading-list"
    READ = "read"
    UNREAD = "unread"
    STARRED = "starred"
    LIKED = "like"
    #: The user's own shares, the shares of people they follow, and the commented ones among those.
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


@dataclasses.dataclass(frozen=True, slots=True)
class SyncQuery:
    """Which entries, in which order.

    Attributes:
        streams: entries of any of these streams.
        include: that are also in each of these streams.
        exclude: and in none of these streams.
        since: that arrived or changed since then, or whose feed the user subscribed to since then.
        until: that arrived before then.
        newest_first: in the order of arrival, which is the order of the ids, latest first.
        after: the last id of the previous page.
        below: only ids below this one.
    """

    streams: tuple[SyncStream, ...]
    include: tuple[SyncStream, ...] = ()
    exclude: tuple[SyncStream, ...] = ()
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    newest_first: bool = True
    limit: int = 20
    after: int | None = None
    below: int = MAX_ID


class ReadLimit(NamedTuple):
    """The time up to which an app marks a list as read, in microseconds since the epoch.

    Attributes:
        first, last: the range that the app's number stands for, both ends included: a whole second for
            seconds. Entries that arrived in that range count as seen.
    """

    first: int
    last: int

    @property
    def is_exact(self) -> bool:
        """Whether the range is shorter than a second."""
        return self.last - self.first < 999_999


class SyncFeed(NamedTuple):
    """A subscription as programs see it; ``labels`` are its folders' labels, in the folders' order."""

    subscription: Subscription
    card: FeedCard
    title: str
    labels: tuple[str, ...]
    unread: int


@dataclasses.dataclass(frozen=True, slots=True)
class SyncItem:
    """An entry with all of a user's marks.

    Attributes:
        read: True for entries that the user can no longer mark.
        shared: the user shares it. labels: its feed's folders. tags: the user's own.
        feed_title, site_url, language: of the feed that contains it; the language as the feed declares it.
        by: for a share, the sharer with their note. via: the chain back from that share;
            None for shares that the user may not see.
        person: the user id of the stream's owner, if it is a person's stream.
        likers: for a share, some of the people who like it.
        full: HTML of the entry's page, which the user always gets instead of the feed's; empty: the feed's.
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
    language: str | None = None
    by: Sharer | None = None
    via: tuple[Sharer | None, ...] = ()
    person: int | None = None
    likers: tuple[int, ...] = ()
    full: str = ""


class UnreadCounts(NamedTuple):
    """Unread counts with the newest arrival of each, in microseconds; 0 if it has no entries.

    ``people``: feed → the user whose stream it is.
    """

    feeds: Mapping[int, tuple[int, int]]
    labels: Mapping[str, tuple[int, int]]
    total: tuple[int, int]
    friends: tuple[int, int]
    people: Mapping[int, int]


def find_tag_by_label(tags: Iterable[Tag], label: str) -> int | None:
    """Return the tag with a name, in any case or spelling; None: there is no such tag.

    Tags have no commas: a label with commas means the tag that was stored without them.
    """
    found, said = list(tags), (label, normalise_tag(label))
    # Spellings of a tag are equal: an entry tagged under any of them is found under all.
    key = make_tag_key(label)
    same = [tag.id for tag in found if tag.name in said]
    same += [tag.id for tag in found if make_tag_key(tag.name) == key]
    return next(iter(same), None)


def find_folders_by_label(folders: Sequence[Folder], label: str) -> list[int]:
    """Return the folder with a label, as written or stored, else in another case or spelling.

    The path of a folder finds it too, even while its bare name is its label. Several ids are folders of the
    same name in the same place; a spelling that fits folders in several places finds none.
    """
    labels, said = build_folder_labels(folders), (label, normalise_name(label))
    paths = {i: join_folder_path(path) for i, path in build_folder_paths(folders).items()}
    for named in (labels, paths):
        if exact := [i for i, name in named.items() if name in said]:
            return exact
    key = fold_name(label)
    for named in (labels, paths):
        if similar := [i for i, name in named.items() if fold_name(name) == key]:
            return similar if len({named[i] for i in similar}) == 1 else []
    return []
