"""Notes and highlights: kept like stars, found again by their words, listed, searched and undone."""

from __future__ import annotations

import datetime as dt
import html

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app import clock
from app.bootstrap.services import Services
from app.errors import InvalidError, NotFoundError, TooLargeError
from app.models.accounts.actor import Actor
from app.models.reading.notes import (
    BYTES_MAX,
    NOTE_MAX,
    PAGE_BYTES,
    Note,
    NotedEntry,
    Quote,
    QuoteFinder,
    write_markdown,
)
from app.models.reading.search import encode_query, parse_query
from app.models.reading.stream import StreamQuery, StreamRef
from app.web.view.highlights import mark_quotes
from tests.support.reader import add_user, pull, rss

URL = "https://blog.example/feed"
AT = dt.datetime(2026, 3, 14, tzinfo=dt.UTC)


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


def _entries(services: Services, who: Actor, count: int = 2) -> list[int]:
    """Subscribe to a blog, and return its entries, oldest first."""
    feed_id = services.subscriptions.subscribe(who, URL).subscription.feed_id
    items = [(f"Post {n}", f"Roofs curve, part {n}. They curve toward the rain.") for n in range(count)]
    pull(services, [feed_id], {URL: rss("Blog", items)})
    page = services.reading.load_page(who, StreamQuery(StreamRef.parse(f"feed/{feed_id}")))
    return sorted(row.id for row in page.rows)


def _ids(services: Services, who: Actor, ref: str) -> list[int]:
    return [row.id for row in services.reading.load_page(who, StreamQuery(StreamRef.parse(ref))).rows]


def _stars(services: Services, entry_id: int) -> int:
    doc = services.store.database["entries"].find_one({"_id": entry_id}) or {}
    return int(doc.get("stars", 0))


def _quote(exact: str, prefix: str = "", suffix: str = "", color: str = "yellow") -> Quote:
    return Quote("a1", exact, prefix, suffix, color, "", AT)


def _note(*quotes: Quote, text: str = "") -> Note:
    return Note(1, 2, text, quotes, AT, AT)


# -- storing
def test_note_is_shown_with_its_entry_and_in_its_own_list(services: Services, ann: Actor) -> None:
    first, second = _entries(services, ann)
    services.notes.set_text(ann, first, "Read again\nbefore the trip.")
    quote = services.notes.add_quote(ann, second, "They  curve\ntoward", prefix="part 1. ", color="green")
    note = services.reading.get_article(ann, first).note
    assert note is not None
    assert (note.text, note.quotes) == ("Read again\nbefore the trip.", ())
    assert (quote.exact, quote.prefix, quote.color) == ("They curve toward", "part 1.", "green")
    assert _ids(services, ann, "notes") == [second, first]
    named = services.notes.list_notes(ann)
    assert [(one.note.entry_id, one.title) for one in named] == [
        (second, services.reading.get_article(ann, second).entry.title),
        (first, services.reading.get_article(ann, first).entry.title),
    ]


def test_only_its_writer_sees_a_note(services: Services, ann: Actor) -> None:
    bob = add_user(services, "bob")
    entry_id = _entries(services, ann)[0]
    services.subscriptions.subscribe(bob, URL)
    services.notes.set_text(ann, entry_id, "Mine")
    assert services.reading.get_article(bob, entry_id).note is None
    assert services.notes.list_notes(bob) == []
    stranger = add_user(services, "cleo")
    with pytest.raises(NotFoundError):
        services.notes.set_text(stranger, entry_id, "Hers")


def test_note_keeps_an_entry_like_a_star(services: Services, ann: Actor) -> None:
    entry_id = _entries(services, ann)[0]
    services.notes.set_text(ann, entry_id, "Mine")
    assert _stars(services, entry_id) == 1
    services.reading.set_starred(ann, entry_id, True)
    services.tags.change_tags(ann, entry_id, add=["x"])
    services.discussion.set_liked(ann, entry_id)
    assert _stars(services, entry_id) == 1
    services.reading.set_starred(ann, entry_id, False)
    (tag,) = services.tags.get_tags(ann, entry_id)
    services.tags.change_tags(ann, entry_id, remove=[tag.id])
    assert _stars(services, entry_id) == 1
    services.notes.remove_note(ann, entry_id)
    assert _stars(services, entry_id) == 0
    assert services.discussion.find_liked(ann, [entry_id]) == {entry_id}
    services.notes.set_text(ann, entry_id, "Again")
    services.discussion.set_liked(ann, entry_id, False)
    assert services.notes.get_note(ann, entry_id) is not None
    feed_id = services.reading.get_article(ann, entry_id).entry.feed_id
    services.subscriptions.unsubscribe(ann, feed_id)
    assert _ids(services, ann, "notes") == [entry_id]


_MARKS = (
    "star",
    "unstar",
    "tag",
    "untag",
    "note",
    "unnote",
    "like",
    "unlike",
    "stars",
    "unstars",
    "tags",
    "untags",
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.sampled_from(_MARKS), max_size=14))
def test_entry_counts_its_keepers_whatever_order_marks_come_in(services: Services, steps: list[str]) -> None:
    ann = add_user(services, f"ann{clock.now().timestamp():.6f}".replace(".", ""))
    one = _entries(services, ann)[0]
    before = _stars(services, one)
    kept = {"star": False, "tag": False, "note": False}
    tag = 0
    for step in steps:
        name, on = step.removeprefix("un").removesuffix("s"), not step.startswith("un")
        match name:
            case "star" if step.endswith("s"):
                services.reading.set_many_starred(ann, [one], on)
            case "star":
                services.reading.set_starred(ann, one, on)
            case "tag" if on:
                (found,) = services.tags.change_tags(ann, one, add=["x"])
                tag = found.id
            case "tag":
                services.tags.change_tags(ann, one, remove=[tag or 1])
            case "note" if on:
                services.notes.set_text(ann, one, "Mine")
            case "note":
                services.notes.remove_note(ann, one)
            case _:
                services.discussion.set_liked(ann, one, on)
        if name in kept:
            kept[name] = on
        assert _stars(services, one) - before == int(any(kept.values())), step


def test_same_passage_is_highlighted_once(services: Services, ann: Actor) -> None:
    entry_id = _entries(services, ann)[0]
    first = services.notes.add_quote(ann, entry_id, "toward the rain")
    again = services.notes.add_quote(ann, entry_id, "toward\nthe  rain")
    assert first == again
    edited = services.notes.edit_quote(ann, entry_id, first.id, color="pink", note="Why?")
    assert (edited.color, edited.note, edited.exact) == ("pink", "Why?", first.exact)


def test_wrong_input_has_clear_sentences(services: Services, ann: Actor) -> None:
    entry_id = _entries(services, ann)[0]
    with pytest.raises(InvalidError, match="Select the passage"):
        services.notes.add_quote(ann, entry_id, "  \n ")
    with pytest.raises(InvalidError, match="Choose one of these colors"):
        services.notes.add_quote(ann, entry_id, "rain", color="black")
    with pytest.raises(InvalidError):
        services.notes.set_text(ann, entry_id, "x" * 20_001)
    with pytest.raises(NotFoundError):
        services.notes.edit_quote(ann, entry_id, "nothing", note="x")
    quotes = [_quote(f"rain {n}")._replace(id="") for n in range(201)]
    with pytest.raises(TooLargeError, match="at most"):
        services.notes.replace_note(ann, entry_id, "", quotes)
    assert services.notes.get_note(ann, entry_id) is None


def test_removed_parts_come_back(services: Services, ann: Actor) -> None:
    entry_id = _entries(services, ann)[0]
    services.notes.set_text(ann, entry_id, "Mine")
    first = services.notes.add_quote(ann, entry_id, "Roofs")
    second = services.notes.add_quote(ann, entry_id, "rain")
    token = services.notes.remove_quote(ann, entry_id, first.id)
    assert token is not None
    assert [action.undo for action in services.marking.list_history(ann, None).actions] == [f"note.{token}"]
    services.notes.set_text(ann, entry_id, "Newer")
    back = services.notes.restore(ann, token)
    assert (back.text, [quote.id for quote in back.quotes]) == ("Newer", [first.id, second.id])
    everything = services.notes.remove_note(ann, entry_id)
    assert everything is not None
    assert services.notes.remove_note(ann, entry_id) is None
    assert services.notes.restore(ann, everything).text == "Newer"
    with pytest.raises(NotFoundError):
        services.notes.restore(ann, everything)


def test_undo_brings_back_only_what_its_step_removed(services: Services, ann: Actor) -> None:
    entry_id = _entries(services, ann)[0]
    services.notes.set_text(ann, entry_id, "Draft")
    first = services.notes.add_quote(ann, entry_id, "Roofs")
    second = services.notes.add_quote(ann, entry_id, "rain")
    token = services.notes.remove_quote(ann, entry_id, first.id)
    services.notes.remove_quote(ann, entry_id, second.id)
    text = services.notes.remove_text(ann, entry_id)
    assert services.notes.remove_text(ann, entry_id) is None
    assert token is not None
    assert text is not None
    back = services.notes.restore(ann, token)
    assert (back.text, back.quotes) == ("", (first,))
    assert services.notes.restore(ann, text).text == "Draft"


def test_passage_keeps_only_an_id_that_its_note_has(services: Services, ann: Actor) -> None:
    entry_id = _entries(services, ann)[0]
    mine = services.notes.add_quote(ann, entry_id, "Roofs")
    wanted = [
        _quote(text)._replace(id=of) for text, of in (("Roofs", mine.id), ("rain", mine.id), ("part", "x"))
    ]
    note = services.notes.replace_note(ann, entry_id, "", wanted)
    assert note is not None
    ids = [quote.id for quote in note.quotes]
    assert ids[0] == mine.id
    assert len({*ids, "x"}) == 4
    assert note.quotes[0].at == mine.at
    services.notes.remove_quote(ann, entry_id, ids[1])
    left = services.notes.get_note(ann, entry_id)
    assert left is not None
    assert [quote.exact for quote in left.quotes] == ["Roofs", "part"]


def test_note_has_a_limit_as_a_whole(services: Services, ann: Actor) -> None:
    entry_id = _entries(services, ann)[0]
    smiles = "\U0001f600" * NOTE_MAX
    quotes = [_quote(f"rain {n}")._replace(note=smiles) for n in range(4)]
    with pytest.raises(TooLargeError, match="too long together"):
        services.notes.replace_note(ann, entry_id, "", quotes)
    services.notes.replace_note(ann, entry_id, "", quotes[:3])
    with pytest.raises(TooLargeError, match="remove a highlight"):
        services.notes.set_text(ann, entry_id, smiles)
    note = services.notes.get_note(ann, entry_id)
    assert note is not None
    assert note.size < BYTES_MAX


def test_long_notes_are_listed_in_shorter_pages(services: Services, ann: Actor) -> None:
    for entry_id in (ids := _entries(services, ann, 7)):
        quotes = [_quote("rain", str(n))._replace(note="\U0001f600" * NOTE_MAX) for n in range(3)]
        services.notes.replace_note(ann, entry_id, "", quotes)
    found = services.notes.list_notes(ann)
    assert len(found) == PAGE_BYTES // (3 * 4 * NOTE_MAX) + 1
    last = found[-1].note
    rest = services.notes.list_notes(ann, after=(last.at, last.entry_id))
    assert [one.note.entry_id for one in (*found, *rest)] == ids[::-1]
    document = "".join(services.notes.write_markdown(ann, "Notes"))
    assert document.count("\n## ") == 7


def test_search_finds_noted_entries(services: Services, ann: Actor) -> None:
    first, second = _entries(services, ann)
    services.indexing.run(clock.now() + dt.timedelta(hours=1), 30.0)
    services.notes.set_text(ann, first, "Mine")
    assert parse_query("is:noted curve").noted is True
    assert _ids(services, ann, f"search/{encode_query('is:noted')}") == [first]
    assert _ids(services, ann, f"search/{encode_query('curve -is:noted')}") == [second]


def test_note_on_a_share_belongs_to_the_shared_entry(services: Services, ann: Actor) -> None:
    entry_id = _entries(services, ann)[0]
    share = services.sharing.share(ann, entry_id).share
    services.notes.set_text(ann, share.id, "Mine")
    note = services.reading.get_article(ann, entry_id).note
    assert note is not None
    assert note.entry_id == entry_id


# -- finding passages
def test_passage_is_found_by_its_surroundings() -> None:
    text = "The rain falls. A river of rain. The rain ends."
    finder = QuoteFinder(text)
    assert finder.find(_quote("The rain", suffix="ends")) == (33, 41)
    assert finder.find(_quote("The rain", suffix="falls")) == (0, 8)
    assert finder.find(_quote("rain", prefix="river of")) == (27, 31)
    assert finder.find(_quote("snow")) is None
    assert finder.find(_quote(" ")) is None


@settings(max_examples=200, deadline=None)
@given(
    before=st.text(alphabet="ab é<&\n", max_size=30),
    exact=st.text(alphabet="ab é<&\n", min_size=1, max_size=20),
    after=st.text(alphabet="ab é<&\n", max_size=30),
    cut=st.integers(0, 20),
)
def test_passage_survives_other_markup_and_white_space(before: str, exact: str, after: str, cut: int) -> None:
    if not exact.strip():
        return
    quote = _quote(exact.strip(), before[-20:], after[:20])
    middle = f"{html.escape(exact[:cut])}<b>{html.escape(exact[cut:])}</b>"
    markup = f"<p>{html.escape(before)}{middle}{html.escape(after)}</p>".replace("\n", " \n ")
    marked = mark_quotes(markup, _note(quote))
    inside = "".join(html.unescape(part.split("</mark>")[0]) for part in marked.split("<mark")[1:])
    inside = "".join(piece.partition(">")[2] for piece in inside.split("class=")[1:])
    assert "".join(inside.split()) == "".join(exact.split())
    plain = marked.replace("</mark>", "")
    while "<mark" in plain:
        start = plain.index("<mark")
        plain = plain[:start] + plain[plain.index(">", start) + 1 :]
    assert html.unescape(plain) == html.unescape(markup)


def test_marks_never_break_the_markup() -> None:
    markup = '<p>One <a href="?a=1&amp;b=2" title="Two">Two &lt;b&gt;</a></p><pre>x &amp; y</pre><p>three</p>'
    marked = mark_quotes(markup, _note(_quote("One Two <b>x & y three")))
    assert marked == (
        '<p><mark class="hl yellow" id="hl-a1">One </mark><a href="?a=1&amp;b=2" title="Two">'
        '<mark class="hl yellow">Two &lt;b&gt;</mark></a></p>'
        '<pre><mark class="hl yellow">x &amp; y</mark></pre><p><mark class="hl yellow">three</mark></p>'
    )
    table = "<table><tr><td>a</td> <td>b</td></tr></table>"
    assert "</td> <td>" in mark_quotes(table, _note(_quote("a b")))
    assert mark_quotes("<svg><text>a</text></svg>", _note(_quote("a"))) == "<svg><text>a</text></svg>"


def test_overlapping_passages_are_shown_side_by_side() -> None:
    marked = mark_quotes(
        "<p>abcdef</p>", _note(_quote("abcd"), _quote("cdef", color="blue")._replace(id="b2"))
    )
    assert marked == (
        '<p><mark class="hl yellow" id="hl-a1">abcd</mark><mark class="hl blue" id="hl-b2">ef</mark></p>'
    )


def test_long_text_of_one_letter_takes_no_time() -> None:
    finder = QuoteFinder("a " * 200_000)
    assert finder.find(_quote("a" * 2_000 + "b")) is None
    assert finder.find(_quote("a" * 2_000)) is not None


def test_markdown_shows_quotations_and_escapes_markup() -> None:
    quote = _quote("They *curve* [up]")._replace(note="Why?")
    noted = NotedEntry(_note(quote, text="For the *trip*"), "Old <roofs>", "https://site.example/a>b", "Ann")
    assert "".join(write_markdown([noted], "Notes")) == (
        "# Notes\n\n## [Old \\<roofs\\>](<https://site.example/a%3Eb>)\n\nAnn · 2026-03-14\n\n"
        "For the *trip*\n\n> They \\*curve\\* \\[up\\]\n\nWhy?\n"
    )
