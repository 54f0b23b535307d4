"""Parsed feeds: one normalized form for all formats, with the content as published."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import itertools
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from app.models.feeds.chain import Chain


class Format(enum.StrEnum):
    """Feed formats, by the words that ``eventr feed parse`` prints."""

    RSS09X = "rss09x"
    RSS10 = "rss10"
    RSS11 = "rss11"
    RSS20 = "rss20"
    ATOM03 = "atom03"
    ATOM10 = "atom10"
    JSON10 = "json10"
    JSON11 = "json11"
    PAGE = "page"


class ParserPath(enum.StrEnum):
    """The parser that read a body (for statistics and tests)."""

    STRICT = "strict"
    REPAIRED = "repaired"
    FEEDPARSER = "feedparser"
    JSON = "json"
    PAGE = "page"


class FileRole(enum.StrEnum):
    """What a file is to an entry's recording; other files have no role."""

    ALTERNATE = "alternate"
    TRANSCRIPT = "transcript"
    CHAPTERS = "chapters"


class Replies(NamedTuple):
    """The comments on an entry at its own site.

    Attributes:
        url: the page with the comments. feed: a feed of them.
        total: how many there were when the entry was stored.
    """

    url: str | None = None
    feed: str | None = None
    total: int | None = None


#: Types that browsers show, and the type of an unspecified picture.
_SHOWN = {f"image/{kind}" for kind in ("jpeg", "jpg", "png", "gif", "webp", "avif", "svg+xml", "bmp", "*")}
_IMAGE = re.compile(r"<img\b[^<>]{0,2000}", re.IGNORECASE)
_ALT = re.compile(r"""\s(?:alt|title)\s*=\s*(?:"[^"]*"|'[^']*')""", re.IGNORECASE)
#: A picture of the size of a letter, by its size (as in :mod:`app.feeds.parse.media`) or by its name;
#: tracking pixels match too.
_LETTER = re.compile(
    r"""[\s"'](?:width|height)\s*=\s*["']?(?:[0-3]?[0-9]|4[0-8])(?:px)?(?=["'\s/]|\Z)"""
    r"""|/emojis?/|\brel=["']?emoji|/smilies/|\bclass=["'](?:[\w-]{1,40}\s){0,4}(?:emoji|wp-smiley)\b""",
    re.IGNORECASE,
)
#: Most pictures of one text that are checked.
_MOST_SIGNS = 1000
#: Lists of parts, which most browsers can't play.
_PLAYLIST = re.compile(r"mpegurl|dash\+xml|x-scpls|x-ms-(?:asx|wax|wvx)", re.IGNORECASE)
#: Endings of files that browsers play.
_MEDIA: Mapping[str, Literal["audio", "video"]] = {
    **dict.fromkeys(("mp3", "m4a", "m4b", "aac", "oga", "ogg", "opus", "wav", "flac"), "audio"),
    **dict.fromkeys(("mp4", "m4v", "webm", "mov", "ogv"), "video"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Enclosure:
    """A file that belongs to an entry.

    Attributes:
        length: in bytes, None if not stated.
        text: the caption of a picture, for people who can't see it; or the name of another version of a file.
        duration: of a recording, in seconds; None if not stated.
        role: what the file is to the entry's recording.
    """

    url: str
    type: str | None = None
    length: int | None = None
    text: str = ""
    duration: int | None = None
    role: FileRole | None = None

    @property
    def is_picture(self) -> bool:
        """Whether a page can show the file as a picture."""
        if not self.url.startswith(("http://", "https://")):
            return False
        return self.type.partition(";")[0] in _SHOWN if self.type else looks_like_picture(self.url)

    @property
    def medium(self) -> Literal["audio", "video"] | None:
        """What a page can play: a recording by its type, else by the ending of its address; else None."""
        return find_medium(self.url, self.type)


def has_picture(html: str) -> bool:
    """Return whether a text shows a picture other than emoji and tracking pixels."""
    tags = itertools.islice(_IMAGE.finditer(html), _MOST_SIGNS)
    return any(not _LETTER.search(_ALT.sub("", tag[0])) for tag in tags)


def find_medium(url: str, type: str | None = None) -> Literal["audio", "video"] | None:
    """Return the medium of a file that browsers play, None for other files and addresses."""
    if not url.startswith(("https://", "http://")):
        return None
    kind = (type or "").partition("/")[0].strip().lower()
    if kind in ("audio", "video") and not _PLAYLIST.search(type or ""):
        return "audio" if kind == "audio" else "video"
    # Many servers say "application/octet-stream" of everything.
    return None if kind in ("image", "text") else _MEDIA.get(url.partition("?")[0].rpartition(".")[2].lower())


def looks_like_picture(url: str) -> bool:
    """Return whether an address ends like that of a picture."""
    path = url.partition("?")[0].lower()
    return path.endswith((".jpg", ".jpeg", ".png", ".gif", ".webp", ".avif"))


class ParsedEntry(NamedTuple):
    """One item, entry or post; a tuple, because making one costs half as much as a frozen dataclass.

    Attributes:
        guid: the raw text of guid, atom:id, rdf:about or JSON id; None if there is none.
        url: absolute; None if there is none or it isn't http(s).
        title, author: plain text.
        published, updated: aware UTC as stated by the feed, unclamped; None if unreadable.
        content: HTML as published, not yet sanitized; empty if there is only a summary.
        summary: HTML as published, not yet sanitized.
        base_url: the base of relative addresses in content and summary; after a "#" may follow
            the address of the page to which pure "#name" links belong.
        image: absolute address of the entry's main picture, else None.
        chain: its chain of shares, as another Eventr states it; None if it states none.
        replies: the comments at its site; None if it states none.
    """

    guid: str | None
    url: str | None
    title: str
    author: str
    published: dt.datetime | None
    updated: dt.datetime | None
    content: str
    summary: str
    base_url: str
    categories: tuple[str, ...] = ()
    enclosures: tuple[Enclosure, ...] = ()
    image: str | None = None
    chain: Chain | None = None
    replies: Replies | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ParsedFeed:
    """One feed document.

    Attributes:
        site_url, self_url, hub, icon: absolute or None.
        ttl_minutes: RSS ttl or sy:updatePeriod/updateFrequency, else None.
        skip_hours: hours of the day (UTC, 0–23) at which the feed asks not to be polled.
        truncated: items or text were cut at a limit; never stored as complete (X04).
        cut: the document ends in the middle; only complete entries are included.
        setting: 8 bytes, the hash of everything around the first entry that affects how entries are
            parsed: with the same bytes and setting an entry is the same. Only from XML.
        unlisted: the publisher wants the feed in no directory (``itunes:block``).
        new_url: the address to which the publisher says that the feed moves, else None.
    """

    format: Format
    parser: ParserPath
    title: str
    site_url: str | None
    description: str
    language: str | None
    entries: tuple[ParsedEntry, ...]
    self_url: str | None = None
    hub: str | None = None
    ttl_minutes: int | None = None
    skip_hours: frozenset[int] = frozenset()
    icon: str | None = None
    truncated: bool = False
    cut: bool = False
    setting: bytes = b""
    unlisted: bool = False
    new_url: str | None = None
