"""Feeds whose links are other ones than at the last fetch, and no guid tells which entry is which."""

from __future__ import annotations

import datetime as dt
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.feeds.entry_hashes import ROW, hash_guid
from app.feeds.identity import Diff, diff_feed
from app.feeds.known_entries import split_rows
from app.models.feeds.parsed import ParsedEntry
from tests.feeds.test_identity import entry, feed

LAST = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)  #: when the feed was last fetched
HOUR = dt.timedelta(hours=1)


def follow(found: Diff, *entries: ParsedEntry, since: dt.datetime | None = LAST) -> Diff:
    return diff_feed(feed(*entries), found.seen, volatile=found.volatile, guids=found.guids, since=since)


def at(site: str, *numbers: int, guid: bool = False, **changes: object) -> list[ParsedEntry]:
    """Entries of a site, one a day; its links are their guids, too, or there are none."""
    links = [f"{site}/{n}" for n in numbers]
    return [
        entry(n, url=link, guid=link * guid or None, published=LAST - (50 - n) * 24 * HOUR)._replace(
            **changes
        )  # type: ignore[arg-type]
        for n, link in zip(numbers, links, strict=True)
    ]


def undated(entries: list[ParsedEntry]) -> list[ParsedEntry]:
    return [one._replace(published=None) for one in entries]


def test_links_that_are_others_at_each_fetch_bring_news_only() -> None:
    """As those of a search at Bing News: each has the number of the request in it."""
    rng = random.Random(1)

    def fetch(*numbers: int) -> list[ParsedEntry]:
        return at(f"http://bing.example/{rng.random()}", *numbers)

    found = follow(Diff((), (), b""), *fetch(*range(10, 0, -1)))
    stored = {found.get_hash(e) for e in found.new}
    for newest in range(10, 30):
        found = follow(found, *fetch(*range(newest, newest - 10, -1)))
        assert [e.title for e in found.new] == [f"title {newest}"] * (newest > 10)
        assert found.volatile
        stored |= {found.get_hash(e) for e in found.new}
        assert {found.get_hash(e) for e in found.changed} <= stored, "their links are other ones"
    assert len(stored) == 29
    assert len(found.seen) <= 2 * 10 * ROW


def test_links_that_are_others_at_each_fetch_bring_nothing_back_after_a_short_document() -> None:
    rng = random.Random(2)
    window = range(12, 0, -1)
    found = follow(Diff((), (), b""), *at("http://e.org", *window))
    for listed in (window, window[:4], window, window[3:6], window):
        found = follow(found, *at(f"http://e.org/{rng.random()}", *listed))
        assert found.new == ()


def test_after_many_news_at_once_links_that_change_flood_no_more() -> None:
    rng = random.Random(3)
    found = follow(Diff((), (), b""), *at("http://e.org", *range(10, 0, -1)))
    told: dict[str, bytes] = {}
    for newest in (10, 17, 17, 18):
        found = follow(found, *at(f"http://e.org/{rng.random()}", *range(newest, newest - 10, -1)))
        told |= {e.title: found.get_hash(e) for e in found.new}
        assert newest < 17 or {e.title: found.get_hash(e) for e in found.changed}.items() <= told.items()
    assert [e.title for e in found.new] == ["title 18"]


@pytest.mark.parametrize("guid", [True, False])
@pytest.mark.parametrize("old", ["http://blog.example", "https://blog.example"])
@pytest.mark.parametrize("more", [0, 3])
def test_a_site_that_moves_does_not_flood(guid: bool, old: str, more: int) -> None:
    """To another domain, or to "www", and maybe over to https with that."""
    new = "https://www.blog.example"
    first = follow(Diff((), (), b""), *at(old, *range(10, 0, -1), guid=guid))
    stored = {f"title {n}": hash_guid(at(old, n, guid=guid)[0]) for n in range(11)}
    found = follow(first, *at(new, *range(10 + more, more, -1), guid=guid))
    assert [e.title for e in found.new] == [f"title {n}" for n in range(10 + more, 10, -1)]
    assert {e.title: found.get_hash(e) for e in found.changed} == {
        f"title {n}": stored[f"title {n}"] for n in range(more + 1, 11)
    }, "so that what was read stays read, and leads to where it is now"
    for newest in range(10 + more, 45):
        before = found
        found = follow(found, *at(new, *range(newest, newest - 10, -1), guid=guid))
        assert [e.title for e in found.new] == [f"title {newest}"] * (newest > 10 + more)
        assert found.changed == ()
        assert not found.new or found.get_hash(found.new[0]) == hash_guid(found.new[0])
    assert (before.volatile, found.volatile, found.is_aligned) == (False, False, True), "as any other again"


@pytest.mark.parametrize(
    "changes", [{"content": ""}, {"content": "", "title": ""}, {"content": "", "title": "News"}]
)
def test_empty_and_shared_words_identify_nothing(changes: dict[str, object]) -> None:
    first = follow(Diff((), (), b""), *at("http://e.org/a", *range(10, 0, -1), **changes))
    entries = at("http://e.org/b", *range(10, 0, -1), **changes)
    found = follow(first, *undated(entries))
    assert (found.new, found.volatile) == (tuple(undated(entries)), False)


def test_a_text_that_all_share_identifies_nothing_beside_titles_of_their_own() -> None:
    """Weather: of each place the same, whatever the day."""
    first = follow(Diff((), (), b""), *at("http://e.org/a", *range(10, 0, -1), content="Read on"))
    others = at("http://e.org/b", *range(10, 0, -1), content="Read on")
    found = follow(first, *others)
    assert (found.new, found.volatile) == (tuple(others), False)


@pytest.mark.parametrize("title", ["", "Same"])
def test_without_titles_it_is_the_old_ones_that_are_known(title: str) -> None:
    """As of posts on Mastodon: of the youngest nobody knows whether it says again what another one said."""
    young = [
        entry(99, guid=None, url=f"http://{site}/99", title=title, published=LAST - HOUR) for site in "ab"
    ]
    first = follow(Diff((), (), b""), young[0], *at("http://a", *range(9, 0, -1), title=title))
    found = follow(first, young[1], *at("http://b", *range(9, 0, -1), title=title))
    assert found.new == (young[1],)


@pytest.mark.parametrize("many", [4, 5])
def test_one_date_for_all_tells_of_none(many: int) -> None:
    """It is when the document was made: such feeds change their links, too."""
    rng = random.Random(5)
    found = Diff((), (), b"")
    for hour in range(4):
        when = LAST + hour * HOUR
        entries = [
            e._replace(published=when) for e in at(f"http://e.org/{rng.random()}", *range(many, 0, -1))
        ]
        found = follow(found, *entries, since=when - HOUR if hour else None)
        assert bool(found.new) == (hour == 0 or many < 5)


def test_titles_are_compared_too() -> None:
    first = follow(Diff((), (), b""), *at("http://e.org/a", *range(10, 0, -1)))
    others = [e._replace(title=f"Another {e.title}") for e in at("http://e.org/b", *range(10, 0, -1))]
    assert follow(first, *others).new == tuple(others)


def test_a_single_entry_without_words_is_not_known_among_others_that_are() -> None:
    def fetch(site: str) -> list[ParsedEntry]:
        return [*at(site, *range(9, 0, -1)), *at(site, 0, title="", content="")]

    found = follow(follow(Diff((), (), b""), *fetch("http://a.example")), *fetch("http://b.example"))
    assert [e.url for e in found.new] == ["http://b.example/0"]


def test_of_those_that_say_the_same_none_is_known() -> None:
    """The daily dump of links is another one each day, however short its text is."""

    def fetch(site: str, *dumps: int) -> list[ParsedEntry]:
        return [*at(site, *dumps, title="Links", content="Today"), *at(site, *range(9, 0, -1))]

    first = follow(Diff((), (), b""), *fetch("http://a.example", 12, 11))
    found = follow(first, *fetch("http://b.example", 13, 12))
    assert [e.url for e in found.new] == ["http://b.example/13", "http://b.example/12"]


def test_what_two_known_ones_say_tells_of_neither() -> None:
    def fetch(site: str, *dumps: int) -> list[ParsedEntry]:
        return [*at(site, *dumps, title="Links", content="Today"), *at(site, *range(9, 0, -1))]

    first = follow(Diff((), (), b""), *fetch("http://a.example", 12, 11))
    found = follow(first, *fetch("http://b.example", 13))
    assert [e.url for e in found.new] == ["http://b.example/13"]


def test_what_is_still_listed_is_nobody_else() -> None:
    """Its text is another one now, and one of those whose links changed has the old one."""
    kept = entry(0, guid="kept", published=LAST - 99 * 24 * HOUR)
    first = follow(Diff((), (), b""), kept, *at("http://a.example", *range(11, 0, -1)))
    again = kept._replace(guid=None, url="http://b.example/0")
    edited = kept._replace(content="edited")
    found = follow(first, edited, again, *at("http://b.example", *range(11, 0, -1)))
    assert (found.new, edited in found.changed) == ((again,), True)


def test_two_that_were_listed_under_one_guid_are_not_taken_for_each_other() -> None:
    def fetch(site: str, guid: str | None) -> list[ParsedEntry]:
        return [*(e._replace(guid=guid) for e in at(site, 12, 11)), *at(site, *range(10, 0, -1))]

    first = follow(Diff((), (), b""), *fetch("http://a.example", None))
    second = follow(first, *fetch("http://b.example", "same"))
    assert (second.new, second.volatile) == ((), True)
    entries = fetch("http://c.example", None)
    found = follow(second, *entries)
    assert found.new == (entries[1],)
    assert found.changed == ()
    assert first.get_hash(first.new[0]) in {row[8:] for row in split_rows(found.seen)}


def test_what_is_younger_than_the_last_fetch_is_new_whatever_it_says() -> None:
    """A weather feed that puts all of its reports in the place of those of yesterday."""

    def reports(day: int) -> list[ParsedEntry]:
        when = LAST + day * 24 * HOUR
        places = ["Berlin", "Paris", "Rome", "Oslo", "Bern", "Wien"]
        return [
            entry(n, guid=None, url=f"http://e.org/{day}/{n}", title=place, content="Sunny", published=when)
            for n, place in enumerate(places)
        ]

    found = follow(Diff((), (), b""), *reports(0), since=None)
    for day in range(1, 5):
        entries = reports(day)
        found = follow(found, *entries, since=LAST + (24 * day - 1) * HOUR)
        assert (found.new, found.changed, found.volatile) == (tuple(entries), (), False)


def test_a_repeated_text_that_is_younger_is_new_among_links_that_change() -> None:
    first = follow(Diff((), (), b""), *at("http://e.org/a", *range(10, 0, -1)))
    again = entry(10, url="http://e.org/b/again", guid=None, published=LAST + HOUR)
    found = follow(first, again, *at("http://e.org/b", *range(9, 0, -1)))
    assert found.new == (again,)


@pytest.mark.parametrize(("many", "new"), [(2, 2), (3, 3), (4, 4), (5, 0), (10, 0)])
def test_without_dates_few_entries_prove_nothing(many: int, new: int) -> None:
    """As of a status page: "Mail", "All is well", each day with a link of that day."""
    first = follow(Diff((), (), b""), *undated(at("http://e.org/a", *range(many))))
    assert len(follow(first, *undated(at("http://e.org/b", *range(many)))).new) == new


def test_without_dates_titles_alone_prove_nothing() -> None:
    first = follow(Diff((), (), b""), *undated(at("http://e.org/a", *range(10), content="")))
    assert len(follow(first, *undated(at("http://e.org/b", *range(10), content=""))).new) == 10


def test_a_first_document_without_its_end_leaves_no_time_to_compare_dates_with() -> None:
    first = follow(Diff((), (), b""), *at("http://e.org/a", *range(10)), since=None)
    assert follow(first, *at("http://e.org/b", *range(10)), since=None).new == ()
    assert len(follow(first, *at("http://e.org/b", *range(4)), since=None).new) == 4


@pytest.mark.parametrize(("old", "new"), [(6, 3), (5, 9), (4, 9), (0, 9)])
def test_two_thirds_of_all_have_to_be_known(old: int, new: int) -> None:
    first = follow(Diff((), (), b""), *at("http://e.org/a", *range(9)))
    found = follow(first, *at("http://e.org/b", *range(9 - old, 18 - old)))
    assert len(found.new) == new


@pytest.mark.parametrize("guid", [True, False])
def test_where_guids_are_known_equal_words_are_of_no_account(guid: bool) -> None:
    """A status feed that says again what it said before."""
    first = follow(Diff((), (), b""), *at("http://e.org", *range(10, 0, -1), guid=guid))
    again = [
        e._replace(url=f"{e.url}-again", guid=f"{e.url}-again" * guid or None)
        for e in at("http://e.org", 3, 2, 1, guid=guid)
    ]
    found = follow(first, *again, *at("http://e.org", *range(10, 3, -1), guid=guid))
    assert (found.new, found.changed, found.volatile) == (tuple(again), (), False)


@pytest.mark.parametrize("url", [None, "http://{}.example/"])
def test_entries_that_share_link_and_title_make_no_feed_one_that_changes_its_guids(url: str | None) -> None:
    def photos(site: str) -> list[ParsedEntry]:
        link = url.format(site) if url else None
        return [e._replace(guid=f"{site}{e.url}", url=link, title="Photo") for e in at("/", *range(6))]

    found = follow(follow(Diff((), (), b""), *photos("a")), *photos("b"))
    assert (len(found.new), found.volatile) == (6, False), "else the next two that came would be one"


def test_nor_do_those_that_shared_them_before() -> None:
    def columns(site: str, *numbers: int) -> list[ParsedEntry]:
        return [
            e._replace(guid=f"{site}{e.url}", url="http://e.org", title=f"Column {n % 2}")
            for n in numbers
            for e in at("/", n)
        ]

    found = follow(Diff((), (), b""), *columns("a", 4, 3, 2, 1))
    found = follow(found, *columns("b", 4, 3))
    assert (len(found.new), found.volatile) == (2, False)


@given(st.lists(st.sets(st.integers(0, 9), min_size=1), max_size=8))
def test_feeds_with_words_of_their_own_are_told_once_while_links_stay(fetches: list[set[int]]) -> None:
    """Each number is one entry; those with the same last figure of three say the same."""
    found, known = Diff((), (), b""), list[int]()
    for numbers in fetches:
        entries = [
            e._replace(title=f"{n % 3}", content="") for n in sorted(numbers) for e in at("http://e.org", n)
        ]
        found = follow(found, *entries, since=LAST - 100 * 24 * HOUR)
        assert {e.url for e in found.new} == {f"http://e.org/{n}" for n in numbers.difference(known)}
        rest = [n for n in known if n not in numbers]
        known = [*sorted(numbers), *rest][: max(len(known), len(numbers))]
