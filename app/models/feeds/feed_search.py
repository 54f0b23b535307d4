"""Search of feeds by words: the stored words of a feed, and the rating of a match. Pure."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from app.models.feeds.ip_addresses import parse_address
from app.models.reading.tokenizer import split_words

#: Most words of a query that count; more are ignored.
QUERY_WORDS = 8
#: Characters of the longest stored beginning of a word; a longer one is compared with the words themselves.
PREFIX_LONGEST = 10
#: Most words stored of a title, a host and the names of folders, of a description, and of each headline.
STRONG_WORDS, ABOUT_WORDS, HEADLINE_WORDS = 24, 60, 20
#: Letters from which on the beginning of a word is also looked for in descriptions and headlines.
WEAK_PREFIX = 3
#: A feed of a starter pack counts as if it had so many more readers: people have chosen it for everyone.
PACK_READERS = 8
#: Without a new entry for so long, a feed counts less.
SLEEPY, ASLEEP = dt.timedelta(days=90), dt.timedelta(days=365)
#: How much of a word's weight its beginning has.
_BEGINNING = 0.7
#: Names of hosts that only mean something in one network (RFC 6762, RFC 8375, and habit).
_LOCAL_ENDS = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "home.arpa", "onion")


class Field(NamedTuple):
    """The words of a part of a feed, and what finding one there is worth."""

    words: tuple[str, ...]
    weight: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeedWords:
    """The words of one feed, folded and split as the search of entries does.

    Attributes:
        folders: of the names of folders into which several readers have put the feed, and of packs.
        headlines: of the titles of its last entries.
        score: see :func:`build_score`.
        headlines_at, folders_at: when these were read; None: never.
    """

    feed_id: int
    title: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    headlines: tuple[str, ...] = ()
    score: float = 0.0
    headlines_at: dt.datetime | None = None
    folders_at: dt.datetime | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        """Its parts, the weightiest first."""
        return (
            Field(self.title, 10.0),
            Field(self.host, 6.0),
            Field(self.folders, 4.0),
            Field(self.about, 2.0),
            Field(self.headlines, 1.0),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class FindableFeed:
    """What a feed says about itself, as far as the search of feeds needs it.

    Attributes:
        readers: the number of all its subscribers.
        changed_at: when it last brought news. newest: the time of its newest entry, whose number is
            ``last_seq``.
        icon: the path of its icon on this server.
        history: its packed arrivals, see :class:`app.feeds.schedule.History`.
        is_open: see :meth:`app.mappers.feeds.feed_words.FeedWordsMapper.find_open_feeds`.
        merged_into: the feed that took its place.
    """

    id: int
    url: str
    url_key: str
    title: str
    site_url: str | None
    about: str
    readers: int
    is_failing: bool
    changed_at: dt.datetime | None
    newest: dt.datetime | None
    icon: str | None
    last_seq: int = 0
    history: bytes | Mapping[str, Any] | None = None
    is_open: bool = True
    merged_into: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PackFeed:
    """A feed of starter packs: findable even if nobody here reads it.

    Attributes:
        packs: the titles of its packs.
        about: its description in the pack; empty: it has none.
    """

    url: str
    url_key: str
    title: str
    site_url: str | None
    packs: tuple[str, ...]
    words: FeedWords
    about: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class KnownFeed:
    """A feed of a pack that this server has, as one person may know it.

    Attributes:
        icon: the path of its icon on this server.
        mine: whether the person subscribes to it, also as an own copy.
        per_week: its recent entries a week; None: unknown, or too few read it for others to know.
    """

    icon: str | None = None
    mine: bool = False
    per_week: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class FoundByWords:
    """A feed that a search by words has found.

    Attributes:
        about: its description in a pack, else its own; empty: it has none.
        packs: the titles of the starter packs that have it.
        feed_id: None: this server doesn't have it yet.
        readers: the number of its readers here, 0 if few. mine: whether the requester is one.
        icon: the path of its icon on this server.
        headlines: of its newest entries, the newest first.
        per_week: its recent entries a week; None: unknown.
    """

    url: str
    title: str
    site_url: str | None = None
    about: str = ""
    packs: tuple[str, ...] = ()
    feed_id: int | None = None
    readers: int = 0
    mine: bool = False
    icon: str | None = None
    headlines: tuple[str, ...] = ()
    per_week: float | None = None


def parse_query(text: str) -> tuple[str, ...]:
    """Return the words to look for; the last one may be the beginning of a word."""
    return tuple(split_words(text)[:QUERY_WORDS])


def split_title(text: str) -> tuple[str, ...]:
    """Return the words of a title or of names of folders, as stored."""
    return tuple(split_words(text)[:STRONG_WORDS])


def split_about(text: str) -> tuple[str, ...]:
    """Return the words of a description, as stored."""
    return tuple(split_words(text)[:ABOUT_WORDS])


def split_headlines(titles: Iterable[str]) -> tuple[str, ...]:
    """Return the different words of headlines, as stored."""
    return tuple(dict.fromkeys(word for title in titles for word in split_words(title)[:HEADLINE_WORDS]))


def split_host(*urls: str | None) -> tuple[str, ...]:
    """Return the words of the hosts of these addresses, without "www"."""
    hosts = dict.fromkeys(urlsplit(url).hostname or "" for url in urls if url)
    words = dict.fromkeys(word for host in hosts for word in split_words(host) if word != "www")
    return tuple(words)[:STRONG_WORDS]


def is_public_host(url: str) -> bool:
    """Return whether an address can mean the same for everyone: no IP address, no name of one network."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".").lower()
    except ValueError:
        return False
    with contextlib.suppress(ValueError):
        parse_address(host)
        return False
    return "." in host and not any(host == end or host.endswith("." + end) for end in _LOCAL_ENDS)


def make_prefixes(words: Iterable[str]) -> list[str]:
    """Return the beginnings of words, from one character to :data:`PREFIX_LONGEST`."""
    return sorted({word[:end] for word in words for end in range(1, min(len(word), PREFIX_LONGEST) + 1)})


def build_score(readers: int, newest: dt.datetime | None, now: dt.datetime, *, is_failing: bool) -> float:
    """Return what a feed is worth apart from the words: its readers, and whether it is alive."""
    alive = 0.4 if is_failing else 1.0
    if newest is None or now - newest > ASLEEP:
        alive *= 0.5
    elif now - newest > SLEEPY:
        alive *= 0.8
    return math.log1p(max(readers, 1)) * alive


def rate_match(found: FeedWords, query: Sequence[str]) -> float:
    """Return how well the words of a feed match a query; 0: a word is missing.

    The last word may be the beginning of a word. A title that begins like the query counts double, and one
    that is the query four times: known feeds whose names only begin so must not hide it.
    """
    total = 0.0
    for at, word in enumerate(query):
        is_last = at == len(query) - 1
        best = max((_rate_word(field, word, is_last=is_last) for field in found.fields), default=0.0)
        if best == 0.0:
            return 0.0
        total += best
    if list(found.title) == list(query):
        return total * 4.0
    return total * (2.0 if _begins_with(found.title, query) else 1.0)


def _rate_word(field: Field, word: str, *, is_last: bool) -> float:
    if word in field.words:
        return field.weight
    if is_last and any(other.startswith(word) for other in field.words):
        return field.weight * _BEGINNING
    return 0.0


def _begins_with(words: Sequence[str], query: Sequence[str]) -> bool:
    *whole, last = query
    start = list(words[: len(query)])
    return start[:-1] == whole and len(start) == len(query) and start[-1].startswith(last)
