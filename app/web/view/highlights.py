"""Highlights in articles: the passages that a person marked, found in the HTML when it is shown.

Nothing is stored in the HTML, so a passage appears in whatever text an entry has now, with or without
scripts.
"""

from __future__ import annotations

import bisect
import html
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import escape

from app.models.reading.notes import Note, Quote, QuoteFinder

_TAG: Final = re.compile(r"<[^>]*>")
#: Elements whose text can't contain marks.
_CLOSED: Final = re.compile(r"<(/?)(svg|math|select|textarea|title)\b", re.IGNORECASE)


class _Piece(NamedTuple):
    """A text between two tags: its place in the HTML, its place in the whole text, and the text itself."""

    start: int
    end: int
    at: int
    text: str


class _Span(NamedTuple):
    """A part of the whole text that belongs to a passage."""

    start: int
    end: int
    quote: Quote


def mark_quotes(markup: str, note: Note | None) -> str:
    """Return sanitized HTML with the passages of a note in ``mark`` elements.

    Passages that are gone are left out. Where passages overlap, the earlier one wins.
    """
    if note is None or not note.quotes:
        return markup
    pieces = _split(markup)
    finder = QuoteFinder("".join(piece.text for piece in pieces))
    found = [_Span(*place, quote) for quote in note.quotes if (place := finder.find(quote)) is not None]
    spans = _without_overlaps(sorted(found, key=lambda span: (span.start, span.end)))
    return _write(markup, pieces, spans) if spans else markup


def _split(markup: str) -> list[_Piece]:
    pieces, at, start, closed = list[_Piece](), 0, 0, 0
    for tag in [*_TAG.finditer(markup), None]:
        end = tag.start() if tag else len(markup)
        if end > start and not closed:
            text = html.unescape(markup[start:end])
            pieces.append(_Piece(start, end, at, text))
            at += len(text)
        if tag and (match := _CLOSED.match(tag[0])) and not tag[0].endswith("/>"):
            closed = max(0, closed + (-1 if match[1] else 1))
        start = tag.end() if tag else end
    return pieces


def _without_overlaps(spans: Sequence[_Span]) -> list[_Span]:
    kept = list[_Span]()
    for span in spans:
        start = max(span.start, kept[-1].end) if kept else span.start
        if start < span.end:
            kept.append(span._replace(start=start))
    return kept


def _write(markup: str, pieces: Sequence[_Piece], spans: Sequence[_Span]) -> str:
    ends = [span.end for span in spans]
    named, done, last = set[str](), list[str](), 0
    for piece in pieces:
        stop, inner, at = piece.at + len(piece.text), list[str](), piece.at
        for span in spans[bisect.bisect_right(ends, piece.at) :]:
            if span.start >= stop:
                break
            first, end = max(span.start, piece.at), min(span.end, stop)
            passage = piece.text[first - piece.at : end - piece.at]
            # Between blocks, such as rows of a table, only white space may stand.
            if not passage.strip():
                continue
            name = "" if span.quote.id in named else f' id="hl-{escape(span.quote.id)}"'
            named.add(span.quote.id)
            inner.append(_escape(piece.text[at - piece.at : first - piece.at]))
            inner.append(f'<mark class="hl {escape(span.quote.color)}"{name}>{_escape(passage)}</mark>')
            at = end
        if inner:
            inner.append(_escape(piece.text[at - piece.at :]))
            done += [markup[last : piece.start], *inner]
            last = piece.end
    return "".join((*done, markup[last:]))


def _escape(text: str) -> str:
    return html.escape(text, quote=False)
