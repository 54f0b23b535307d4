"""What is new, what changed, and feeds whose guids cannot be trusted."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.feeds.entry_hashes import ROW, hash_content, hash_guid
from app.feeds.identity import Diff, diff_feed
from app.feeds.known_entries import GONE, split_rows
from app.feeds.parse import parse
from app.models.feeds.parsed import Format, ParsedEntry, ParsedFeed, ParserPath
from tests.support.corpus import genuine_feeds


def entry(n: int, **changes: object) -> ParsedEntry:
    found = ParsedEntry(
        guid=f"g{n}",
        url=f"http://e.org/{n}",
        title=f"title {n}",
        author="",
        published=None,
        updated=None,
        content=f"content {n}",
        summary="",
        base_url="http://e.org/",
    )
    return found._replace(**changes)  # type: ignore[arg-type]


def feed(*entries: ParsedEntry) -> ParsedFeed:
    return ParsedFeed(Format.RSS20, ParserPath.STRICT, "T", None, "", None, entries)


def follow(found: Diff, *entries: ParsedEntry) -> Diff:
    return diff_feed(feed(*entries), found.seen, volatile=found.volatile, guids=found.guids)


def test_all_is_new_at_first_and_nothing_at_the_second_time() -> None:
    entries = [entry(n) for n in range(5)]
    first = diff_feed(feed(*entries), b"")
    assert first.new == tuple(entries)
    assert first.seen == b"".join(hash_content(e) + hash_guid(e) for e in entries)
    assert len(first.seen) == 5 * ROW
    again = follow(first, *entries)
    assert (again.new, again.changed, again.seen) == ((), (), first.seen)


def test_new_changed_and_gone_entries() -> None:
    first = diff_feed(feed(entry(1), entry(2), entry(3)), b"")
    edited = entry(2, content="edited")
    second = follow(first, entry(4), edited, entry(3))
    assert second.new == (entry(4),)
    assert second.changed == (edited,)
    assert second.get_hash(edited) == hash_guid(edited) == hash_guid(entry(2))
    assert len(second.seen) == 3 * ROW
    assert follow(second, entry(1)).new == (entry(1),), "the store knows it by its unique index"


def test_other_dates_are_no_change() -> None:
    """Some feeds stamp every entry with the time of the fetch."""
    first = diff_feed(feed(entry(1)), b"")
    assert follow(first, entry(1, published=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))).changed == ()


def test_an_empty_answer_forgets_nothing() -> None:
    first = diff_feed(feed(entry(1)), b"")
    empty = follow(first)
    assert empty.seen == first.seen
    assert follow(empty, entry(1)).new == ()


def test_without_guid_the_link_identifies_then_title_date_and_content() -> None:
    by_link = entry(1, guid=None)
    assert hash_guid(by_link) == hash_guid(entry(2, guid=None, url=by_link.url))
    bare = entry(1, guid=None, url=None)
    assert hash_guid(bare) == hash_guid(entry(1, guid=None, url=None))
    assert hash_guid(bare) != hash_guid(bare._replace(content="other"))
    assert hash_guid(entry(1, guid=by_link.url)) != hash_guid(by_link), "a guid is no link"


def test_the_same_entry_twice_is_one() -> None:
    found = diff_feed(feed(entry(1), entry(1), entry(2)), b"")
    assert found.new == (entry(1), entry(2))
    assert len(found.seen) == 2 * ROW


def test_a_guid_that_all_entries_share_identifies_none() -> None:
    entries = [entry(n, guid="http://e.org/") for n in range(4)]
    first = diff_feed(feed(*entries), b"")
    assert first.new == tuple(entries)
    assert len({first.get_hash(e) for e in first.new}) == 4
    more = entry(9, guid="http://e.org/")
    assert follow(first, more, *entries).new == (more,)


def test_an_entry_stays_what_it_is_when_another_comes_with_its_guid_or_goes() -> None:
    first, copied, third = entry(1), entry(2, guid="g1"), entry(3)
    found = diff_feed(feed(first), b"")
    found = follow(found, copied, first)
    assert (found.new, found.changed, found.is_aligned) == ((copied,), (), False)
    other = found.get_hash(copied)
    assert other != hash_guid(first)
    edited = copied._replace(content="edited")
    found = follow(found, third, edited)
    assert (found.new, found.changed, found.get_hash(edited)) == ((third,), (edited,), other)
    found = follow(found, third, edited, first._replace(content="edited"))
    assert (found.new, found.changed) == ((first._replace(content="edited"),), ()), "the store knows its guid"
    found = follow(found, third)
    assert (found.new, found.changed, found.is_aligned) == ((), (), True)


@pytest.mark.parametrize("once", [False, True])
def test_a_feed_with_other_guids_does_not_flood_after_a_document_that_was_short_once(once: bool) -> None:
    """With other guids at each fetch, and with others since a day."""
    rng = random.Random(2)

    def fetch(*numbers: int) -> list[ParsedEntry]:
        return [entry(n, guid=f"other {n}" if once else str(rng.random())) for n in numbers]

    window = range(10, 0, -1)
    found = diff_feed(feed(*(entry(n) for n in window)), b"")
    for short in (window, window[:4], window[3:5], window[:1]):
        found = follow(found, *fetch(*short))
        found = follow(found, *fetch(*window))
        assert (found.new, found.changed) == ((), ())
    for newest in range(11, 16):
        found = follow(found, *fetch(*range(newest, newest - 10, -1)))
    found = follow(found, *fetch(16, 15, 14))
    found = follow(found, *fetch(*range(16, 6, -1)))
    assert (found.new, found.changed) == ((), ())


def test_a_single_entry_with_other_guids_is_known_by_its_text() -> None:
    rng = random.Random(4)
    found = diff_feed(feed(entry(1)), b"")
    stored = hash_guid(entry(1))
    for _ in range(3):
        found = follow(found, entry(1, guid=str(rng.random())))
        assert (found.new, found.changed, found.seen[-8:]) == ((), (), stored)
    more = entry(2, guid="more"), entry(1, guid="another")
    found = follow(found, *more)
    assert (found.new, found.changed) == (more[:1], ())
    found = follow(found, *(e._replace(guid=str(rng.random())) for e in more))
    assert (found.new, found.changed, found.volatile) == ((), (), True)


def test_a_single_entry_that_once_repeated_its_text_loses_none_that_follows() -> None:
    """As a comic of the day, which shows a picture and has always the same link and title."""
    found = diff_feed(feed(entry(1, guid="monday")), b"")
    found = follow(found, entry(1, guid="tuesday"))
    for day in ("wednesday", "thursday", "friday"):
        other = entry(1, guid=day, content=day)
        found = follow(found, other)
        assert (found.new, found.changed, found.volatile) == ((other,), (), False)
    both = entry(1, guid="sunday", content="sunday"), entry(1, guid="saturday", content="saturday")
    assert follow(found, *both).new == both


@pytest.mark.parametrize("many", [2, 9, 10, 12, 30])
@pytest.mark.parametrize("guid", [True, False])
def test_a_document_that_lists_one_entry_makes_no_feed_one_that_changes_its_guids(
    many: int, guid: bool
) -> None:
    entries = [entry(n, guid=f"g{n}" * guid) for n in range(many, 0, -1)]
    first = diff_feed(feed(*entries), b"")
    for alone in (entries[0], entries[-1], entries[many // 2]):
        short = follow(first, alone)
        assert (short.new, short.changed) == ((), ())
        back = follow(short, *entries)
        assert (back.new, back.changed, back.volatile, back.seen) == ((), (), False, first.seen)


def test_a_site_that_begins_with_one_entry_and_then_lists_many_is_as_any_other() -> None:
    found = diff_feed(feed(entry(1)), b"")
    for most in (10, 11, 30):
        known = len(found.seen) // ROW
        found = follow(found, *(entry(n) for n in range(most, 0, -1)))
        assert (len(found.new), found.changed, found.volatile, found.is_aligned) == (
            most - known,
            (),
            False,
            True,
        )


@pytest.mark.parametrize("what", ["url", "title", "content", "image"])
def test_a_single_entry_that_says_something_else_is_another(what: str) -> None:
    other = entry(1, guid="other", **{what: "https://e.org/other"})
    found = follow(diff_feed(feed(entry(1)), b""), other)
    assert (found.new, found.volatile) == ((other,), False)


def test_the_next_of_a_series_is_new_where_the_last_one_is_remembered_only() -> None:
    """ "Open thread" has the same link and title each week, and is listed again while guids changed once."""

    def thread(week: int) -> ParsedEntry:
        return entry(99, guid=f"https-thread{week}", content=f"thread of week {week}")

    old = entry(99, guid="thread1", content="thread of week 1")
    found = diff_feed(feed(old, *(entry(n) for n in (4, 3, 2, 1))), b"")
    found = follow(found, thread(1), *_moved(4, 3, 2, 1))
    assert (found.new, found.changed) == ((), ())
    found = follow(found, *_moved(5, 4, 3, 2, 1))
    more = thread(2)
    found = follow(found, more, *_moved(5, 4, 3, 2))
    assert (found.new, found.changed, found.get_hash(more)) == ((more,), (), hash_guid(more))


def test_what_is_known_of_such_a_feed_has_an_end() -> None:
    rng = random.Random(3)
    found, most = Diff((), (), b""), 0
    for newest in range(3, 60):
        entries = [entry(n, guid=str(rng.random())) for n in (newest, newest - 1, newest - 2)]
        found = follow(found, *entries)
        most = max(most, len(found.seen) // ROW)
    assert (found.volatile, most) == (True, 6)


def test_a_feed_that_changes_its_guids_does_not_flood() -> None:
    rng = random.Random(1)

    def fetch(*numbers: int) -> list[ParsedEntry]:
        return [entry(n, guid=str(rng.random())) for n in numbers]

    found = diff_feed(feed(*fetch(3, 2, 1)), b"")
    old = {found.get_hash(e) for e in found.new}
    found = follow(found, *fetch(4, 3, 2))
    assert found.volatile
    assert [e.title for e in found.new] == ["title 4"]
    for newest in range(5, 12):
        found = follow(found, *fetch(newest, newest - 1, newest - 2))
        assert [e.title for e in found.new] == [f"title {newest}"]
        assert found.changed == ()
    assert len(old) == 3


@pytest.mark.parametrize("guid", [True, False])
def test_a_site_that_goes_over_to_https_does_not_flood(guid: bool) -> None:
    """Where links are the guids, and where there are none."""

    def at(scheme: str, *numbers: int) -> list[ParsedEntry]:
        links = [f"{scheme}://e.org/{n}" for n in numbers]
        return [entry(n, url=link, guid=link * guid) for n, link in zip(numbers, links, strict=True)]

    first = diff_feed(feed(*at("http", *range(10))), b"")
    entries = at("https", 10, *range(9))
    second = follow(first, *entries)
    assert second.new == (entries[0],)
    assert second.changed == tuple(entries[1:]), "their links are other ones"
    assert second.get_hash(entries[1]) == hash_guid(at("http", 0)[0])
    third = follow(second, *entries)
    assert (third.new, third.changed) == ((), ())


@pytest.mark.parametrize("guid", [True, False])
@pytest.mark.parametrize("many", [1, 4, 8])
def test_https_does_not_flood_beside_many_new_entries(guid: bool, many: int) -> None:
    def at(scheme: str, *numbers: int) -> list[ParsedEntry]:
        links = [f"{scheme}://e.org/{n}" for n in numbers]
        return [entry(n, url=link, guid=link * guid) for n, link in zip(numbers, links, strict=True)]

    first = diff_feed(feed(*at("http", *range(10, 0, -1))), b"")
    entries = at("https", *range(10 + many, many, -1))
    found = follow(first, *entries)
    assert [e.title for e in found.new] == [f"title {n}" for n in range(10 + many, 10, -1)]
    assert [e.title for e in found.changed] == [f"title {n}" for n in range(10, many, -1)], "other links"
    assert {found.get_hash(e) for e in found.changed} == {
        hash_guid(e) for e in at("http", *range(many + 1, 11))
    }
    for listed in (entries, entries[:many], entries):
        found = follow(found, *listed)
        assert (found.new, found.changed) == ((), ())


@pytest.mark.parametrize("many", [2, 7])
def test_titles_that_change_together_with_the_links_are_changes_too(many: int) -> None:
    first = diff_feed(feed(*(entry(n, guid=f"http://e.org/{n}") for n in range(9))), b"")
    edited = entry(0, guid="https://e.org/0", title="edited"), entry(1, guid="http://e.org/1", title="edited")
    other = entry(2, guid="https://e.org/2")
    found = follow(first, *(entry(n, guid=f"https://e.org/{n}") for n in range(9, 9 + many)), *edited, other)
    assert (len(found.new), found.changed) == (many, edited)


def test_entries_that_look_alike_go_over_to_https_one_by_one() -> None:
    def photos(scheme: str, *numbers: int) -> list[ParsedEntry]:
        return [entry(n, guid=f"{scheme}://e.org/{n}.jpg", url=None, title="Photo") for n in numbers]

    found = follow(diff_feed(feed(*photos("http", *range(6))), b""), *photos("https", *range(3, 9)))
    assert [e.content for e in found.new] == ["content 6", "content 7", "content 8"]
    again = follow(found, *photos("https", *range(3, 9)))
    assert (again.new, again.changed, again.seen) == ((), (), found.seen)


def test_what_is_listed_with_http_and_with_https_is_two() -> None:
    plain = [entry(n, guid=f"http://e.org/{n}") for n in range(3)]
    secure = entry(9, guid="https://e.org/1")
    found = follow(diff_feed(feed(*plain), b""), secure, *plain)
    assert (found.new, found.changed, found.get_hash(secure)) == ((secure,), (), hash_guid(secure))


def test_a_changed_entry_of_such_a_feed_keeps_the_identity_it_was_stored_under() -> None:
    first = diff_feed(feed(*(entry(n, guid=f"a{n}") for n in range(4))), b"")
    stored = first.get_hash(first.new[2])
    edited = entry(2, guid="b2", content="edited")
    second = follow(first, *(edited if n == 2 else entry(n, guid=f"b{n}") for n in range(4)))
    assert second.new == ()
    assert second.changed == (edited,)
    assert second.get_hash(edited) == stored


def _moved(*numbers: int, **changes: object) -> list[ParsedEntry]:
    return [entry(n, guid=f"https{n}", **changes) for n in numbers]


def _flagged() -> Diff:
    """A feed of five that changed all its guids once."""
    found = follow(diff_feed(feed(*(entry(n) for n in (5, 4, 3, 2, 1))), b""), *_moved(5, 4, 3, 2, 1))
    assert (found.volatile, found.new, found.changed) == (True, (), ())
    return found


def test_guids_that_changed_once_identify_again_and_the_flag_goes_with_the_old_entries() -> None:
    found, stored = _flagged(), hash_guid(entry(5))
    for newest in range(6, 16):
        assert found.volatile
        found = follow(found, *_moved(*range(newest, newest - 5, -1)))
        (new,) = found.new
        assert (new.title, found.get_hash(new), found.changed) == (f"title {newest}", hash_guid(new), ())
        assert (stored in {found.seen[at + 8 : at + 16] for at in range(0, len(found.seen), ROW)}) == (
            newest < 15
        ), "as long again as it was listed: one short document must not make it new"
    assert (found.volatile, found.is_aligned, found.guids) == (False, True, b"")
    assert follow(found, *_moved(15, 14, 13, 12, 11)) == dataclasses.replace(found, new=(), _hashes={})


def test_once_guids_are_steady_a_new_title_or_link_is_a_change_and_nothing_new() -> None:
    found = follow(_flagged(), *_moved(5, 4, 3, 2, 1))
    edited = entry(3, guid="https3", title="edited", url="http://e.org/moved")
    found = follow(found, *_moved(6, 5, 4), edited, *_moved(2))
    assert [e.title for e in found.new] == ["title 6"]
    assert (found.changed, found.get_hash(edited)) == ((edited,), hash_guid(entry(3)))
    twin = entry(6, guid="https7")
    found = follow(found, twin, *_moved(6, 5, 4), edited)
    assert found.new == (twin,), "the same link and title, but both guids are listed"


def test_once_all_that_is_listed_has_its_own_guid_all_titles_may_change() -> None:
    """As of a site whose template puts its name before them, some days after its guids have changed."""
    found = _flagged()
    for newest in range(6, 14):
        found = follow(found, *_moved(*range(newest, newest - 5, -1)))
    assert found.volatile, "the entries of before are remembered still"
    edited = _moved(14, 13, 12, 11, 10, title="The site: a title")
    found = follow(found, *edited)
    assert (found.new, found.changed) == ((edited[0],), tuple(edited[1:]))
    assert {found.get_hash(e) for e in found.changed} == {hash_guid(e) for e in edited[1:]}


def test_while_entries_of_before_are_listed_all_titles_may_change() -> None:
    found = follow(_flagged(), *_moved(6, 5, 4, 3, 2))
    edited = _moved(7, 6, 5, 4, 3, title="The site: a title")
    found = follow(found, *edited)
    assert (found.new, found.changed) == ((edited[0],), tuple(edited[1:]))
    assert found.get_hash(edited[2]) == hash_guid(entry(5))


def test_an_entry_that_goes_over_to_https_beside_a_short_list_brings_back_nothing() -> None:
    def pinned(scheme: str) -> ParsedEntry:
        return entry(0, guid=f"{scheme}://e.org/0")

    first = [entry(n) for n in range(12, 0, -1)]
    found = follow(diff_feed(feed(*first, pinned("http")), b""), *first[:3], pinned("http"))
    found = follow(found, *first[:3], pinned("https"))
    found = follow(found, *first, pinned("https"))
    assert {found.get_hash(e) for e in found.new} <= {hash_guid(e) for e in first}, "the store knows them"


def test_guids_that_last_for_some_fetches_do_not_flood() -> None:
    """Made of the day, for example: steady in between, and all others after midnight."""
    numbers, found, told = list(range(5, 0, -1)), Diff((), (), b""), 0
    for fetch in range(60):
        day = fetch // 4
        if fetch % 3 == 2:
            numbers = [numbers[0] + 1, *numbers[:-1]]
        same = (
            entry(1000, guid=f"{day}-a", title="Photo", url=None),
            entry(1000, guid=f"{day}-b", title="Photo", url=None),
        )
        found = follow(found, *(entry(n, guid=f"{day}-{n}") for n in numbers), *same)
        told += len(found.new)
        assert found.changed == ()
    assert told == 5 + 20 + 3, "of the last, two look alike, and are one once their guids have changed"


def test_guids_that_count_the_places_stay_without_meaning() -> None:
    def fetch(prefix: str, *numbers: int) -> list[ParsedEntry]:
        return [entry(n, guid=f"{prefix}{place}") for place, n in enumerate(numbers)]

    found = follow(diff_feed(feed(*fetch("a", 4, 3, 2, 1)), b""), *fetch("b", 4, 3, 2, 1))
    for newest in range(5, 12):
        found = follow(found, *fetch("b", *range(newest, newest - 4, -1)))
        assert ([e.title for e in found.new], found.changed) == ([f"title {newest}"], ())
    found = follow(found, *fetch("b", 13, 12, 11, 10))
    assert ([e.title for e in found.new], found.changed) == (["title 13", "title 12"], ())


def test_alike_entries_with_true_guids_are_all_told() -> None:
    """Photos without title and link: only the guid tells them apart, and a window slides over them."""
    photos = [entry(n, url=None, title="Photo") for n in range(10)]
    found = diff_feed(feed(*photos[:5]), b"")
    for start in range(1, 5):
        found = follow(found, *photos[start : start + 5])
        assert not found.volatile
        assert found.new == (photos[start + 4],)


def test_a_feed_that_shows_other_entries_is_not_taken_for_a_volatile_one() -> None:
    first = diff_feed(feed(*(entry(n) for n in range(5))), b"")
    second = follow(first, *(entry(n) for n in range(10, 15)))
    assert not second.volatile
    assert len(second.new) == 5


@given(st.lists(st.lists(st.integers(0, 12), max_size=8), max_size=8))
def test_each_entry_is_new_once_while_it_is_known(fetches: list[list[int]]) -> None:
    """As many entries stay known as the longest document had, the listed ones first."""
    found = Diff((), (), b"")
    known: list[int] = []
    for numbers in fetches:
        entries = [entry(n) for n in numbers]
        found = follow(found, *entries)
        assert {e.guid for e in found.new} == {f"g{n}" for n in set(numbers) - set(known)}
        assert found.changed == ()
        if numbers:
            listed = list(dict.fromkeys(numbers))
            known = (listed + [n for n in known if n not in listed])[: max(len(known), len(listed))]
        assert [row[8:] for row in split_rows(found.seen) if row != GONE] == [
            hash_guid(entry(n)) for n in known
        ]


@pytest.mark.parametrize("shorter", [10, 1])
def test_a_document_that_shrinks_and_grows_brings_nothing_back(shorter: int) -> None:
    entries = [entry(n) for n in range(50, 0, -1)]
    found = diff_feed(feed(*entries), b"")
    for more in range(3):
        news = [entry(51 + n) for n in range(more)]
        found = follow(found, *news[-1:], *entries[:shorter])
        assert (found.new, found.changed, found.is_aligned) == (tuple(news[-1:]), (), True)
    found = follow(found, *reversed(news), *entries[:48])
    assert (found.new, found.changed) == ((), ())


def test_genuine_feeds_are_unchanged_when_fetched_again() -> None:
    listed = new = 0
    for row in genuine_feeds():
        parsed = parse(row.read(), url="http://e.org/feed")
        first = diff_feed(parsed, b"")
        again = diff_feed(parse(row.read(), url="http://e.org/feed"), first.seen, volatile=first.volatile)
        assert (again.new, again.changed, again.volatile) == ((), (), first.volatile), row.path
        listed, new = listed + len(parsed.entries), new + len(first.new)
    assert new / listed > 0.99, "few entries of the wild stand in their feed twice"


def test_genuine_feeds_with_new_guids_do_not_flood() -> None:
    for row in genuine_feeds():
        parsed = parse(row.read(), url="http://e.org/feed")
        keys = {(e.url, e.title) for e in parsed.entries}
        if len(keys) < max(5, len(parsed.entries)):
            continue
        first = diff_feed(parsed, b"")
        other = [e._replace(guid=f"other {n}") for n, e in enumerate(parsed.entries)]
        again = diff_feed(dataclasses.replace(parsed, entries=tuple(other)), first.seen)
        assert (again.new, again.changed, again.volatile) == ((), (), True), row.path
