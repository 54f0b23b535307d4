"""Single entries that are issued again under another guid or link, and links that carry counters."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from app.feeds.entry_hashes import hash_content, hash_former_name, hash_guid, hash_name
from app.feeds.identity import Diff, diff_feed
from app.feeds.parse import Limits
from app.feeds.parse.incremental import FeedChanges, LastFetch, find_changes
from app.models.feeds.parsed import ParsedEntry
from tests.feeds.test_digest import rss
from tests.feeds.test_identity import entry, feed

LAST = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)  #: when the feed was last fetched
HOUR = dt.timedelta(hours=1)
PARAMETERS = ["sid", "n", "utm_source", "PHPSESSID"]


def follow(found: Diff, *entries: ParsedEntry, since: dt.datetime | None = LAST) -> Diff:
    return diff_feed(feed(*entries), found.seen, volatile=found.volatile, guids=found.guids, since=since)


def stories(*numbers: int, **changes: object) -> list[ParsedEntry]:
    found = [entry(n, guid=f"c{n}#0", url=f"https://e.org/c{n}", published=LAST - n * HOUR) for n in numbers]
    return [one._replace(**changes) for one in found]  # type: ignore[arg-type]


def reissue(one: ParsedEntry, issue: int, **changes: object) -> ParsedEntry:
    new = one._replace(guid=f"{one.url}#{issue}", published=LAST + issue * HOUR)
    return new._replace(**changes)  # type: ignore[arg-type]


def counted(entries: list[ParsedEntry], parameter: str, count: int) -> list[ParsedEntry]:
    return [one._replace(guid=None, url=f"{one.url}?a=1&{parameter}={count}") for one in entries]


def with_one(entries: list[ParsedEntry], at: int, new: ParsedEntry) -> list[ParsedEntry]:
    return [*entries[:at], new, *entries[at + 1 :]]


@pytest.mark.parametrize("text", ["content 3", "corrected"])
def test_one_guid_of_many_that_changes_is_no_new_entry(text: str) -> None:
    """The BBC does so with each correction."""
    entries = stories(*range(8))
    first = follow(Diff((), (), b""), *entries)
    found, last = first, "content 3"
    for issue in (1, 2, 3):
        again = reissue(entries[3], issue, content=text)
        found = follow(found, *with_one(entries, 3, again))
        assert (found.new, found.changed) == ((), (again,) if text != last else ())
        if found.changed:
            assert found.get_hash(again) == hash_guid(entries[3])
        last = text
    renamed = again._replace(title="Another title")
    found = follow(found, *with_one(entries, 3, renamed))
    assert (found.new, found.changed) == ((), (renamed,)), "its new guid identifies it by then"
    assert found.get_hash(renamed) == hash_guid(entries[3])


def test_the_former_entry_must_have_left_the_document() -> None:
    entries = stories(*range(8))
    again = reissue(entries[3], 1)
    found = follow(follow(Diff((), (), b""), *entries), again, *entries)
    assert found.new == (again,)


@pytest.mark.parametrize("url", ["https://e.org/", "https://e.org", None, "https://blog.example/daily/"])
def test_a_daily_column_is_new_each_day(url: str | None) -> None:
    """Its link leads to the front page, and it is the only one with this title."""
    column = entry(99, url=url, title="Comic of the day", guid="monday", content="monday")
    site = "https://blog.example/daily"
    first = diff_feed(feed(column, *stories(*range(8))), b"")
    other = column._replace(guid="tuesday", content="tuesday")
    parsed = dataclasses.replace(feed(other, *stories(*range(8))), site_url=site)
    assert diff_feed(parsed, first.seen).new == (other,)


def test_a_column_beside_one_pinned_entry_is_new_each_day() -> None:
    pinned, column = entry(1), entry(2, content="monday")
    found = follow(Diff((), (), b""), column, pinned)
    other = column._replace(guid="tuesday", content="tuesday")
    assert follow(found, other, pinned).new == (other,)


def test_entries_that_share_link_and_title_are_no_reissues_of_each_other() -> None:
    photos = [entry(n, url="https://e.org/photos", title="Photo") for n in range(6)]
    found = follow(Diff((), (), b""), *photos[:4])
    assert follow(found, *photos[1:5]).new == (photos[4],)


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_one_link_of_many_with_another_counter_is_no_new_entry(parameter: str) -> None:
    entries = counted(stories(*range(6)), parameter, 0)
    found = first = follow(Diff((), (), b""), *entries)
    for count in range(1, 4):
        found = follow(found, *with_one(entries, 2, *counted(stories(2), parameter, count)))
        assert (found.new, found.changed) == ((), ())
    edited = counted(stories(2, content="edited"), parameter, count)[0]
    found = follow(found, *with_one(entries, 2, edited))
    assert (found.new, found.changed) == ((), (edited,))
    assert found.get_hash(edited) == first.get_hash(entries[2])


@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.parametrize("has_guids", [True, False])
@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("many", [1, 2, 3, 8])
def test_links_with_counters_bring_news_only(parameter: str, has_guids: bool, text: bool, many: int) -> None:
    """With guids or without, with texts or with titles alone: nothing is new, and nothing is written."""
    found = Diff((), (), b"")
    for count in range(4):
        entries = counted(stories(*range(many), **({} if text else {"content": ""})), parameter, count)
        if has_guids:
            entries = [one._replace(guid=one.title) for one in entries]
        found = follow(found, *entries, since=LAST + HOUR)
        if has_guids and many == 1 and parameter in ("sid", "n"):
            continue  # one link that changes may have been corrected
        assert (len(found.new), found.changed) == (0 if count else many, ())


def test_a_link_that_is_corrected_is_stored() -> None:
    """Also in its query, and after links that carried counters."""
    entries = [one._replace(url=f"https://e.org/?p={n}") for n, one in enumerate(stories(*range(8)))]
    found = follow(Diff((), (), b""), *entries)
    right = entries[3]._replace(url="https://e.org/?p=33")
    found = follow(found, *with_one(entries, 3, right))
    assert (found.new, found.changed) == ((), (right,))
    moved = entries[3]._replace(url="https://e.org/other")
    found = follow(found, *with_one(entries, 3, moved))
    assert (found.new, found.changed) == ((), (moved,))


def test_a_text_that_is_repeated_later_under_another_query_is_new() -> None:
    """A status page that says again what it said: its date tells."""
    notes = [
        one._replace(guid=None, url=f"https://e.org/?id={n}") for n, one in enumerate(stories(*range(6)))
    ]
    found = follow(Diff((), (), b""), *notes)
    again = notes[5]._replace(url="https://e.org/?id=9", published=LAST + HOUR)
    assert follow(found, again, *notes[:5]).new == (again,)


def test_links_that_differ_by_more_than_their_query_are_stored_once() -> None:
    """As those of a site that moves; where they differ at each fetch, no further fetch writes them."""
    found, written = Diff((), (), b""), []
    for count in range(5):
        entries = [
            one._replace(guid=None, url=f"https://e.org/{count}/{n}", published=LAST - 48 * HOUR - n * HOUR)
            for n, one in enumerate(stories(*range(8)))
        ]
        found = follow(found, *entries)
        written.append((len(found.new), len(found.changed)))
    assert written == [(8, 0), (0, 8), (0, 0), (0, 0), (0, 0)]
    found = follow(found, *entries)
    assert found.changed == tuple(entries), "it is the same now as at the last fetch: the site has moved"
    assert follow(found, *entries).changed == ()


def test_titles_alone_identify_old_entries_when_links_change() -> None:
    """Decided so: of undated titles, nobody can tell whether they are those of yesterday's weather."""

    def fetch(site: str, date: dt.datetime | None) -> list[ParsedEntry]:
        return [
            entry(n, guid=None, url=f"{site}/{n}", content="", published=date and date - n * HOUR)
            for n in range(8)
        ]

    for date, new in ((LAST - 48 * HOUR, 0), (LAST, 8), (None, 8)):
        first = follow(Diff((), (), b""), *fetch("https://e.org/a", date))
        assert len(follow(first, *fetch("https://e.org/b", date)).new) == new


@pytest.mark.parametrize(
    "url", ["https://e.org/?p=1", "http://e.org/a#b", "https://e.org/a;jsessionid=1?x=2"]
)
def test_hashes_of_earlier_versions_are_known(url: str) -> None:
    """Their keys were made of the whole link; the bytes of links without queries have not changed."""
    entries = stories(*range(4), url=url)
    old = b"".join(hash_former_name(url, e.title) + hash_content(e)[4:] + hash_guid(e) for e in entries)
    found = diff_feed(feed(*entries), old)
    assert (found.new, found.changed) == ((), ())
    assert found.seen == b"".join(hash_content(e) + hash_guid(e) for e in entries)
    others = [one._replace(guid=f"new {one.guid}", title=one.title) for one in entries]
    assert diff_feed(feed(*others), old).new == (), "keys identify, too"
    plain = "https://e.org/a"
    assert hash_name(plain, "T") == hash_former_name(plain, "T")


def _read(last: FeedChanges | None, *items: str) -> FeedChanges:
    known = LastFetch(last.diff.seen, last.diff.volatile, last.chunks, LAST) if last else LastFetch()
    return find_changes(
        rss(*items), known, url="https://blog.example/feed", content_type=None, limits=Limits()
    )


def _item(number: int, guid: str, query: str = "") -> str:
    return (
        f"<item><title>Post {number}</title><link>https://e.org/p{number}{query}</link><guid>{guid}</guid>"
        f"<description>text {number}</description></item>"
    )


def test_a_document_that_is_read_in_part_knows_reissued_entries_too() -> None:
    items = [_item(n, f"g{n}") for n in range(6)]
    first = _read(None, *items)
    assert first.chunks
    found = _read(first, *items[:3], _item(3, "other"), *items[4:])
    assert (found.diff.new, found.diff.changed) == ((), ())


def test_a_document_that_is_read_in_part_rewrites_no_counters() -> None:
    def read(last: FeedChanges | None, *counts: int) -> FeedChanges:
        return _read(last, *(_item(n, f"g{n}", f"?n={count}") for n, count in enumerate(counts)))

    first = read(None, 0, 0, 0, 0, 0, 0)
    found = read(first, 1, 1, 1, 1, 0, 0)
    assert len(found.parsed.entries) == 5, "four, after the empty one in front"
    assert (found.diff.new, found.diff.changed) == ((), ())
    last = read(found, 7, 2, 3, 4, 0, 0)
    assert (last.diff.new, last.diff.changed) == ((), ())
    last = read(last, 0, 2, 0, 0, 0, 0)
    assert [e.url for e in last.diff.changed] == ["https://e.org/p1?n=2"], "one alone is a correction"


def test_a_document_that_shrank_is_read_in_part_and_brings_nothing_back() -> None:
    items = [_item(n, f"g{n}") for n in range(20)]
    first = _read(None, *items)
    short = _read(first, *items[:5])
    assert short.chunks
    news = _read(short, _item(20, "g20"), *items[:4])
    assert [e.guid for e in news.diff.new] == ["g20"]
    assert len(news.parsed.entries) == 2, "only the new one, after the empty one in front"
    found = _read(news, _item(20, "g20"), *items[:19])
    assert (found.diff.new, found.diff.changed) == ((), ())


@pytest.mark.parametrize("is_volatile", [False, True])
def test_entries_that_differ_only_in_their_links_query_are_all_new_once(is_volatile: bool) -> None:
    """Untitled posts of a forum, whose keys differ in two bytes."""
    count, window, found = 25, 30, Diff((), (), b"")
    seen: list[str] = []
    for poll in range(400):
        count += 5
        entries = [
            entry(n, title="", content=f"text {n}", url=f"https://e.org/show?p={n}", guid=f"g{n}")._replace(
                published=LAST + dt.timedelta(minutes=n)
            )
            for n in range(count, max(0, count - window), -1)
        ]
        if is_volatile:
            entries = [one._replace(guid=f"{one.guid}-{poll}") for one in entries]
        found = follow(found, *entries, since=LAST + dt.timedelta(minutes=count - 5, seconds=1))
        assert not found.changed
        seen += [one.content for one in found.new]
    assert sorted(seen) == sorted({f"text {n}" for n in range(1, count + 1)})


LATEST = "https://comic.example/latest.html"


def comics(*numbers: int, guid: str | None = None) -> list[ParsedEntry]:
    """Return what a feed listed behind one link in each of these weeks."""
    return [
        entry(n, guid=guid, url=LATEST, title=f"Comic {n}", published=LAST + (n * 7 - 1) * 24 * HOUR)
        for n in numbers
    ]


def follow_weeks(
    found: Diff, weeks: list[ParsedEntry], *others: ParsedEntry, start: int = 0
) -> tuple[Diff, list[tuple[ParsedEntry, bytes]]]:
    """Fetch once a week; return the last diff, and the entries that were stored, with their identities."""
    stored = []
    for week, one in enumerate(weeks, start):
        found = follow(found, one, *others, since=LAST + (week * 7 - 7) * 24 * HOUR)
        assert found.changed == (), f"{found.changed[0].title} overwrites another entry"
        stored += [(new, found.get_hash(new)) for new in found.new]
        assert follow(found, one, *others, since=LAST + week * 7 * 24 * HOUR).new == ()
    return found, stored


@pytest.mark.parametrize("guid", [None, "", LATEST])
@pytest.mark.parametrize("pinned", [0, 1, 3])
def test_a_weekly_entry_behind_one_link_overwrites_none(guid: str | None, pinned: int) -> None:
    weeks = comics(*range(6), guid=guid)
    others = [
        entry(90 + n, url=f"https://comic.example/about{n}", published=LAST - 400 * 24 * HOUR)
        for n in range(pinned)
    ]
    found, stored = follow_weeks(Diff((), (), b""), weeks, *others)
    assert [new for new, _ in stored if new.url == LATEST] == weeks
    assert len({identity for _, identity in stored}) == 6 + pinned, "each has an identity of its own"

    # Corrections of the newest one belong to it, and another one follows.
    identity = stored[-1][1]
    for changes in ({"content": "corrected"}, {"title": "Comic 5, corrected", "content": "corrected"}):
        right = weeks[5]._replace(**changes)  # type: ignore[arg-type]
        found = follow(found, right, *others, since=LAST + 36 * 24 * HOUR)
        assert (found.new, found.changed) == ((), (right,))
        assert found.get_hash(right) == identity
    _, stored = follow_weeks(found, comics(6, 7, guid=guid), *others, start=6)
    assert [new.title for new, _ in stored] == ["Comic 6", "Comic 7"]


def test_an_article_that_is_written_on_stays_one_entry() -> None:
    """A news site changes its title, text and date beside other articles of the day."""
    entries = [one._replace(guid=one.url) for one in stories(*range(8))]
    found = follow(Diff((), (), b""), *entries)
    again = entries[3]._replace(title="More", content="More is known", published=LAST + HOUR)
    found = follow(found, *with_one(entries, 3, again))
    assert (found.new, found.changed) == ((), (again,))


@pytest.mark.parametrize("change", ["title", "published"])
def test_a_single_entry_behind_one_link_that_keeps_something_is_an_edit(change: str) -> None:
    old, new = comics(0, 1)
    found = follow(Diff((), (), b""), old)
    edited = new._replace(**{change: getattr(old, change)})
    assert follow(found, edited, since=LAST).new == ()


@pytest.mark.parametrize("pinned", [2, 5])
def test_a_weekly_column_beside_pinned_entries_is_new_each_week(pinned: int) -> None:
    """Its link and its title stay the same, and its guid doesn't."""
    others = [entry(n, published=LAST - 300 * 24 * HOUR) for n in range(pinned)]
    column = entry(50, url="https://e.org/column", title="The column", published=LAST)
    found = follow(Diff((), (), b""), column._replace(guid="w1", content="one"), *others)
    other = column._replace(guid="w2", content="two", published=LAST + 24 * HOUR)
    found = follow(found, other, *others)
    assert (found.new, found.changed) == ((other,), ())


@pytest.mark.parametrize("kind", ["guid", "link", "both"])
@pytest.mark.parametrize("more", [0, 1])
def test_a_query_that_is_added_to_all_links_once_is_stored(kind: str, more: int) -> None:
    entries = stories(*range(8))
    if kind != "guid":
        entries = [one._replace(guid=one.url if kind == "both" else None) for one in entries]
    found = follow(Diff((), (), b""), *entries)
    stored = {one.title: one.url for one in entries}
    for count in range(1, 5):
        news = [entry(20 + count * 2 + n, published=LAST + HOUR) for n in range(more)]
        now = [
            one._replace(
                url=f"{one.url}?from=feed", guid=f"{one.url}?from=feed" if kind == "both" else one.guid
            )
            for one in entries
        ]
        found = follow(found, *news, *now, since=LAST)
        assert len(found.new) == more
        stored |= {one.title: one.url for one in found.changed}
    assert all(stored[one.title] == one.url for one in now), "never stored"
    assert follow(found, *news, *now).changed == ()


def test_a_query_that_is_added_once_is_stored_where_only_other_bytes_are_parsed() -> None:
    limits = Limits()

    def read(known: FeedChanges | None, query: str, *numbers: int) -> FeedChanges:
        last = LastFetch(known.diff.seen, known.diff.volatile, known.chunks) if known else LastFetch()
        body = rss(
            *(
                f"<item><guid>g{n}</guid><title>T{n}</title><link>https://e.org/{n}{query}</link>"
                f"<description>text {n}</description></item>"
                for n in numbers
            )
        )
        return find_changes(body, last, url="https://e.org/", content_type=None, limits=limits)

    found = read(read(None, "", *range(10)), "?a=1", *range(10))
    assert found.diff.changed == ()
    found = read(found, "?a=1", 10, *range(10))
    assert [one.title for one in found.diff.new] == ["T10"]
    assert len(found.diff.changed) == 10
    found = read(found, "?a=1", 11, *range(11))
    assert (len(found.diff.new), found.diff.changed) == (1, ())
    assert found.chunks, "from now on, known bytes aren't parsed again"
