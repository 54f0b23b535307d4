"""Highlights search terms in lists, and explains ignored parts of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flask_babel import gettext as _
from markupsafe import Markup

from app.models.reading.search import NoteReason, QueryNote, Term, TermField, is_at
from app.models.reading.stream import SearchSummary, StreamKind, StreamRef
from app.models.reading.tokenizer import find_word_spans
from app.web.view.heading import format_author


def highlight_terms(text: str, search: SearchSummary | None, where: str = "") -> str:
    """Return a text with the search terms in ``<mark>``; everything else is escaped.

    Args:
        text: The text to mark.
        search: The search; None: return the text unchanged.
        where: The field of this text, as in :class:`TermField`.
    """
    if not search or not search.terms or not text:
        return text
    parts, last = [], 0
    for begin, end in _joined(_found(text, search.terms, where)):
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


def _found(text: str, terms: Sequence[Term], where: str) -> Iterator[tuple[int, int]]:
    places = [(begin, end, word) for begin, end, words in find_word_spans(text) for word in words]
    for term in terms:
        if term.where in (TermField.ANY, where):
            size = len(term.words)
            for at in range(len(places) - size + 1):
                if is_at(term, [word for _, _, word in places[at : at + size]]):
                    yield places[at][0], places[at + size - 1][1]


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
