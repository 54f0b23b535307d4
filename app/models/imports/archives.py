"""Archives of other readers: the marked entries in them, and how many of these were imported."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum

from app.models.reading.notes import Quote

#: Longest guid and address that are compared, characters.
NAME_MAX = 2048
#: Longest HTML of an entry that is taken from an archive, and of all its entries together, in characters.
TEXT_MAX = 256 << 10
TEXTS_MAX = 32 << 20
#: The tag of entries that the person shared in another program. They aren't shared here, where others see it.
SHARED_TAG = "Shared"


class ArchiveKind(enum.StrEnum):
    """The program that wrote an archive."""

    BOOKMARKS = "bookmarks"
    EVENTR = "eventr"
    FRESHRSS = "freshrss"
    INSTAPAPER = "instapaper"
    MINIFLUX = "miniflux"
    POCKET = "pocket"
    TTRSS = "tt-rss"


class Repeats(enum.IntFlag):
    """What of an entry other entries of its feed in the same archive have as well.

    PAGE: the page of the link, however its address is written. DATED: title and time together.
    """

    NONE = 0
    TITLE = 1
    DATED = 2
    LINK = 4
    PAGE = 8


@dataclasses.dataclass(frozen=True, slots=True)
class SavedEntry:
    """An entry in an archive. Its text is only for a saved page: entries belong to all readers of their feed.

    Attributes:
        feed_url: address of its feed; empty: it is a saved page without a feed.
        guid: identity that the feed gave it; empty: unknown.
        link: address of its page; empty: none.
        starred: when it was starred, or True.
        read: None: the archive doesn't say.
        hidden: it is hidden from the person's lists.
        tags: names as written.
        feed_title: title of its feed. feed_folders: path of the folder around it.
        title: its own title, for a saved page.
        at: when it was saved, or published.
        note: what the person wrote about it.
        quotes: passages that the person highlighted; without ids they get new ones.
        html: its text, not sanitized, for the case that it becomes a saved page.
        repeats: what isn't its own; its archive is stored in parts, so that a part can't tell.
    """

    feed_url: str = ""
    guid: str = ""
    link: str = ""
    starred: bool | dt.datetime = False
    read: bool | None = None
    tags: tuple[str, ...] = ()
    feed_title: str = ""
    feed_folders: tuple[str, ...] = dataclasses.field(default=(), compare=False, kw_only=True)
    title: str = dataclasses.field(default="", compare=False)
    at: dt.datetime | None = dataclasses.field(default=None, compare=False)
    note: str = ""
    quotes: tuple[Quote, ...] = ()
    html: str = dataclasses.field(default="", compare=False)
    hidden: bool = dataclasses.field(default=False, kw_only=True)
    repeats: Repeats = dataclasses.field(default=Repeats.NONE, compare=False, kw_only=True)

    @property
    def size(self) -> int:
        """Characters of all its texts."""
        names = (self.feed_url, self.guid, self.link, self.feed_title, self.title, self.note, *self.tags)
        quotes = (len(q.exact) + len(q.prefix) + len(q.suffix) + len(q.note) for q in self.quotes)
        return sum(map(len, names)) + sum(quotes) + len(self.html)

    @property
    def is_noted(self) -> bool:
        """Whether it has a note or a highlight."""
        return bool(self.note or self.quotes)

    @property
    def is_kept(self) -> bool:
        """Whether the person kept it, so that it must not be lost with its feed."""
        return bool(self.starred or self.tags) or self.is_noted

    @property
    def is_only_hidden(self) -> bool:
        """Whether the archive says nothing else about it than that the person has hidden it."""
        return self.hidden and not self.is_kept and self.read is None

    @property
    def is_marked(self) -> bool:
        """Whether the archive says anything about it."""
        return self.is_kept or self.hidden or self.read is not None


class MarkCount(enum.StrEnum):
    """What became of the marked entries of an archive.

    WAITING: entries whose feed isn't imported yet. STARRED, TAGGED, READ, NOTED, HIDDEN: entries that were
    marked so; one entry may be in several. PAGES: saved as pages, because they have no feed, or because their
    feed no longer has them. MISSING: entries that nobody kept and that their feed no longer has. CUT: entries
    beyond the limit. LONG: texts that were cut or left out, because they are too long or too many.
    """

    WAITING = "waiting"
    STARRED = "starred"
    TAGGED = "tagged"
    READ = "read"
    NOTED = "noted"
    HIDDEN = "hidden"
    MISSING = "missing"
    PAGES = "pages"
    CUT = "cut"
    LONG = "long"


@dataclasses.dataclass(frozen=True, slots=True)
class MarkRow:
    """The marks of an entry, as an import stores them.

    Attributes:
        feed: key of its feed's address, see :func:`app.feeds.urls.hash_url`.
    """

    feed: str
    entry: SavedEntry
