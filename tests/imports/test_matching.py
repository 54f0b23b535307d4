"""Which entries of a feed the entries of an archive are."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools

import pytest

from app.feeds.archives.formats import read_miniflux_entry
from app.feeds.entry_hashes import list_possible_hashes
from app.gateways.imports.matching import SAME_TIME, fold_title, mark_repeats, match_entries
from app.mappers.feeds.entries import EntryLink
from app.models.imports.archives import MarkRow, SavedEntry

AT = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
LONG_AGO = AT - dt.timedelta(days=900)
HOST = "https://blog.example"


def link(number: int, url: str, title: str, *, guid: str = "", at: dt.datetime | None = AT) -> EntryLink:
    identity = list_possible_hashes(guid or f"guid {number}", "")[0]
    return EntryLink(number, number, identity, url, title, at)


def saved(url: str, title: str, *, guid: str = "", at: dt.datetime | None = AT) -> SavedEntry:
    return SavedEntry(f"{HOST}/feed", guid, url, True, title=title, at=at)


def match(links: list[EntryLink], *entries: SavedEntry) -> list[tuple[int, int]]:
    """Return (entry of the feed, place in the archive)."""
    places = {id(entry): place for place, entry in enumerate(entries)}
    return sorted((one.id, places[id(entry)]) for one, entry in match_entries(links, entries))


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (f"{HOST}/1?id=1", f"{HOST}/1?id=1&utm_source=rss&utm_medium=feed"),
        (f"{HOST}/p%C3%A4ge%201", f"{HOST}/päge%201"),
        (f"{HOST}/1?q=a b", f"{HOST}/1?q=a%20b"),
        ("http://blog.example/1", f"{HOST}/1"),
        ("https://blog.example:443/1/", f"{HOST}/1"),
    ],
)
def test_links_that_a_reader_has_rewritten_are_found(there: str, here: str) -> None:
    links = [link(1, here, "One"), link(2, f"{HOST}/2", "Two")]
    assert match(links, saved(there, "Other")) == [(1, 0)]
    assert match(links, saved(there, "One", at=None)) == [(1, 0)]


@pytest.mark.parametrize("there", [f"{HOST}/1", f"{HOST}/1/"])
def test_a_link_that_only_one_has_finds_it_if_its_title_or_its_time_is_the_same(there: str) -> None:
    links = [link(1, f"{HOST}/1", "One"), link(2, f"{HOST}/2", "Two")]
    assert match(links, saved(there, "One", at=LONG_AGO)) == [(1, 0)]
    assert match(links, saved(there, "Other", at=AT + SAME_TIME)) == [(1, 0)]
    assert match(links, saved(there, "Other", at=AT + 2 * SAME_TIME)) == []
    assert match(links, saved(there, "", at=LONG_AGO)) == []
    # Without a time, a changed title needs the very link.
    assert match(links, saved(there, "Other", at=None)) == ([(1, 0)] if there == f"{HOST}/1" else [])


def test_entry_that_dropped_out_gives_its_star_to_no_other_that_has_its_link_now() -> None:
    links = [link(1, f"{HOST}/changes", "Version 9")]
    assert match(links, saved(f"{HOST}/changes", "Version 1", at=LONG_AGO)) == []


def test_title_that_recurs_years_later_on_a_shared_link_is_another_entry() -> None:
    links = [link(1, f"{HOST}/status", "Maintenance"), link(2, f"{HOST}/status", "Outage")]
    assert match(links, saved(f"{HOST}/status", "Maintenance", at=LONG_AGO)) == []
    assert match(links, saved(f"{HOST}/status", "Maintenance", at=AT + SAME_TIME)) == [(1, 0)]
    assert match(links, saved(f"{HOST}/status", "Maintenance", at=None)) == [(1, 0)]


def test_title_that_recurs_on_a_shared_link_finds_nothing_without_a_time() -> None:
    links = [link(n, f"{HOST}/status", "Maintenance", at=AT + n * SAME_TIME) for n in (1, 2)]
    assert match(links, saved(f"{HOST}/status", "Maintenance", at=None)) == []


def test_title_that_recurs_years_later_without_a_link_is_another_entry() -> None:
    assert match([link(1, "", "Maintenance")], saved("", "Maintenance", at=LONG_AGO)) == []


def test_parts_of_one_page_are_kept_apart() -> None:
    links = [link(n, f"{HOST}/c#v{n}", f"Version {n}", at=AT + n * SAME_TIME) for n in (8, 9)]
    for there in (links, links[:1], links[1:]):
        assert match(there, saved(f"{HOST}/c#v1", "Version 1", at=LONG_AGO)) == []
        assert match(there, saved(f"{HOST}/c#v1", "Version 9", at=None)) == []
    # The page's address is written in another way.
    assert match(links, saved(f"{HOST}/c/#v9", "Version 9", at=None)) == [(9, 0)]
    assert match(links, saved(f"{HOST}/c/#v9", "Version 9", at=LONG_AGO)) == [(9, 0)]


def test_a_fragment_that_one_side_lacks_needs_the_title_and_no_other_time() -> None:
    links = [link(1, f"{HOST}/c#from-feed", "One")]
    assert match(links, saved(f"{HOST}/c", "One", at=None)) == [(1, 0)]
    assert match(links, saved(f"{HOST}/c", "One", at=LONG_AGO)) == []
    assert match(links, saved(f"{HOST}/c", "Other")) == []
    parts = [link(n, f"{HOST}/c#v{n}", f"Version {n}") for n in (8, 9)]
    assert match(parts, saved(f"{HOST}/c", "Version 9", at=None)) == [(9, 0)]
    plain = [link(1, f"{HOST}/c", "Version 9")]
    assert match(plain, saved(f"{HOST}/c#v9", "Version 9", at=None)) == [(1, 0)]
    assert match(plain, saved(f"{HOST}/c#v9", "Version 9", at=LONG_AGO)) == []


def test_what_two_in_the_archive_are_called_finds_nothing_if_only_its_name_is_known() -> None:
    links = [link(1, f"{HOST}/now/1", "Daily thread")]
    assert match(links, saved(f"{HOST}/a", "Daily thread"), saved(f"{HOST}/b", "Daily thread")) == []


@pytest.mark.parametrize(
    ("one", "first", "second"),
    [
        (link(1, "", "Daily", at=None), saved(HOST, "Daily"), saved(HOST, "Daily", at=LONG_AGO)),
        (link(1, f"{HOST}/now", "Daily"), saved(f"{HOST}/a", "Daily"), saved(f"{HOST}/b", "Daily")),
        (
            link(1, f"{HOST}/c", "Version 9"),
            saved(f"{HOST}/c", "Version 9", at=LONG_AGO),
            saved(f"{HOST}/c", "Version 8", at=None),
        ),
        (
            link(1, f"{HOST}/c", "Version 9"),
            saved(f"{HOST}/c/", "Version 9", at=LONG_AGO),
            saved(f"{HOST}/c/", "Version 8", at=None),
        ),
    ],
    ids=["title", "title and time", "link", "page"],
)
def test_parts_of_an_archive_find_what_the_whole_finds(
    one: EntryLink, first: SavedEntry, second: SavedEntry
) -> None:
    rows = [MarkRow("a", first), MarkRow("a", second), MarkRow("b", first)]
    marked = [row.entry for row in mark_repeats(rows)]
    assert [match([one], entry) for entry in marked] == [
        [],
        [],
        [(1, 0)],
    ]  # the last one is alone in its feed
    assert match([one], first, second) == []


def test_of_entries_with_one_link_each_is_found_by_its_title() -> None:
    links = [link(n, f"{HOST}/changes", f"Version {n}") for n in range(1, 5)]
    entries = [saved(f"{HOST}/changes", f"Version {n}", at=None) for n in (3, 1)]
    assert match(links, *entries) == [(1, 1), (3, 0)]


def test_of_entries_with_one_link_and_title_each_is_found_by_its_time() -> None:
    links = [link(n, f"{HOST}/changes", "Release", at=AT + n * dt.timedelta(days=1)) for n in range(1, 5)]
    gone = saved(f"{HOST}/changes", "Release", at=AT)
    entry = saved(f"{HOST}/changes", "Release", at=AT + 2 * dt.timedelta(days=1))
    assert match(links, gone, entry) == [(2, 1)]


def test_entry_that_dropped_out_gives_its_star_to_no_other_with_its_link() -> None:
    links = [link(n, f"{HOST}/changes", f"Version {n}") for n in (8, 9)]
    assert match(links, saved(f"{HOST}/changes", "Version 1")) == []


def test_entries_without_links_are_found_by_titles_that_occur_once() -> None:
    links = [link(1, "", "One", at=None), link(2, "", "Two", at=None), link(3, "", "Two", at=None)]
    site = HOST  # some readers fill in the address of the site
    assert match(links, saved(site, "One"), saved(site, "Two")) == [(1, 0)]


def test_title_that_recurs_on_either_side_finds_no_entry_without_a_link() -> None:
    bare = link(1, "", "One", at=None)
    assert match([bare], saved(HOST, "One")) == [(1, 0)]
    assert match([bare, link(2, f"{HOST}/2", "One")], saved(HOST, "One", at=None)) == []
    assert match([bare], saved(HOST, "One"), saved(HOST, "One", at=AT + dt.timedelta(days=1))) == []


def test_entry_whose_link_changed_is_found_by_title_and_time() -> None:
    links = [link(1, f"{HOST}/now/1", "One"), link(2, f"{HOST}/now/2", "Two")]
    assert match(links, saved(f"{HOST}/then/1", "One")) == [(1, 0)]
    assert match(links, saved(f"{HOST}/then/1", "One", at=AT + dt.timedelta(days=1))) == []
    assert match(links, saved(f"{HOST}/then/1", "One", at=None)) == []


def test_times_that_all_entries_share_and_titles_that_recur_find_nothing() -> None:
    links = [link(n, f"{HOST}/{n}", "Daily thread") for n in (1, 2)]
    assert match(links, saved(f"{HOST}/0", "Daily thread")) == []


def test_entries_without_titles_are_only_found_by_their_links() -> None:
    links = [link(1, f"{HOST}/1", ""), link(2, "", "")]
    assert match(links, saved(f"{HOST}/9", ""), saved(f"{HOST}/1", "")) == [(1, 1)]


def test_guid_comes_before_everything_else() -> None:
    links = [link(1, f"{HOST}/1", "One", guid="g1"), link(2, f"{HOST}/2", "Two", guid="g2")]
    assert match(links, saved(f"{HOST}/1", "One", guid="g2")) == [(2, 0)]


def test_no_two_entries_become_one() -> None:
    links = [link(1, f"{HOST}/1", "One"), link(2, f"{HOST}/1", "One"), link(3, "", "One")]
    entry = saved(f"{HOST}/1", "One")
    for count in range(1, 6):
        found = match(links, *(dataclasses.replace(entry) for _ in range(count)))
        for column in (0, 1):
            places = [pair[column] for pair in found]
            assert len(places) == len(set(places))


def test_order_of_the_archive_changes_nothing() -> None:
    hours = [AT + hour * dt.timedelta(hours=1) for hour in range(10)]
    links = [link(n, f"{HOST}/changes", f"Version {n % 3}", at=hours[n]) for n in range(6)]
    entries = [saved(f"{HOST}/changes", f"Version {n % 3}", at=hours[n]) for n in (0, 3, 4, 9)]
    expected = {0: entries[0], 3: entries[1], 4: entries[2]}
    for order in itertools.permutations(entries):
        assert {one.id: entry for one, entry in match_entries(links, list(order))} == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ünï & <b>bold</b>", "ÜNÏ & bold"),
        ("atom &amp;amp; 1", "atom & 1"),
        ("many \t spaces\n", "many spaces"),
        ("\u202eoverride", "override"),
        ("a < b", "a &lt; b"),
    ],
)
def test_titles_are_equal_without_markup_and_signs(one: str, other: str) -> None:
    assert fold_title(one) == fold_title(other) != ""


def test_titles_of_signs_differ() -> None:
    assert fold_title("🎉") != fold_title("🎈") != ""


@pytest.mark.parametrize(
    ("status", "read"), [("read", True), ("unread", False), ("removed", True), ("odd", None), (1, None)]
)
def test_history_that_miniflux_cleared_counts_as_read(status: object, read: bool | None) -> None:
    assert read_miniflux_entry({"status": status}).read is read
