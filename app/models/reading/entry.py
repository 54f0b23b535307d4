"""Entries: as a pull brings them, and as they are stored."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import NamedTuple

from app.models.feeds.chain import Chain
from app.models.feeds.parsed import Enclosure, has_picture
from app.models.sharing.sharing import Origin, ShareVisibility

#: Pictures of one entry that are shown with a text that has none.
PICTURES = 20


class NewEntry(NamedTuple):
    """An entry to be stored for the first time; a tuple, since they are made by the thousand.

    Attributes:
        guid_hash: 8 bytes, the entry's identity within its feed.
        at: sort time; published, updated: as the feed says; arrived: when it was first seen.
        title, author: plain text; content, summary: sanitised HTML with absolute addresses.
        excerpt: plain text for lists.
        raw: content and summary as published (:mod:`app.gateways.feeds.entry_bodies`); empty when cleaning
        changed
            nothing.
        cleaned_by: version of the sanitiser.
        remote: its way over other servers, as they say; None: it begins here, or is no share.
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EntryChange:
    """A stored entry's new body; its place, sequence number and read states stay."""

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


class EntryKey(NamedTuple):
    """What a stream needs to know of an entry before it reads its body; ``at`` in milliseconds."""

    id: int
    feed_id: int
    seq: int
    at: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A stored entry.

    ``revision`` counts changes of its body; ``stars`` counts its marks and shares; ``of`` is what it shares.
    ``lost`` says why nothing of that is shown: it was taken back, or is not for who looks.
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
    revision: int = 1
    stars: int = 0
    of: Origin | None = None
    lost: ShareVisibility | None = None

    @property
    def pictures(self) -> tuple[Enclosure, ...]:
        """What is to be seen besides the text: of most news, photo blogs and posts on Mastodon.

        None where the text has pictures: feeds tell of those again, in other sizes.
        """
        if has_picture(self.content or self.summary):
            return ()
        found = [file for file in self.enclosures if file.is_picture]
        if not found and self.image:
            found = [picture for picture in (Enclosure(self.image),) if picture.url.startswith("http")]
        return tuple(found[:PICTURES])
