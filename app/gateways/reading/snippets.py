"""Snippets: the part of a long text that matches a search."""

from __future__ import annotations

from collections.abc import Sequence

from app.feeds.html import text
from app.models.reading.search import Term, TermField, is_at
from app.models.reading.tokenizer import find_word_spans, fold_text

#: Characters: HTML that is searched, text before the match, and the whole snippet.
LOOKED, BEFORE, LENGTH = 32 << 10, 24, 240


def extract_snippet(html: str, terms: Sequence[Term]) -> str:
    """Return the text around the first of these terms that occurs in it; empty: none does."""
    plain = text.flatten_html(text.cut_html(html, LOOKED))
    folded = fold_text(plain)
    for term in terms:
        place = _place(folded, term) if term.where is TermField.ANY else -1
        if place >= 0:
            return _piece(plain, place if len(folded) == len(plain) else _unfold(plain, place))
    forms = [term for term in terms if term.typed]
    for begin, _, words in find_word_spans(plain) if forms else ():
        if any(is_at(term, words) for term in forms):
            return _piece(plain, begin)
    return ""


def _place(folded: str, term: Term) -> int:
    """Return where the first word of a term starts, or else where it is part of a word; -1: nowhere."""
    word, at = term.words[0], -1
    inside = -1
    while (at := folded.find(word, at + 1)) >= 0:
        if at == 0 or not folded[at - 1].isalnum():
            return at
        inside = at if inside < 0 else inside
    return inside


def _unfold(plain: str, place: int) -> int:
    """Return the place in a text whose beginning folds to this many characters: "ß" and "…" become longer."""
    low, high = 0, len(plain)
    while high - low > 1:
        middle = (low + high) // 2
        size = len(fold_text(plain[low:middle]))
        if size <= place:
            low, place = middle, place - size
        else:
            high = middle
    return low


def _piece(plain: str, place: int) -> str:
    begin = max(0, place - BEFORE)
    if begin:
        blank = plain.find(" ", begin, place)
        begin = blank + 1 if blank >= 0 else begin
    piece = plain[begin : begin + LENGTH].rstrip()
    return f"{'…' if begin else ''}{piece}{'…' if begin + LENGTH < len(plain) else ''}"
