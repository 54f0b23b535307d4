"""Search queries: parse words, phrases and operators from the search field. Pure.

 climate "sea level" -sport title:report author:mann feed:nature is:unread after:2026-01-01

All conditions must match. No input is ever refused: unknown parts are read as words,
and a note says so.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime as dt
import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from app.models.names import JOINERS, to_one_line
from app.models.reading.entry import EntryKey
from app.models.reading.languages import BEGINNING, guess_language
from app.models.reading.stems import share_stem
from app.models.reading.story import Fingerprint
from app.models.reading.tokenizer import find_plain_words, fold_text, split_words

#: Most characters of a query.
QUERY_MAX = 256
#: Most terms of a query; further terms are ignored, with a note.
TERMS_MAX = 24
#: Results in the order by relevance.
RANKED_MAX = 10_000

_PART = re.compile(
    r"""(?P<minus>-?)(?:(?P<name>[^\W\d_]{2,12}):(?!//))?(?:"(?P<phrase>[^"]*)(?:"|\Z)|(?P<plain>[^\s"]*))"""
)
_DATE = re.compile(r"(\d{4})-(\d{1,2})(?:-(\d{1,2}))?", re.ASCII)


class TermField(enum.StrEnum):
    """The part of an entry that must contain a term."""

    ANY = ""
    TITLE = "title"
    AUTHOR = "author"


class NoteReason(enum.StrEnum):
    """Why a part of the query wasn't understood, or why entries may be missing."""

    UNKNOWN = "unknown"
    EMPTY = "empty"
    DATE = "date"
    STATE = "state"
    TOO_MANY = "too_many"
    PREFIX = "prefix"
    BUILDING = "building"


@dataclasses.dataclass(frozen=True, slots=True)
class QueryNote:
    """A part of the query that was read differently than typed; ``text`` is that part, if it is one."""

    why: NoteReason
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """Words that must be adjacent; a single word is the most common case.

    Attributes:
        typed: the word as typed, whose other forms match too; empty: only the exact words match.
        is_prefix: whether the last word may continue.
    """

    words: tuple[str, ...]
    where: TermField = TermField.ANY
    typed: str = dataclasses.field(default="", compare=False)
    is_prefix: bool = False


def format_prefix(term: Term, *, is_wanted: bool) -> str:
    """Return a term that ends with ``*`` as a part of a query."""
    where = f"{term.where}:" if term.where else ""
    return f"{'' if is_wanted else '-'}{where}{'-'.join(term.words)}*"


@dataclasses.dataclass(frozen=True, slots=True)
class NameFilter:
    """A feed, folder or tag by a part of its name, folded."""

    text: str
    wanted: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class SearchQuery:
    """A query.

    Attributes:
        terms, without: terms that an entry must contain, and must not contain.
        feeds, folders, tags: names; of several wanted feeds or folders any matches, of tags all must.
        read, starred, noted: None: either. shared: whether someone the user follows shared it.
        since, until: sort times, the first inclusive, the second exclusive.
    """

    terms: tuple[Term, ...] = ()
    without: tuple[Term, ...] = ()
    feeds: tuple[NameFilter, ...] = ()
    folders: tuple[NameFilter, ...] = ()
    tags: tuple[NameFilter, ...] = ()
    read: bool | None = None
    starred: bool | None = None
    noted: bool | None = None
    shared: bool | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    notes: tuple[QueryNote, ...] = ()

    @property
    def has_filters(self) -> bool:
        """Whether it has conditions that a search engine can't test."""
        unwanted = any(not tag.wanted for tag in self.tags)
        return self.read is not None or self.starred is False or self.noted is False or unwanted

    @property
    def is_empty(self) -> bool:
        """Whether it has no conditions at all."""
        return self == SearchQuery(notes=self.notes)


def parse_query(text: str) -> SearchQuery:
    """Parse a query; never raises, whatever is typed."""
    reader = _Reader()
    for match in match_parts(text):
        reader.add_part(match)
    return reader.build_query()


def match_parts(text: str) -> list[re.Match[str]]:
    """Return the parts of a query as typed, with the groups ``minus``, ``name``, ``phrase`` and ``plain``."""
    matches = _PART.finditer(text[:QUERY_MAX])
    return [m for m in matches if m["phrase"] is not None or m["plain"] or m["name"]]


@dataclasses.dataclass(frozen=True, slots=True)
class Widening:
    """A query that finds more than another one.

    Attributes:
        without: the part that it leaves out, as typed; empty: it is a part of the other query alone.
        query: the rest, as typed.
    """

    without: str
    query: str


def find_widenings(text: str) -> Iterator[Widening]:
    """Yield a query without each of its parts in turn, the filters first; then its terms alone.

    Queries without conditions are left out, and none comes twice. Each is made only when it is needed, since
    a query may have hundreds of parts. A term that is wanted in the title or of an author isn't left out,
    but searched for everywhere.
    """
    if parse_query(text).is_empty:
        return
    matches = match_parts(text)
    parts = [match[0] for match in matches]
    known = {" ".join(parts)}

    def _is_new(query: str) -> bool:
        if query in known or parse_query(query).is_empty:
            return False
        known.add(query)
        return True

    for at in sorted(range(len(parts)), key=lambda at: _is_term(matches[at])):
        match, (before, after) = matches[at], (parts[:at], parts[at + 1 :])
        without, kept = match[0], list[str]()
        if (match["name"] or "").lower() in _WHERE and not match["minus"]:
            name, _, value = match[0].partition(":")
            without, kept = f"{name}:", [value]
        if _is_new(query := " ".join(filter(None, [*before, *kept, *after]))):
            yield Widening(without, query)
    for match in matches:
        if _is_term(match) and _is_new(match[0]):
            yield Widening("", match[0])


def _is_term(match: re.Match[str]) -> bool:
    return not (match["name"] or match["minus"])


class _Reader:
    """Collects the parts of one query."""

    def __init__(self) -> None:
        self._terms: dict[bool, list[Term]] = {True: [], False: []}
        self._names: dict[str, list[NameFilter]] = {"feed": [], "folder": [], "tag": []}
        self._flags: dict[str, bool] = {}
        self._dates: dict[str, dt.datetime] = {}
        self._notes: list[QueryNote] = []

    def build_query(self) -> SearchQuery:
        terms, without = (_without_repeats(self._terms[wanted]) for wanted in (True, False))
        if len(terms) + len(without) > TERMS_MAX:
            self._notes.append(QueryNote(NoteReason.TOO_MANY, str(TERMS_MAX)))
            terms, without = terms[:TERMS_MAX], without[: max(0, TERMS_MAX - len(terms))]
        feeds, folders, tags = (tuple(dict.fromkeys(self._names[k])) for k in ("feed", "folder", "tag"))
        return SearchQuery(
            terms,
            without,
            feeds,
            folders,
            tags,
            read=self._flags.get("read"),
            starred=self._flags.get("starred"),
            noted=self._flags.get("noted"),
            shared=self._flags.get("shared"),
            since=self._dates.get("after"),
            until=self._dates.get("before"),
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def add_part(self, match: re.Match[str]) -> None:
        wanted, name = not match["minus"], (match["name"] or "").lower()
        quoted = match["phrase"] is not None
        value = match["phrase"] if quoted else match["plain"] or ""
        if name in _WHERE:
            self._term(value, wanted, _WHERE[name], match[0], quoted=quoted)
        elif name in self._names:
            self._name(name, value, wanted, match[0])
        elif name in ("is", "before", "after"):
            self._set(name, value, wanted, match[0])
        else:
            if name:
                self._notes.append(QueryNote(NoteReason.UNKNOWN, f"{match['name']}:"))
                self._term(name, wanted, TermField.ANY)
            self._term(value, wanted, TermField.ANY, quoted=quoted)

    def _term(
        self, value: str, wanted: bool, where: TermField, whole: str = "", *, quoted: bool = False
    ) -> None:
        if found := tuple(split_words(value)):
            prefix = not quoted and value.endswith("*")
            plain = find_plain_words(value) if len(found) == 1 and not quoted and not prefix else set()
            typed = plain.pop() if where is TermField.ANY and len(plain) == 1 else ""
            self._terms[wanted].append(Term(found, where, typed, prefix))
        elif whole:
            self._notes.append(QueryNote(NoteReason.EMPTY, whole))

    def _name(self, kind: str, value: str, wanted: bool, whole: str) -> None:
        if name := " ".join(fold_text(value).split()):
            self._names[kind].append(NameFilter(name, wanted))
        else:
            self._notes.append(QueryNote(NoteReason.EMPTY, whole))

    def _set(self, name: str, value: str, wanted: bool, whole: str) -> None:
        if name == "is":
            self._state(value.lower(), wanted, whole)
        elif not wanted or (date := _date(value)) is None:
            self._notes.append(QueryNote(NoteReason.DATE, whole))
        else:
            self._dates[name] = date

    def _state(self, value: str, wanted: bool, whole: str) -> None:
        if value in ("read", "unread"):
            self._flags["read"] = (value == "read") is wanted
        elif value in ("starred", "noted", "shared"):
            self._flags[value] = wanted
        else:
            self._notes.append(QueryNote(NoteReason.STATE, whole))


_WHERE = {
    "title": TermField.TITLE,
    "intitle": TermField.TITLE,
    "author": TermField.AUTHOR,
    "by": TermField.AUTHOR,
}


def _without_repeats(terms: Iterable[Term]) -> tuple[Term, ...]:
    return tuple({(term, term.typed): term for term in terms}.values())


def find_language(title: str, text: str, stated: str | None = "") -> str:
    """Return the language of an entry as two letters, from the beginning of its text; empty: unknown.

    Args:
        title, text: without markup; of the text, only the beginning is looked at.
        stated: the language that the feed names.
    """
    beginning = f"{title}\n{text[:BEGINNING]}"
    return guess_language(beginning, find_plain_words(beginning), stated or "")


def contains_term(text: str, term: Term, language: str = "") -> bool:
    """Return whether a short text contains a term, or another form of its word; see :func:`is_at`."""
    found, size = split_words(text), len(term.words)
    return any(is_at(term, found[at : at + size], language) for at in range(len(found) - size + 1))


def is_at(term: Term, words: Sequence[str], language: str = "") -> bool:
    """Return whether these adjacent words, as many as a term has, are the term or a form of it.

    ``language``: of the text, as for :func:`app.models.reading.stems.share_stem`.
    """
    if term.is_prefix:
        return words[-1].startswith(term.words[-1]) and tuple(words[:-1]) == term.words[:-1]
    return tuple(words) == term.words or (term.typed != "" and share_stem(term.typed, words[0], language))


def _date(text: str) -> dt.datetime | None:
    match = _DATE.fullmatch(text)
    try:
        return dt.datetime(int(match[1]), int(match[2]), int(match[3] or 1), tzinfo=dt.UTC) if match else None
    except ValueError:
        return None


def encode_query(query: str) -> str:
    """Return a query as a part of a path: only letters, digits, ``-`` and ``_``."""
    return base64.urlsafe_b64encode(query.encode()).decode().rstrip("=")


def decode_query(text: str) -> str | None:
    """Return the query of an encoded text; None if the text isn't one."""
    try:
        query = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    # One query, one address: a different spelling that decodes to the same query is invalid.
    is_shown = all(c.isprintable() or c in JOINERS for c in query)
    fits = 0 < len(query) <= QUERY_MAX and is_shown and encode_query(query) == text
    return query if fits else None


def normalise_query(query: str) -> str:
    """Return a query as stored: one space between words, no control characters, not too long."""
    return to_one_line(query, QUERY_MAX)


class IndexPart(enum.Enum):
    """Which index a change reaches while a new one is built; without one, every change reaches the index."""

    BOTH = enum.auto()
    PRESENT = enum.auto()
    NEW = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SearchDocument:
    """The searchable parts of an entry, all plain text.

    Attributes:
        at: sort time in milliseconds.
        language: of its feed, as the feed says; empty: unknown.
        fingerprint: tells its copies in other feeds; None: it isn't compared.
    """

    id: int
    feed_id: int
    seq: int
    at: int
    title: str
    author: str = ""
    text: str = ""
    language: str = ""
    fingerprint: Fingerprint | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A request to a search engine.

    Attributes:
        feeds: feed → first and last number of its entries that may be found.
        newest: sort time of the newest entry of all these feeds, milliseconds.
        terms, without: as in :class:`SearchQuery`.
        since, until: sort times in milliseconds, both inclusive; None: open.
        ids: only these entries; None: any.
        after: (at, id) of the last entry that the reader has; by relevance: (number of such entries, 0).
        by_relevance: the best matches first, instead of by time.
    """

    feeds: Mapping[int, tuple[int, int]]
    newest: int
    terms: tuple[Term, ...] = ()
    without: tuple[Term, ...] = ()
    since: int | None = None
    until: int | None = None
    ids: frozenset[int] | None = None
    newest_first: bool = True
    after: tuple[int, int] | None = None
    by_relevance: bool = False

    def make_sort_key(self, key: EntryKey) -> tuple[int, int]:
        """Return a key's sort key in this order."""
        return (-key.at, -key.id) if self.newest_first else (key.at, key.id)

    def is_match(self, key: EntryKey) -> bool:
        """Return whether a key comes after the reader's last one, within the numbers that they may see."""
        first, last = self.feeds.get(key.feed_id, (1, 0))
        if not first <= key.seq <= last:
            return False
        if self.after is None or self.by_relevance:
            return True
        return ((key.at, key.id) < self.after) if self.newest_first else ((key.at, key.id) > self.after)


@dataclasses.dataclass(frozen=True, slots=True)
class SearchResult:
    """Entries in order.

    Attributes:
        after: where to continue; None at the end.
        cut: parts of the query, such as ``a*``, that stand for more words than were searched for.
        is_partial: whether the index isn't complete yet.
    """

    keys: list[EntryKey]
    after: tuple[int, int] | None = None
    cut: tuple[str, ...] = ()
    is_partial: bool = False

    @property
    def notes(self) -> tuple[QueryNote, ...]:
        """What the reader must know about entries that are missing."""
        building = (QueryNote(NoteReason.BUILDING, ""),) if self.is_partial else ()
        return (*building, *(QueryNote(NoteReason.PREFIX, part) for part in self.cut))
