"""Where new entries stand in lists: the genuine feeds without dates are those of the corpus."""

from __future__ import annotations

import dataclasses
import datetime as dt
from itertools import pairwise

import pytest

from app.feeds.parse import parse
from app.gateways.feeds.sort_times import calculate_sort_times
from app.models.feeds.feed import Feed
from app.models.feeds.fetched import Validators
from tests.feeds.test_digest import HOUR, NOW, TICK, after, answer, digest, feed, item, rss
from tests.support import corpus

DAY = 24 * HOUR
UNDATED = (
    "feeds/rss/djangoproject.com-1b0101.xml",
    "feeds/rss/finanzen.net-3d10d9.xml",
    "feeds/rss/scripting.com-f9ad19.xml",
    "feeds/rss/video.search.yahoo.com-91b9c8.xml",
)


def first(body: bytes, modified: str | None = None) -> list[dt.datetime]:
    """Return the sort times of a first fetch."""
    entries = parse(body, url="https://blog.example/feed").entries
    return calculate_sort_times(entries, None, NOW, modified)


@pytest.mark.parametrize("path", UNDATED)
def test_undated_entries_of_a_first_fetch_do_not_fill_the_top_of_lists(path: str) -> None:
    times = first((corpus.root() / path).read_bytes())
    assert times[0] == NOW - DAY
    assert all(above - below >= 12 * HOUR for above, below in pairwise(times))
    assert times[-1] >= NOW - 32 * DAY


def test_a_feed_without_dates_is_as_old_as_its_document() -> None:
    body = rss(item(1), item(2), item(3))
    weeks_ago = dt.datetime(2026, 10, 1, 8, 30, tzinfo=dt.UTC)
    said = "Thu, 01 Oct 2026 08:30:00 GMT"
    assert first(body, said) == [weeks_ago, weeks_ago - DAY, weeks_ago - 2 * DAY]
    # Written anew for each answer, or by a clock that is wrong: this says nothing about the entries.
    for modified in ("Fri, 20 Nov 2026 12:00:00 GMT", "Sat, 20 Nov 2027 12:00:00 GMT", "yesterday", None):
        assert first(body, modified) == [NOW - DAY, NOW - 2 * DAY, NOW - 3 * DAY]


def test_the_pull_passes_on_what_the_server_says_of_the_document() -> None:
    said = Validators(last_modified="Thu, 01 Oct 2026 08:30:00 GMT")
    new = digest(feed(), answer(rss(item(1), item(2)), validators=said)).update.new
    assert [entry.at.month for entry in new] == [10, 9]
    assert [entry.published for entry in new] == [None, None]


def test_many_undated_entries_keep_their_order_within_a_month() -> None:
    times = first(rss(*(item(n) for n in range(400))))
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == 400
    assert times[-1] >= NOW - 31 * DAY


def test_an_entry_whose_date_is_missing_stands_beside_its_neighbours() -> None:
    dated = NOW - 5 * HOUR
    body = rss(item(1), item(2), item(3, dated), item(4), item(5, NOW - 9 * HOUR), item(6))
    assert first(body) == [
        dated + 2 * TICK,
        dated + TICK,
        dated,
        dated - TICK,
        NOW - 9 * HOUR,
        NOW - 9 * HOUR - TICK,
    ]
    # Never in the future; entries of one time stay in the feed's order.
    assert first(rss(item(1), item(2), item(3, NOW))) == [NOW] * 3
    assert first(rss(item(1), item(2, NOW + HOUR), item(3))) == [NOW, NOW, NOW - TICK]


def test_what_a_known_feed_adds_without_a_date_has_arrived_now_and_the_rest_stays() -> None:
    known: Feed = feed()
    opening = digest(known, answer(rss(item(1), item(2))))
    assert [entry.at for entry in opening.update.new] == [NOW - DAY, NOW - 2 * DAY]
    known = dataclasses.replace(after(known, opening))
    later = digest(known, answer(rss(item(4), item(3), item(1), item(2))), NOW + HOUR)
    assert [entry.at for entry in later.update.new] == [NOW + HOUR, NOW + HOUR - TICK]
    assert later.update.changed == ()
