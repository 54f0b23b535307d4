"""What is typed into the search field: never refused, always explained; and words as they are compared."""

from __future__ import annotations

import datetime as dt
import itertools
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidError
from app.models.reading import search
from app.models.reading.search import (
    QUERY_MAX,
    NameFilter,
    NoteReason,
    Term,
    TermField,
    decode_query,
    encode_query,
    find_widenings,
    normalise_query,
    parse_query,
)
from app.models.reading.stream import REF_MAX, StreamKind, StreamRef
from app.models.reading.tokenizer import find_word_spans, fold_text, split_text, split_words

_PIECES = st.sampled_from(
    ['"', "-", ":", "title:", "is:", "before:", "is:unread", "a", "日本", " ", "é", "\\"]
)
_TYPED = st.text() | st.lists(_PIECES, max_size=40).map("".join)


@given(_TYPED)
def test_nothing_typed_is_ever_refused(text: str) -> None:
    query = parse_query(text)
    assert query == parse_query(text)
    assert all(term.words for term in (*query.terms, *query.without))
    kept = normalise_query(text)
    assert normalise_query(kept) == kept
    assert len(kept) <= QUERY_MAX
    if kept:
        ref = StreamRef(StreamKind.SEARCH, query=kept)
        assert StreamRef.parse(str(ref)) == ref
        assert len(str(ref)) <= REF_MAX


def test_signs_that_belong_to_words_stay_in_a_query() -> None:
    """A tag with such a name is found by it."""
    for typed in ('tag:"می\u200cخوانم"', "tag:👩\u200d💻"):
        assert decode_query(encode_query(normalise_query(typed))) == typed
    assert normalise_query("\u200d soft\u00adhyphen \u200c") == "soft hyphen"


@given(st.text())
def test_a_text_that_is_no_query_is_no_stream(text: str) -> None:
    found = decode_query(text)
    assert found is None or encode_query(found) == text
    if found is None:
        with pytest.raises(InvalidError):
            StreamRef.parse(f"search/{text}")


@given(st.text())
def test_words_of_a_text_are_those_of_its_parts(text: str) -> None:
    found = list(find_word_spans(text))
    assert all(0 <= begin < end <= len(text) for begin, end, _ in found)
    assert all(a[0] < b[0] and a[1] <= b[1] for a, b in itertools.pairwise(found))
    assert split_words(" ".join(split_words(text))) == split_words(text) or not text.isascii()


@given(st.text(st.sampled_from("aB7_- \t\n'’“”…–—·«»\xa0\u202f€→éßİ\u0301犬ﬁ") | st.characters()))
def test_words_do_not_depend_on_the_way_of_finding_them(text: str) -> None:
    # A word that isn't ASCII makes the search for words take its general way.
    found, plain = split_text(text)
    general, general_plain = split_text(f"{text} жжж")
    assert [*found, "жжж"] == general
    assert plain | {"жжж"} == general_plain


def test_only_characters_without_letters_separate_words() -> None:
    for character in map(chr, range(0x3000)):
        folded = fold_text(f"a{character}b")[1:-1]
        if any(unicodedata.category(c)[0] in "LN" for c in folded):
            assert split_words(f"a{character}b") != ["a", "b"], hex(ord(character))


def test_operators() -> None:
    query = parse_query(
        'climate "sea level" -sport -"a b" title:report by:"Ann M" feed:"New York" -tag:x is:unread'
    )
    assert query.terms == (
        Term(("climate",)),
        Term(("sea", "level")),
        Term(("report",), TermField.TITLE),
        Term(("ann", "m"), TermField.AUTHOR),
    )
    assert query.without == (Term(("sport",)), Term(("a", "b")))
    assert (query.feeds, query.tags, query.read) == (
        (NameFilter("new york"),),
        (NameFilter("x", wanted=False),),
        False,
    )
    dates = parse_query("after:2026-01-31 before:2026-03")
    assert dates.since == dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
    assert dates.until == dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    assert parse_query("-is:read").read is False
    assert parse_query("is:starred").starred
    assert parse_query("-is:starred").starred is False
    assert (parse_query("is:shared").shared, parse_query("-is:shared").shared, parse_query("x").shared) == (
        True,
        False,
        None,
    )
    assert parse_query("http://a.example/b").terms == (Term(("http", "a", "example", "b")),)
    assert parse_query("don't") == parse_query('"don t"')


@pytest.mark.parametrize(
    ("text", "why", "part", "terms"),
    [
        ("foo:bar", NoteReason.UNKNOWN, "foo:", 2),
        ("title:", NoteReason.EMPTY, "title:", 0),
        ("feed:", NoteReason.EMPTY, "feed:", 0),
        ("before:soon", NoteReason.DATE, "before:soon", 0),
        ("after:2026-02-31", NoteReason.DATE, "after:2026-02-31", 0),
        ("is:nice", NoteReason.STATE, "is:nice", 0),
        (" ".join(f"w{n}" for n in range(30)), NoteReason.TOO_MANY, "24", 24),
    ],
)
def test_what_is_not_understood_is_told(text: str, why: NoteReason, part: str, terms: int) -> None:
    query = parse_query(text)
    assert [(note.why, note.text) for note in query.notes] == [(why, part)]
    assert len(query.terms) == terms


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("ไปกิน x", ["ไป", "ปกิ", "กิน", "x"]),
        ("ดำน้ำ", ["ดำ", "ำน้", "น้ำ"]),
        ("読む本RSS", ["読む", "む本", "RSS"]),
    ],
)
def test_spans_of_text_without_spaces_are_its_pairs(text: str, spans: list[str]) -> None:
    found = list(find_word_spans(text))
    assert [text[begin:end] for begin, end, _ in found] == spans
    assert [word for _, _, words in found for word in words] == split_words(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ÉCOLE Straße", ["ecole", "strasse"]),
        ("Ёлка", ["елка"]),
        ("ﬁne", ["fine"]),
        ("مُحَمَّد", ["محمد"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("ภาษาไทย 2", ["ภา", "าษ", "ษา", "าไ", "ไท", "ทย", "2"]),
        ("น้ำกิน", ["น้ำ", "ำกิ", "กิน"]),
        ("ខ្មែរ", ["ខ្មែ", "មែរ"]),
        ("日本語の記事 RSS", ["日本", "本語", "語の", "の記", "記事", "rss"]),
        ("犬", ["犬"]),
        ("한국어", ["한국", "국어"]),
        ("C3PO_v2", ["c3po", "v2"]),
        ("x" * 99, ["x" * 40]),
        ("İstanbul", ["istanbul"]),
    ],
)
def test_words(text: str, found: list[str]) -> None:
    assert split_words(text) == found


@pytest.mark.parametrize(
    ("query", "wider"),
    [
        ("rose", []),
        ("title:rose", [("title:", "rose")]),
        ("rose tag:old", [("tag:old", "rose"), ("rose", "tag:old")]),
        (
            'rose "old garden" -thorn',
            [
                ("-thorn", 'rose "old garden"'),
                ("rose", '"old garden" -thorn'),
                ('"old garden"', "rose -thorn"),
                ("", "rose"),
                ("", '"old garden"'),
            ],
        ),
        ("rose rose", [("rose", "rose")]),
        ("author:mann is:unread", [("author:", "mann is:unread"), ("is:unread", "author:mann")]),
        ('by:"thomas mann" x', [("by:", '"thomas mann" x'), ("x", 'by:"thomas mann"'), ("", "x")]),
        ("-title:rose tulip", [("-title:rose", "tulip"), ("tulip", "-title:rose")]),
        ("before:soon", []),
        ("- rose", []),
        ("日 日 日", [("日", "日 日"), ("", "日")]),
        ("", []),
    ],
)
def test_a_query_is_widened_by_leaving_out_one_part(query: str, wider: list[tuple[str, str]]) -> None:
    assert [(one.without, one.query) for one in find_widenings(query)] == wider


@pytest.mark.parametrize(
    ("query", "parses"),
    [("日 " * (search.QUERY_MAX // 2), 3), (" ".join(map(str, range(300))), 1 + 6), ("! " * 99, 1)],
)
def test_only_as_many_wider_queries_are_parsed_as_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, query: str, parses: int
) -> None:
    parsed = list[str]()

    def parse(text: str) -> search.SearchQuery:
        parsed.append(text)
        return parse_query(text)

    monkeypatch.setattr(search, "parse_query", parse)
    list(itertools.islice(find_widenings(query), 6))
    assert len(parsed) == parses


@given(st.text(max_size=300))
def test_widening_never_fails(query: str) -> None:
    for one in find_widenings(query):
        assert not parse_query(one.query).is_empty
