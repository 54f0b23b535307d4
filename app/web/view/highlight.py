"""Highlights search terms in lists, and explains ignored parts of a query."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence

from flask_babel import gettext as _
from markupsafe import Markup

from app.models.reading.patterns import compile_pattern
from app.models.reading.rules import PATTERN_FIELDS, PatternFilter
from app.models.reading.search import NoteReason, QueryNote, Term, TermField, is_at
from app.models.reading.stream import SearchSummary, StreamKind, StreamRef
from app.models.reading.tokenizer import find_word_spans
from app.web.view.heading import format_author

#: Seconds for which the texts of a page are marked with regular expressions.
PATTERN_SECONDS = 0.5


class LimitedPatterns:
    """Regular expressions that mark the texts of a page for a limited time; later texts stay unmarked."""

    def __init__(self, patterns: Sequence[PatternFilter]) -> None:
        self._patterns, self._end = patterns, time.monotonic() + PATTERN_SECONDS

    def __iter__(self) -> Iterator[PatternFilter]:
        return iter(self._patterns if time.monotonic() < self._end else ())


def highlight_terms(
    text: str,
    search: SearchSummary | None,
    where: str = "",
    patterns: Iterable[PatternFilter] = (),
    language: str = "",
) -> str:
    """Return a text with what was searched for in ``<mark>``; everything else is escaped.

    Args:
        text: The text to mark.
        search: The search; without one, and without patterns, the text is returned unchanged.
        where: The field of this text, as in :class:`TermField`, or ``url``.
        patterns: The regular expressions of a rule; each marks one match.
        language: of the text, as two letters; empty: unknown.
    """
    terms = search.terms if search else ()
    if not text or not (terms or patterns):
        return text
    parts, last = [], 0
    spans = itertools.chain(_found(text, terms, where, language), _find_patterns(text, patterns, where))
    for begin, end in _joined(spans):
        parts += [text[last:begin], Markup("<mark>{}</mark>").format(text[begin:end])]
        last = end
    return Markup("").join([*parts, text[last:]])


def highlight_source(feed_title: str, author: str, search: SearchSummary | None) -> tuple[str, str]:
    """Return the name of a feed, and the author if a search term is in the name; "": it isn't.

    Of an author whom the feed is named after, the name of the feed shows the term.
    """
    named = _mark_author(format_author(author), search)
    if not is_marked(named):
        return feed_title, ""
    feed = feed_title if format_author(author, feed_title) else _mark_author(feed_title, search)
    return (feed, "") if is_marked(feed) else (feed_title, named)


def _mark_author(name: str, search: SearchSummary | None) -> str:
    return highlight_terms(name, search, TermField.AUTHOR)


def is_marked(text: str) -> bool:
    """Return whether a text is what :func:`highlight_terms` found a term in."""
    return isinstance(text, Markup) and "<mark>" in text


def _found(text: str, terms: Sequence[Term], where: str, language: str) -> Iterator[tuple[int, int]]:
    places = [(begin, end, word) for begin, end, words in find_word_spans(text) for word in words]
    for term in terms:
        if term.where in (TermField.ANY, where):
            size = len(term.words)
            for at in range(len(places) - size + 1):
                if is_at(term, [word for _, _, word in places[at : at + size]], language):
                    yield places[at][0], places[at + size - 1][1]


def _find_patterns(text: str, patterns: Iterable[PatternFilter], where: str) -> Iterator[tuple[int, int]]:
    for one in patterns:
        if one.wanted and where in PATTERN_FIELDS and one.where in ("", where):
            span = compile_pattern(one.pattern).find_span(text)
            if span:
                yield span


def _joined(found: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield stretches of text in order; overlapping stretches become one."""
    last: tuple[int, int] | None = None
    for begin, end in sorted(found):
        if last is None or begin > last[1]:
            if last:
                yield last
            last = (begin, end)
        else:
            last = (last[0], max(last[1], end))
    if last:
        yield last


def explain_note(note: QueryNote) -> str:
    """Return a sentence about a part of the query that was read differently, or about missing entries."""
    match note.why:
        case NoteReason.UNKNOWN:
            return str(
                _("“%(part)s” isn't a search filter, so Eventr searched for it as text.", part=note.text)
            )
        case NoteReason.EMPTY:
            return str(
                _("“%(part)s” doesn't contain any words to search for, so it was ignored.", part=note.text)
            )
        case NoteReason.DATE:
            return str(_("“%(part)s” was ignored. Enter dates in the form 2026-03-14.", part=note.text))
        case NoteReason.STATE:
            why = _("“%(part)s” was ignored. Use unread, read, starred, noted or shared.", part=note.text)
            return str(why)
        case NoteReason.PREFIX:
            return str(
                _(
                    "“%(part)s” stands for too many words, so only some of them count. Type more letters.",
                    part=note.text,
                )
            )
        case NoteReason.BUILDING:
            return str(_("Eventr is building the search index. Until it is ready, entries may be missing."))
        case _:
            return str(_("Only the first %(number)s words and phrases were used.", number=note.text))


def build_search_ref(query: str) -> str:
    """Return the text form of the stream of a query."""
    return str(StreamRef(StreamKind.SEARCH, query=query))
