"""Notes and highlights: what a person writes about an entry, and the passages that they mark in it.

A passage is found again by its words and by what stands around it, as in the TextQuoteSelector of the W3C's
Web Annotation Data Model. So it survives when the entry's HTML is cleaned anew or its text changes elsewhere.
"""

from __future__ import annotations

import bisect
import datetime as dt
import enum
import itertools
import re
import secrets
from collections.abc import Iterable
from typing import Final, NamedTuple

#: Most characters of a note, and of a passage; longest context that is kept on either side of it.
NOTE_MAX: Final = 20_000
EXACT_MAX: Final = 5_000
CONTEXT_MAX: Final = 64
#: Most passages of one entry.
QUOTES_MAX: Final = 200
#: Most bytes of a note with all its passages.
BYTES_MAX: Final = 256 * 1024
#: Bytes after which a list of notes goes on with its next page.
PAGE_BYTES: Final = 1024 * 1024
#: Most equal passages of one text that are compared.
_EQUAL_MAX: Final = 1000
_SPACES: Final = re.compile(r"\s+")
_WORDS: Final = re.compile(r"\S+")


class Color(enum.StrEnum):
    """The colors of highlights."""

    YELLOW = "yellow"
    GREEN = "green"
    BLUE = "blue"
    PINK = "pink"


class Quote(NamedTuple):
    """A highlighted passage.

    Attributes:
        id: identifies it within its note.
        exact: its words. prefix, suffix: the text before and after it, to tell equal passages apart. All with
            single spaces.
        color: one of :class:`Color`.
        note: what the person writes about it.
    """

    id: str
    exact: str
    prefix: str
    suffix: str
    color: str
    note: str
    at: dt.datetime


class Note(NamedTuple):
    """A person's note on an entry, with the passages that they highlighted.

    ``at``: when it was begun. ``edited``: when it last changed.
    """

    entry_id: int
    feed_id: int
    text: str
    quotes: tuple[Quote, ...]
    at: dt.datetime
    edited: dt.datetime

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of it."""
        return not self.text and not self.quotes

    @property
    def size(self) -> int:
        """Bytes of its texts."""
        parts = (part for q in self.quotes for part in (q.exact, q.prefix, q.suffix, q.note))
        return sum(len(part.encode()) for part in (self.text, *parts))


class NotedEntry(NamedTuple):
    """A note with what its entry is called; the title and the link are empty if the entry is gone."""

    note: Note
    title: str = ""
    url: str = ""
    author: str = ""


def make_quote_id() -> str:
    """Return a new id for a passage."""
    return secrets.token_hex(6)


def squeeze_spaces(text: str) -> str:
    """Return a text with single spaces."""
    return _SPACES.sub(" ", text).strip()


class NotePreview(NamedTuple):
    """What a list shows of a note.

    Attributes:
        quote: the beginning of its first passage, in ``color``; "": it has none.
        quotes: number of its passages.
        text: the beginning of the first of the person's own words; "": there are none.
        texts: number of their texts: the note's own, and those on passages.
        at: when it was written, by which its list is sorted.
    """

    quote: str
    color: str
    quotes: int
    text: str
    texts: int
    at: dt.datetime

    @property
    def excerpt(self) -> str:
        """The first passage in “”, or the person's own words."""
        return f"“{self.quote}”" if self.quote else self.text


class QuoteFinder:
    """Finds passages in one text, which it reads only once. Differences in white space don't count."""

    def __init__(self, text: str) -> None:
        self._squashed = _squash(text)
        self._starts, self._places = list[int](), list[int]()
        count = 0
        for match in _WORDS.finditer(text):
            self._starts.append(count)
            self._places.append(match.start())
            count += match.end() - match.start()

    def find(self, quote: Quote) -> tuple[int, int] | None:
        """Return where a passage stands in the text (start, end); None: it isn't there anymore.

        Of several equal passages, the one whose surroundings match best.
        """
        exact, prefix, suffix = map(_squash, (quote.exact, quote.prefix, quote.suffix))
        text, best, score = self._squashed, -1, -1
        at = text.find(exact) if exact else -1
        for _ in range(_EQUAL_MAX):
            if at < 0:
                break
            end = at + len(exact)
            before, after = text[max(0, at - len(prefix)) : at], text[end : end + len(suffix)]
            found = _count_common(before[::-1], prefix[::-1]) + _count_common(after, suffix)
            if found > score:
                best, score = at, found
            at = text.find(exact, at + 1)
        return (self._place(best), self._place(best + len(exact) - 1) + 1) if best >= 0 else None

    def _place(self, at: int) -> int:
        """Return the place in the text of a character that isn't white space."""
        word = bisect.bisect_right(self._starts, at) - 1
        return self._places[word] + at - self._starts[word]


def _squash(text: str) -> str:
    return _SPACES.sub("", text)


def _count_common(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def write_markdown(notes: Iterable[NotedEntry], heading: str) -> Iterable[str]:
    """Yield a Markdown document of notes, piece by piece: passages as quotations, notes below them."""
    yield f"# {squeeze_spaces(heading)}\n"
    for one in notes:
        title = _escape(one.title or one.url or "…")
        link = f"[{title}](<{one.url.replace('>', '%3E').replace('<', '%3C')}>)" if one.url else title
        yield f"\n## {link}\n\n"
        facts = " · ".join(filter(None, (_escape(one.author), one.note.at.date().isoformat())))
        yield f"{facts}\n"
        if one.note.text:
            yield f"\n{one.note.text}\n"
        for quote in one.note.quotes:
            yield f"\n> {_escape(quote.exact)}\n"
            if quote.note:
                yield f"\n{quote.note}\n"


_MARKUP: Final = re.compile(r"([\\`*_\[\]<>#|~])")


def _escape(text: str) -> str:
    return _MARKUP.sub(r"\\\1", squeeze_spaces(text))
