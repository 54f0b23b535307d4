"""Filters of sync queries: which feeds and marks a query covers, and which keys match it."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence

from app.gateways.reading.streams import Sources
from app.gateways.sharing.visibility import VisibilityGateway
from app.mappers.discussion.comments import CommentMapper
from app.mappers.discussion.likes import LikeMapper
from app.mappers.feeds.entries import EntryMapper
from app.mappers.reading.marks import MarkMapper
from app.models.reading.entry import EntryKey
from app.models.reading.stream import SourceFeed
from app.models.reading.tag import Mark, Tag
from app.models.subscriptions.folder import Folder, find_descendants
from app.models.subscriptions.muting import is_followed_person, is_in_mixed_lists
from app.models.sync.sync import (
    SyncQuery,
    SyncStream,
    SyncStreamKind,
    find_folders_by_label,
    find_tag_by_label,
)

Test = Callable[[EntryKey], bool]
_MICRO = 1_000_000
_MARKS = frozenset({SyncStreamKind.STARRED, SyncStreamKind.LIKED})


@dataclasses.dataclass(frozen=True, slots=True)
class SyncScope:
    """The part of a user's data that a query needs: subscriptions with titles and counts, folders, tags.

    Attributes:
        find_folders, find_tags: load the user's folders and tags, which most queries don't need.
        visited: streams of people whom the user doesn't follow; visibility is checked per share.
    """

    user_id: int
    sources: Sources
    feeds: Mapping[int, SourceFeed]
    find_folders: Callable[[], Sequence[Folder]]
    find_tags: Callable[[], Sequence[Tag]]
    visited: Collection[int] = ()

    @property
    def folders(self) -> Sequence[Folder]:
        """The user's folders."""
        return self.find_folders()

    @property
    def tags(self) -> Sequence[Tag]:
        """The user's tags."""
        return self.find_tags()

    @property
    def people(self) -> Collection[int]:
        """The feeds of people, whose entries can be removed and restored."""
        return {f for f, mine in self.sources.subscriptions.items() if mine.person or not mine.id}

    def find_labelled_feeds(self, name: str) -> list[int]:
        """Return the feeds in the folder with this label and in all folders inside it, as on the page."""
        folders = self.folders
        wanted = find_descendants(folders, find_folders_by_label(folders, name))
        if not wanted:
            return []
        return [f for f, s in self.sources.subscriptions.items() if not wanted.isdisjoint(s.folder_ids)]

    def is_own(self, feed_id: int) -> bool:
        """Return whether a feed holds the user's own shares."""
        mine = self.sources.subscriptions.get(feed_id)
        return mine is not None and mine.id == 0 and feed_id not in self.visited

    def find_tag(self, name: str) -> int | None:
        """Return the id of the tag with this name, or None."""
        return find_tag_by_label(self.tags, name)


class EntryFilter:
    """Decides which feeds and marks a query covers, and which keys match it.

    Attributes:
        feeds: the feeds whose entries may match.
        read: the read state of matching entries; None: both.
        is_simple: whether feeds and read state alone decide.
        marked: the marks whose entries may match, in any feed.
    """

    def __init__(self, scope: SyncScope, query: SyncQuery, reader: FilterDataReader) -> None:
        self.shelf, self._query, self._looking = scope, query, reader
        self._needed: list[Test] = []
        kinds = [part.kind for part in query.streams]
        asked = {part.kind for part in query.include}
        refused = {part.kind for part in query.exclude}
        self.read = _only(kinds, asked, refused)
        # A required mark is the most selective condition, so only its entries are read. This excludes labels
        # that are also folders: entries in their feeds match without a mark.
        rare = [p for p in query.include if self._is_mark(p) and not scope.find_labelled_feeds(p.name)]
        self.marked = rare[:1] or [part for part in query.streams if self._is_mark(part)]
        self.feeds: dict[int, SourceFeed] = {}
        if not rare:
            for part in query.streams:
                self.feeds.update(self._of(part))
        visits = any(f in self.feeds for f in scope.visited)
        self.is_simple = not (rare or self.marked or visits) and self._states_alone()

    def _is_mark(self, stream: SyncStream) -> bool:
        return stream.kind in _MARKS or (
            stream.kind is SyncStreamKind.LABEL and self.shelf.find_tag(stream.name) is not None
        )

    def _states_alone(self) -> bool:
        """Return whether feeds and read state alone decide which keys match."""
        states = {SyncStreamKind.READ, SyncStreamKind.UNREAD}
        sifted = (*self._query.include, *self._query.exclude)
        known = all(part.kind in states | {SyncStreamKind.READING} for part in self._query.include)
        known = known and all(part.kind in states for part in self._query.exclude)
        plain = (known and self.read is not None) or not sifted
        uniform = (
            len({p.kind in (SyncStreamKind.READ, SyncStreamKind.UNREAD) for p in self._query.streams}) == 1
        )
        commented = any(p.kind is SyncStreamKind.COMMENTED for p in self._query.streams)
        return plain and uniform and not commented and self._query.until is None

    def _of(self, stream: SyncStream) -> dict[int, SourceFeed]:
        feeds, mine = self.shelf.feeds, self.shelf.sources.subscriptions
        match stream.kind:
            case SyncStreamKind.READING | SyncStreamKind.READ | SyncStreamKind.UNREAD:
                return {f: feed for f, feed in feeds.items() if mine[f].id and is_in_mixed_lists(mine[f])}
            case SyncStreamKind.FRIENDS | SyncStreamKind.COMMENTED:
                return {f: feed for f, feed in feeds.items() if is_followed_person(mine[f])}
            case SyncStreamKind.FEED:
                return {stream.id: feeds[stream.id]} if stream.id in feeds else {}
            case SyncStreamKind.LABEL:
                return {f: feeds[f] for f in self.shelf.find_labelled_feeds(stream.name) if f in feeds}
            case SyncStreamKind.SHARED:
                return {f: feed for f, feed in feeds.items() if self.shelf.is_own(f)}
            case _:
                return {}

    def require_since(
        self, since: int, feeds: Collection[int], numbers: Mapping[int, Collection[int]], ids: Collection[int]
    ) -> None:
        """Require that entries arrived since a time (as an id), are in one of these feeds, or changed."""
        self.is_simple = False
        self._needed.append(
            lambda k: (
                k.id >= since or k.feed_id in feeds or k.id in ids or k.seq in numbers.get(k.feed_id, ())
            )
        )

    def filter_keys(self, keys: Sequence[EntryKey]) -> list[EntryKey]:
        """Return the keys that match the query."""
        if self.is_simple and not self._needed:
            return list(keys)
        query = self._query
        look = self._looking.load_data(self.shelf, self._parts(), keys)
        hidden = self._looking.find_hidden(self.shelf, keys)
        until = None if query.until is None else to_micros(query.until)
        return [
            key
            for key in keys
            if any(look.is_in_stream(key, part) for part in query.streams)
            and all(look.is_in_stream(key, part) for part in query.include)
            and not any(look.is_in_stream(key, part) for part in query.exclude)
            and (until is None or key.id <= until)
            and key.id not in hidden
            and all(fits(key) for fits in self._needed)
        ]

    def _parts(self) -> list[SyncStream]:
        return [*self._query.streams, *self._query.include, *self._query.exclude]


class FilterDataReader:
    """Loads the marks, likes and comments that filters need."""

    def __init__(
        self,
        entries: EntryMapper,
        marks: MarkMapper,
        likes: LikeMapper,
        comments: CommentMapper,
        visibility: VisibilityGateway,
    ) -> None:
        self._entries, self._marks, self._likes, self._comments = entries, marks, likes, comments
        self._sight = visibility

    def find_hidden(self, scope: SyncScope, keys: Sequence[EntryKey]) -> Collection[int]:
        """Return which of these keys are shares that the user may not see in a visited stream."""
        shares = [k.id for k in keys if k.feed_id in scope.visited]
        return self._sight.find_hidden(scope.user_id, shares) if shares else ()

    def load_data(
        self, scope: SyncScope, streams: Sequence[SyncStream], keys: Sequence[EntryKey]
    ) -> FilterData:
        """Load the data that these streams need for all keys at once."""
        kinds = {part.kind for part in streams}
        labels = {
            part.name: scope.find_tag(part.name) for part in streams if part.kind is SyncStreamKind.LABEL
        }
        look = FilterData(scope, labels)
        ids = [k.id for k in keys]
        if SyncStreamKind.STARRED in kinds or any(tag is not None for tag in labels.values()):
            mine = scope.sources.subscriptions
            shares = [k for k in keys if k.feed_id in mine and mine[k.feed_id].person]
            roots = {i: of.entry_id for i, of in self._entries.find_origins(shares).items()} if shares else {}
            marks = self._marks.find_marks(scope.user_id, [*ids, *roots.values()])
            look.marks = {i: marks[root] for i in ids if (root := roots.get(i, i)) in marks}
        if SyncStreamKind.LIKED in kinds:
            look.liked = self._marks.find_liked(scope.user_id, ids) | self._likes.find_liked(
                scope.user_id, ids
            )
        if SyncStreamKind.COMMENTED in kinds:
            look.commented = {i for i, said in self._comments.find_authors(ids, 1).items() if said}
        return look


class FilterData:
    """Data about keys, to test whether they are in a stream."""

    def __init__(self, scope: SyncScope, labels: Mapping[str, int | None]) -> None:
        self._shelf, self._tags = scope, labels
        self._folders = {name: set(scope.find_labelled_feeds(name)) for name in labels}
        self.marks: Mapping[int, Mark] = {}
        self.liked: Collection[int] = ()
        self.commented: Collection[int] = ()
        self._mine = scope.sources.subscriptions
        self._tests: Mapping[SyncStreamKind, Test] = {
            SyncStreamKind.READING: self._is_listed,
            SyncStreamKind.READ: lambda key: not self._is_unread(key),
            SyncStreamKind.UNREAD: self._is_unread,
            SyncStreamKind.STARRED: lambda key: key.id in self.marks and self.marks[key.id].starred,
            SyncStreamKind.LIKED: lambda key: key.id in self.liked,
            SyncStreamKind.SHARED: self._is_own,
            SyncStreamKind.FRIENDS: self._is_followed,
            SyncStreamKind.COMMENTED: lambda key: self._is_followed(key) and key.id in self.commented,
        }

    def is_in_stream(self, key: EntryKey, stream: SyncStream) -> bool:
        """Return whether an entry is in a stream."""
        if stream.kind is SyncStreamKind.FEED:
            return key.feed_id == stream.id
        if stream.kind is SyncStreamKind.LABEL:
            return self._is_labelled(key, stream.name)
        test = self._tests.get(stream.kind)
        return test is not None and test(key)

    def _is_labelled(self, key: EntryKey, name: str) -> bool:
        tag, mark = self._tags[name], self.marks.get(key.id)
        tagged = tag is not None and mark is not None and tag in mark.tags
        return tagged or key.feed_id in self._folders[name]

    def _is_own(self, key: EntryKey) -> bool:
        return self._shelf.is_own(key.feed_id)

    def _is_followed(self, key: EntryKey) -> bool:
        mine = self._mine.get(key.feed_id)
        return mine is not None and is_followed_person(mine)

    def _is_listed(self, key: EntryKey) -> bool:
        mine = self._mine.get(key.feed_id)
        return mine is not None and mine.id != 0 and is_in_mixed_lists(mine)

    def _is_unread(self, key: EntryKey) -> bool:
        feed = self._shelf.feeds.get(key.feed_id)
        return feed is not None and feed.first_seq <= key.seq and not feed.state.is_read(key.seq)


def _only(
    kinds: Sequence[SyncStreamKind], asked: Collection[SyncStreamKind], refused: Collection[SyncStreamKind]
) -> bool | None:
    """Return whether only read (True) or only unread (False) entries can match; None: unknown, or both."""
    states = {SyncStreamKind.READ: True, SyncStreamKind.UNREAD: False}
    said = {states[kind] for kind in asked if kind in states}
    said |= {not states[kind] for kind in refused if kind in states}
    if kinds and all(kind in states for kind in kinds) and len(set(kinds)) == 1:
        said.add(states[kinds[0]])
    return said.pop() if len(said) == 1 else None


def to_micros(at: dt.datetime) -> int:
    """Return the smallest id that an entry can have at a time."""
    return int(at.timestamp() * _MICRO)


def from_micros(micros: int) -> dt.datetime:
    """Return the UTC time of microseconds since the epoch; :func:`to_micros` reverses it."""
    return dt.datetime.fromtimestamp(micros / _MICRO, dt.UTC)
