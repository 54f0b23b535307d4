"""What is typed into the search field: never refused, always explained; and words as they are compared."""

from __future__ import annotations

import datetime as dt
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidError
from app.models.reading.search import (
    QUERY_MAX,
    Name,
    Term,
    Where,
    Why,
    decoded,
    encoded,
    parse,
    tidy,
)
from app.models.reading.stream import REF_MAX, StreamKind, StreamRef
from app.models.reading.tokenizer import spans, words

_PIECES = st.sampled_from(
    ['"', "-", ":", "title:", "is:", "before:", "is:unread", "a", "日本", " ", "é", "\\"]
)
_TYPED = st.text() | st.lists(_PIECES, max_size=40).map("".join)


@given(_TYPED)
def test_nothing_typed_is_ever_refused(text: str) -> None:
    query = parse(text)
    assert query == parse(text)
    assert all(term.words for term in (*query.terms, *query.without))
    kept = tidy(text)
    assert tidy(kept) == kept
    assert len(kept) <= QUERY_MAX
    if kept:
        ref = StreamRef(StreamKind.SEARCH, query=kept)
        assert StreamRef.parse(str(ref)) == ref
        assert len(str(ref)) <= REF_MAX


def test_signs_that_belong_to_words_stay_in_a_query() -> None:
    """A tag with such a name is found by it."""
    for typed in ('tag:"می\u200cخوانم"', "tag:👩\u200d💻"):
        assert decoded(encoded(tidy(typed))) == typed
    assert tidy("\u200d soft\u00adhyphen \u200c") == "soft hyphen"


@given(st.text())
def test_a_text_that_is_no_query_is_no_stream(text: str) -> None:
    found = decoded(text)
    assert found is None or encoded(found) == text
    if found is None:
        with pytest.raises(InvalidError):
            StreamRef.parse(f"search/{text}")


@given(st.text())
def test_words_of_a_text_are_those_of_its_parts(text: str) -> None:
    found = list(spans(text))
    assert all(0 <= begin < end <= len(text) for begin, end, _ in found)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(found))
    assert words(" ".join(words(text))) == words(text) or not text.isascii()


def test_operators() -> None:
    query = parse(
        'climate "sea level" -sport -"a b" title:report by:"Ann M" feed:"New York" -tag:x is:unread'
    )
    assert query.terms == (
        Term(("climate",)),
        Term(("sea", "level")),
        Term(("report",), Where.TITLE),
        Term(("ann", "m"), Where.AUTHOR),
    )
    assert query.without == (Term(("sport",)), Term(("a", "b")))
    assert (query.feeds, query.tags, query.read) == ((Name("new york"),), (Name("x", wanted=False),), False)
    dates = parse("after:2026-01-31 before:2026-03")
    assert dates.since == dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
    assert dates.until == dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    assert parse("-is:read").read is False
    assert parse("is:starred").starred
    assert parse("-is:starred").starred is False
    assert (parse("is:shared").shared, parse("-is:shared").shared, parse("x").shared) == (True, False, None)
    assert parse("http://a.example/b").terms == (Term(("http", "a", "example", "b")),)
    assert parse("don't") == parse('"don t"')


@pytest.mark.parametrize(
    ("text", "why", "part", "terms"),
    [
        ("foo:bar", Why.UNKNOWN, "foo:", 2),
        ("title:", Why.EMPTY, "title:", 0),
        ("feed:", Why.EMPTY, "feed:", 0),
        ("before:soon", Why.DATE, "before:soon", 0),
        ("after:2026-02-31", Why.DATE, "after:2026-02-31", 0),
        ("is:nice", Why.STATE, "is:nice", 0),
        (" ".join(f"w{n}" for n in range(30)), Why.TOO_MANY, "24", 24),
    ],
)
def test_what_is_not_understood_is_told(text: str, why: Why, part: str, terms: int) -> None:
    query = parse(text)
    assert [(note.why, note.text) for note in query.notes] == [(why, part)]
    assert len(query.terms) == terms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ÉCOLE Straße", ["ecole", "strasse"]),
        ("Ёлка", ["елка"]),
        ("ﬁne", ["fine"]),
        ("مُحَمَّد", ["محمد"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("ภาษาไทย", ["ภาษาไทย"]),
        ("日本語の記事 RSS", ["日本", "本語", "語の", "の記", "記事", "rss"]),
        ("犬", ["犬"]),
        ("한국어", ["한국", "국어"]),
        ("C3PO_v2", ["c3po", "v2"]),
        ("x" * 99, ["x" * 40]),
        ("İstanbul", ["istanbul"]),
    ],
)
def test_words(text: str, found: list[str]) -> None:
    assert words(text) == found
