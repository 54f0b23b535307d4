"""Snippets: the part of a long text that matches a search."""

from __future__ import annotations

from collections.abc import Sequence

from app.feeds.html import text
from app.models.reading.entry import Entry
from app.models.reading.search import Term, TermField, contains_term, find_language, is_at
from app.models.reading.tokenizer import find_word_spans, fold_text

#: Characters: HTML that is searched, text before the match, and the whole snippet.
LOOKED, BEFORE, LENGTH = 32 << 10, 24, 240
#: The first letter of Thai: it and the scripts behind it have words without spaces.
UNSPACED = "\u0e00"


def extract_snippet(html: str, terms: Sequence[Term], title: str = "", stated: str = "") -> str:
    """Return the text around the first of these terms that occurs in it; empty: none does.

    ``title``, and ``stated``, the language that the feed names, tell the language of the text.
    """
    plain = text.flatten_html(text.cut_html(html, LOOKED))
    folded = fold_text(plain)
    for term in terms:
        place = _place(folded, term) if term.where is TermField.ANY else -1
        if place >= 0:
            return _piece(plain, place if len(folded) == len(plain) else _unfold(plain, place))
    forms = [term for term in terms if term.typed]
    language = find_language(title, plain, stated) if forms else ""
    for begin, _, words in find_word_spans(plain) if forms else ():
        if any(is_at(term, words, language) for term in forms):
            return _piece(plain, begin)
    return ""


def name_category(entry: Entry, terms: Sequence[Term]) -> str:
    """Return the category of an entry that has a term, and the beginning of its text.

    "": no category has one, or the title or the author shows one.
    """
    terms = [term for term in terms if term.where is TermField.ANY]
    if any(contains_term(name, term) for name in (entry.title, entry.author) for term in terms):
        return ""
    found = (name for name in entry.categories if any(contains_term(name, term) for term in terms))
    if name := next(found, ""):
        return f"#{name} · {_piece(text.flatten_html(text.cut_html(entry.longest, LOOKED)), 0)}"
    return ""


def _place(folded: str, term: Term) -> int:
    """Return where the first word of a term stands, in a script without spaces also within others.

    Within a word of another script, as in an address, it isn't what was found. -1: nowhere.
    """
    word, at = term.words[0], -1
    inside = -1
    is_open = term.is_prefix and len(term.words) == 1
    while (at := folded.find(word, at + 1)) >= 0:
        before, after = folded[at - 1 : at], folded[at + len(word) : at + len(word) + 1]
        ends = [before] if is_open else [before, after]
        if not any(map(str.isalnum, ends)):
            return at
        if inside < 0 and all(end >= UNSPACED for end in ends if end.isalnum()):
            inside = at
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
