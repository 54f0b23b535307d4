"""Entries: as a pull brings them, and as stored."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import NamedTuple

from app.models.feeds.chain import Chain
from app.models.feeds.parsed import Enclosure, Replies, has_picture
from app.models.reading.full_text import FullText
from app.models.sharing.sharing import Origin, ShareVisibility

#: Most pictures shown with an entry whose text has none.
PICTURES = 20


class NewEntry(NamedTuple):
    """An entry to be stored for the first time; a tuple, because there are thousands of them.

    Attributes:
        guid_hash: 8 bytes, the entry's identity within its feed.
        at: sort time; published, updated: as the feed states; arrived: when it was first seen.
        title, author: plain text; content, summary: sanitized HTML with absolute addresses.
        excerpt: plain text for lists.
        raw: content and summary as published (:mod:`app.gateways.feeds.entry_bodies`); empty if sanitizing
            changed nothing.
        cleaned_by: version of the sanitizer.
        remote: its chain on other servers, as they state it; None: it starts here, or isn't a share.
        replies: the comments at its site.
        brought: a saved page whose text the person has brought along, until its page gains more.
    """

    guid_hash: bytes
    at: dt.datetime
    arrived: dt.datetime
    title: str
    published: dt.datetime | None = None
    updated: dt.datetime | None = None
    url: str | None = None
    author: str = ""
    content: str = ""
    summary: str = ""
    excerpt: str = ""
    categories: tuple[str, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()
    image: str | None = None
    raw: bytes = b""
    cleaned_by: int = 0
    remote: Chain | None = None
    replies: Replies | None = None
    brought: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EntryChange:
    """A stored entry's new body; its sort time, sequence number and read states stay."""

    guid_hash: bytes
    title: str
    updated: dt.datetime | None = None
    url: str | None = None
    author: str = ""
    content: str = ""
    summary: str = ""
    excerpt: str = ""
    categories: tuple[str, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()
    image: str | None = None
    raw: bytes = b""
    cleaned_by: int = 0
    remote: Chain | None = None
    replies: Replies | None = None


class EntryKey(NamedTuple):
    """The fields of an entry that a stream needs before it reads the body; ``at`` in milliseconds."""

    id: int
    feed_id: int
    seq: int
    at: int

    @property
    def time(self) -> dt.datetime:
        """Return ``at`` as a UTC time."""
        return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=self.at)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A stored entry.

    ``revision`` counts changes of its body, ``stars`` its marks and shares; ``of`` is the root it shares.
    ``lost`` says why the shared entry isn't shown: it was removed, or the viewer may not see it. ``full`` is
    the text of its page, if someone has requested it. ``brought``: see :class:`NewEntry`.
    """

    id: int
    feed_id: int
    seq: int
    at: dt.datetime
    arrived: dt.datetime
    title: str
    published: dt.datetime | None = None
    updated: dt.datetime | None = None
    url: str | None = None
    author: str = ""
    content: str = ""
    summary: str = ""
    excerpt: str = ""
    categories: tuple[str, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()
    image: str | None = None
    raw: bytes = b""
    cleaned_by: int = 0
    remote: Chain | None = None
    replies: Replies | None = None
    revision: int = 1
    stars: int = 0
    of: Origin | None = None
    lost: ShareVisibility | None = None
    full: FullText | None = None
    brought: bool = False

    @property
    def source_id(self) -> int:
        """The feed that its text comes from: of a share, that of the shared entry."""
        return self.of.feed_id if self.of and not self.lost else self.feed_id

    @property
    def longest(self) -> str:
        """The HTML of its page, if that is known and longer than the feed's, else the feed's."""
        own, page = self.content or self.summary, self.full.html if self.full else ""
        return page if len(page) > len(own) else own

    @property
    def pictures(self) -> tuple[Enclosure, ...]:
        """The pictures to show besides the feed's text: see :meth:`list_pictures`."""
        return self.list_pictures(self.content or self.summary)

    def list_pictures(self, shown: str) -> tuple[Enclosure, ...]:
        """Return the pictures to show besides a text: most news, photo blogs and Mastodon posts have some.

        Empty if the text has pictures: feeds list the same ones again, in other sizes.
        """
        if has_picture(shown):
            return ()
        found = [file for file in self.enclosures if file.is_picture]
        if not found and self.image:
            found = [picture for picture in (Enclosure(self.image),) if picture.url.startswith("http")]
        return tuple(found[:PICTURES])
