"""Streams: references, queries and cursors, and the pages, trees and articles that answer them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.errors import InvalidError
from app.models.feeds.chapters import Chapter
from app.models.feeds.parsed import Enclosure
from app.models.reading.entry import Entry, EntryKey
from app.models.reading.full_text import FullText
from app.models.reading.notes import Note, NotePreview
from app.models.reading.search import QueryNote, Term, decode_query, encode_query
from app.models.reading.story import Copy
from app.models.reading.tag import Tag
from app.models.sharing.sharing import Share, Sharer, ShareVisibility
from app.models.subscriptions.read_state import ReadState

_REF = re.compile(
    r"(today|all|starred|notes|recent|following|shares)|(feed|folder|tag)/([1-9][0-9]{0,15})", re.ASCII
)
_SEARCH = "search/"
#: Most characters of a text form; searches have the longest.
REF_MAX = 2048
_CURSOR = re.compile(r"([ab])\.(-?[0-9]{1,15})\.([0-9]{1,16})\.([0-9]{1,9})", re.ASCII)
MAX_ID = 1 << 53


class StreamKind(enum.StrEnum):
    """The set of entries of a stream."""

    TODAY = "today"
    ALL = "all"
    FEED = "feed"
    FOLDER = "folder"
    STARRED = "starred"
    NOTES = "notes"
    RECENT = "recent"
    FOLLOWING = "following"
    SHARES = "shares"
    TAG = "tag"
    SEARCH = "search"


#: Streams of marked entries, even of feeds that the user has left. Like searches: no unread-on-top.
MARKED = frozenset({StreamKind.STARRED, StreamKind.NOTES, StreamKind.TAG})
#: Streams of single entries, whose keys aren't merged from feeds.
SINGLE = MARKED | {StreamKind.RECENT}
#: Streams of the entries of feeds, which any order can sort.
SORTED = frozenset({StreamKind.ALL, StreamKind.FEED, StreamKind.FOLDER, StreamKind.FOLLOWING})


class Sort(enum.StrEnum):
    """Orders of a stream. For starred, tagged, found and recently read ones, unread-on-top means newest.

    Only found entries have a relevance, and only streams of :data:`SORTED` begin with their shortest or most
    popular entries; elsewhere these orders mean newest.
    """

    UNREAD_ON_TOP = "unread-on-top"
    NEWEST = "newest"
    OLDEST = "oldest"
    SHORTEST = "shortest"
    POPULAR = "popular"
    RELEVANCE = "relevance"


class Show(enum.StrEnum):
    """Which entries of a stream are listed. Starred and recently read ones are listed, read or not."""

    ALL = "all"
    UNREAD = "unread"


@dataclasses.dataclass(frozen=True, slots=True)
class StreamRef:
    """A reference to a stream.

    Its text form is ``today``, ``all``, ``starred``, ``notes``, ``recent``, ``following``, ``shares`` (the
    reader's own), ``feed/<id>``, ``folder/<id>``, ``tag/<id>``, or ``search/`` with the query encoded for use
    in an address (:func:`app.models.reading.search.encode_query`).
    """

    kind: StreamKind
    id: int | None = None
    query: str = ""

    @property
    def is_own(self) -> bool:
        """Whether it holds the reader's own shares."""
        return self.kind is StreamKind.SHARES

    def __str__(self) -> str:
        if self.kind is StreamKind.SEARCH:
            return _SEARCH + encode_query(self.query)
        return self.kind if self.id is None else f"{self.kind}/{self.id}"

    @classmethod
    def parse(cls, text: object) -> StreamRef:
        """Read the text form.

        Raises:
            InvalidError: the text isn't a stream.
        """
        text = text if isinstance(text, str) and len(text) <= REF_MAX else ""
        if text.startswith(_SEARCH) and (query := decode_query(text[len(_SEARCH) :])):
            return cls(StreamKind.SEARCH, query=query)
        match = _REF.fullmatch(text)
        if match is None:
            raise InvalidError("This list doesn't exist.", field="stream")
        if match[1]:
            return cls(StreamKind(match[1]))
        return cls(StreamKind(match[2]), int(match[3]))


class Segment(enum.StrEnum):
    """The part of a stream that a cursor is in: unread-on-top has two, other orders only the first."""

    FIRST = "a"
    READ = "b"


@dataclasses.dataclass(frozen=True, slots=True)
class Cursor:
    """The last row of a page: the next page begins after it. ``at`` in milliseconds.

    ``seen`` counts the segment's rows up to here; it is only used to estimate their density.
    """

    segment: Segment
    at: int
    id: int
    seen: int

    def __str__(self) -> str:
        return f"{self.segment}.{self.at}.{self.id}.{self.seen}"

    @classmethod
    def parse(cls, text: object) -> Cursor:
        """Read the text form.

        Raises:
            InvalidError: the text isn't a cursor.
        """
        match = _CURSOR.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InvalidError("Can't load more of this list. Reload it.", field="cursor")
        return cls(Segment(match[1]), int(match[2]), int(match[3]), int(match[4]))


@dataclasses.dataclass(frozen=True, slots=True)
class StreamQuery:
    """A request for a page.

    Attributes:
        cursor: of the previous page, as text; None for the first page.
        snapshot: of the first page; belongs to ``cursor``. A first page makes a new one; a snapshot
            without a cursor is its first page again, with the same rows.
        limit: rows, None for the setting ``page_size``.
        show: unread entries only, as of the first page: entries read since then stay.
        with_bodies: include the rows' texts.
        once: only the first page is wanted, so no snapshot is stored.
        for_others: others than the reader get the rows, so they lack texts that are only for the reader.
    """

    ref: StreamRef
    sort: Sort = Sort.UNREAD_ON_TOP
    cursor: str | None = None
    snapshot: str | None = None
    limit: int | None = None
    show: Show = Show.ALL
    with_bodies: bool = False
    once: bool = False
    for_others: bool = False


class SourceFeed(NamedTuple):
    """A feed as one stream sees it at one moment: its range of entries and the user's read state.

    ``newest`` is the sort time of its newest entry in milliseconds, ``unread`` its count; ``missing`` counts
    the numbers without an entry.
    """

    feed_id: int
    first_seq: int
    last_seq: int
    newest: int
    state: ReadState
    unread: int
    missing: int = 0

    @classmethod
    def create(
        cls, feed_id: int, first_seq: int, last_seq: int, *, newest: int, state: ReadState, missing: int = 0
    ) -> SourceFeed:
        """Create a source and count its unread entries."""
        unread = state.count_unread(first_seq, last_seq)
        return cls(feed_id, first_seq, last_seq, newest, state, unread, missing)

    @property
    def total(self) -> int:
        """The number of entries."""
        return self.last_seq - self.first_seq + 1 - self.missing


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """A stream as of ``at``, kept for a day; pages and bulk actions refer to it.

    ``ranking`` holds the first keys of an order that no index has; None: the order is that of times.
    """

    token: str
    user_id: int
    ref: StreamRef
    sort: Sort
    at: dt.datetime
    feeds: Mapping[int, SourceFeed]
    show: Show = Show.ALL
    ranking: tuple[EntryKey, ...] | None = None

    @property
    def total(self) -> int | None:
        """The number of rows of the list; None for marked, recently read and found entries."""
        if self.ref.kind in SINGLE or self.ref.kind is StreamKind.SEARCH:
            return None
        if self.ref.kind is StreamKind.TODAY:
            return len(self.ranking or ())
        unread = self.show is Show.UNREAD
        return sum(f.unread if unread else f.total for f in self.feeds.values())


class RowSource(NamedTuple):
    """The feed that an entry came from, as rows name it.

    ``key`` decides the color of its tile: its id, or the page of the person whose shares it holds
    (``person``). ``icon`` is the path of its picture.
    """

    key: int | str
    title: str
    icon: str | None
    person: bool


@dataclasses.dataclass(frozen=True, slots=True)
class EntryRow:
    """One row of a list; ``read`` is the current state, not that of the snapshot.

    ``markable``: its feed is one of the user's; other rows can't be marked read or unread.
    ``html`` is its feed's sanitized text if texts were requested; None: too long for a list, or not
    requested. ``full`` is the text of its page, which its reader always gets instead of the feed's; empty:
    the reader gets the feed's; None: this text is too long for a list, and the feed has none that fits.
    ``pictures`` and ``enclosures`` come with the texts.
    ``sharers`` are the people that the reader follows who shared it. ``lost``: why it isn't shown.
    ``icon`` is the path of its feed's icon, ``feed_url`` the feed's address.
    ``original``: its title opens the page at its site. ``highlighted``: by one of the user's rules, of which
    ``highlighter`` is the id; 0: unknown.
    ``read_at``: when the user read it, in the stream of recently read entries.
    ``copies`` are in other feeds of the user; the row stands for them, too: it is unread if one of them is.
    ``noted``: in the list of notes, what the user wrote and highlighted; ``excerpt`` is its beginning there.
    ``source``: of one of the user's own shares, where its entry came from; None: unknown, or their own post.
    """

    id: int
    feed_id: int
    feed_title: str
    language: str | None
    title: str
    url: str | None
    author: str
    excerpt: str
    at: dt.datetime
    published: dt.datetime | None
    read: bool
    starred: bool
    image: str | None
    tags: tuple[Tag, ...] = ()
    html: str | None = None
    full: str | None = ""
    pictures: tuple[Enclosure, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()
    sharers: tuple[Sharer, ...] = ()
    lost: ShareVisibility | None = None
    markable: bool = True
    icon: str | None = None
    feed_url: str | None = None
    original: bool = False
    read_at: dt.datetime | None = None
    highlighted: bool = False
    highlighter: int = 0
    copies: tuple[Copy, ...] = ()
    noted: NotePreview | None = None
    source: RowSource | None = None

    @property
    def shown_html(self) -> str | None:
        """The text for its reader, never for others; None: too long for a list, or not requested."""
        return self.html if self.full == "" else self.full


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """One page of a stream.

    Attributes:
        cursor: for the next page, None at the end.
        snapshot: token for the next pages, ``newer`` and ``mark_all``.
        split: index of the first row under "Already read", None if this page doesn't have that border.
        unread: unread entries of the whole stream; None on later pages.
        looked: the summary of a search.
        total: rows of the whole list, if known.
        notes: about entries that a search may have missed.
        pinned: the open entry, on top of these rows; None: one of them, or none is open.
        late: copies of stories that the user has read, which are to be marked as read.
        late_hidden: copies of stories that the user has hidden, which are to be hidden, with their stories.
    """

    rows: tuple[EntryRow, ...]
    cursor: str | None
    snapshot: str
    split: int | None
    unread: int | None
    looked: SearchSummary | None = None
    total: int | None = None
    notes: tuple[QueryNote, ...] = ()
    pinned: EntryRow | None = None
    late: tuple[EntryKey, ...] = ()
    late_hidden: tuple[tuple[int, EntryKey], ...] = ()

    @property
    def all_rows(self) -> tuple[EntryRow, ...]:
        """The rows in the order in which they are read."""
        return (self.pinned, *self.rows) if self.pinned else self.rows

    def drop_row(self, entry_id: int | None) -> Page:
        """Return this page without the row of an entry or its copies, which is pinned on top of the list."""
        places = [
            place
            for place, row in enumerate(self.rows)
            if row.id != entry_id and all(copy.entry_id != entry_id for copy in row.copies)
        ]
        if len(places) == len(self.rows):
            return self
        split = self.split
        if split is not None:
            split = sum(place < split for place in places)
            split = split if split < len(places) else None
        return dataclasses.replace(self, rows=tuple(self.rows[place] for place in places), split=split)


@dataclasses.dataclass(frozen=True, slots=True)
class SearchSummary:
    """The terms of a search, to be highlighted, and the parts that weren't understood."""

    terms: tuple[Term, ...]
    notes: tuple[QueryNote, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Article:
    """One entry for reading, with its feed's names and the user's own marks.

    For a share, ``source_id`` and the names are those of the root entry's feed; ``person``: the entry is
    a person's own text. ``markable``, ``icon``, ``feed_url``: as in
    :class:`EntryRow`. ``chapters``: from a file that the feed names; None: a job fetches it now.
    ``always_full``: the user wants the full texts of its feed. ``wants_full``: show ``full``, the text of the
    entry's page, instead of the feed's text. ``saved``: the user has saved the page.
    ``note``: the user's own.
    ``copies``: of the article in other feeds of the user; ``is_apart``: the user keeps them apart in lists.
    ``is_hidden``: lists leave the entry out. ``highlighted``, ``highlighter``: as in :class:`EntryRow`.
    """

    entry: Entry
    feed_title: str
    language: str | None
    site_url: str | None
    read: bool
    starred: bool
    subscribed: bool
    source_id: int
    person: bool = False
    tags: tuple[Tag, ...] = ()
    sharers: tuple[Sharer, ...] = ()
    shares: tuple[Share, ...] = ()
    markable: bool = True
    icon: str | None = None
    feed_url: str | None = None
    chapters: Sequence[Chapter] | None = ()
    always_full: bool = False
    wants_full: bool = False
    full: FullText | None = None
    saved: bool = False
    note: Note | None = None
    copies: tuple[Copy, ...] = ()
    is_apart: bool = False
    is_hidden: bool = False
    highlighted: bool = False
    highlighter: int = 0

    @property
    def shown_full(self) -> str:
        """The HTML to show instead of the feed's text; empty: show the feed's."""
        return self.full.html if self.wants_full and self.full else ""

    @property
    def pictures(self) -> tuple[Enclosure, ...]:
        """The pictures to show besides the text."""
        return self.entry.list_pictures(self.shown_full) if self.shown_full else self.entry.pictures


@dataclasses.dataclass(frozen=True, slots=True)
class MarkResult:
    """The effect of single marks: feed → change of its unread count."""

    deltas: Mapping[int, int]

    @property
    def total(self) -> int:
        """The change of the user's total unread count."""
        return sum(self.deltas.values())


@dataclasses.dataclass(frozen=True, slots=True)
class MassMarkResult:
    """The effect of a bulk action; ``undo`` is a token that undoes it for a day."""

    undo: str
    count: int


class TreeFeed(NamedTuple):
    """A subscription in the tree.

    ``icon`` is the path of its icon, ``error`` a failing feed's word, ``person``: it holds shares; then
    ``site_url`` is the person's page.
    """

    feed_id: int
    title: str
    site_url: str | None
    icon: str | None
    unread: int
    error: str | None
    folder_ids: tuple[int, ...]
    person: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class TreeFolder:
    """A folder with its own feeds and subfolders; ``unread`` counts each feed below once."""

    id: int
    name: str
    parent: int | None
    unread: int
    feeds: tuple[TreeFeed, ...]
    folders: tuple[TreeFolder, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """All of a user's subscriptions: top folders, then feeds without a folder.

    ``following`` counts unread articles shared by people the user follows, each once, however many share
    it (beyond a limit, shares are counted). None: the user follows no one.
    ``is_ranked``: sorted by numbers that change while one reads; pages keep their order until they are
    loaded again.
    """

    folders: tuple[TreeFolder, ...]
    feeds: tuple[TreeFeed, ...]
    unread: int
    following: int | None = None
    is_ranked: bool = False
