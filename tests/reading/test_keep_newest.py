"""Only the newest entries of a feed in one person's lists: nothing is deleted, and nobody else sees it."""

from __future__ import annotations

from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import InvalidError
from app.models.accounts.actor import Actor
from app.models.feeds.feed import FeedCard
from app.models.reading.stream import Show, Sort, StreamKind, StreamQuery, StreamRef
from app.models.subscriptions.read_state import RemovedEntries
from app.services.subscriptions.subscriptions import KEEP_NEWEST_MAX
from tests.support.reader import add_user, pull, rss

URL = "https://feeds.example/one"
ALL, STARRED = StreamRef(StreamKind.ALL), StreamRef(StreamKind.STARRED)


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


@pytest.fixture
def feed_id(services: Services, ann: Actor) -> int:
    """A feed with the entries 0 to 9, the last of which is the newest."""
    found = services.subscriptions.subscribe(ann, URL).subscription.feed_id
    bring(services, found, 10)
    return found


def bring(services: Services, feed_id: int, count: int) -> None:
    pull(services, [feed_id], {URL: rss("One", [(f"Entry {n}", "x") for n in reversed(range(count))])})


def titles(services: Services, who: Actor, ref: StreamRef = ALL, show: Show = Show.ALL) -> set[str]:
    page = services.reading.load_page(who, StreamQuery(ref, Sort.NEWEST, show=show))
    return {row.title.removeprefix("Entry ") for row in page.rows}


def unread(services: Services, who: Actor) -> int:
    return services.reading.get_tree(who).unread


def test_lists_counts_and_searches_have_only_the_newest(services: Services, ann: Actor, feed_id: int) -> None:
    services.indexing.run(clock.now(), 30)
    newest = sorted(titles(services, ann))
    assert len(newest) == unread(services, ann) == 10
    services.subscriptions.update(ann, feed_id, keep_newest=3)
    shown = titles(services, ann)
    assert shown == titles(services, ann, StreamRef(StreamKind.FEED, feed_id)) == {"7", "8", "9"}
    assert titles(services, ann, StreamRef(StreamKind.SEARCH, query="entry")) == shown
    assert titles(services, ann, show=Show.UNREAD) == shown
    assert unread(services, ann) == 3
    assert len(services.sync.list_unread_ids(ann)) == 3
    bring(services, feed_id, 12)
    assert titles(services, ann) == {"9", "10", "11"}
    assert unread(services, ann) == 3


def test_starred_entries_stay_and_all_are_back_when_it_is_off(
    services: Services, ann: Actor, feed_id: int
) -> None:
    (old,) = services.mappers.entries.find_range(feed_id, 0, 1, 1)
    services.reading.set_starred(ann, old.id, True)
    services.subscriptions.update(ann, feed_id, keep_newest=2)
    assert titles(services, ann, STARRED) == {old.title.removeprefix("Entry ")}
    assert services.reading.get_article(ann, old.id).read
    services.subscriptions.update(ann, feed_id, keep_newest=0)
    assert unread(services, ann) == len(titles(services, ann)) == 10


def test_other_readers_see_everything(services: Services, ann: Actor, feed_id: int) -> None:
    ben = add_user(services, "ben")
    services.subscriptions.subscribe(ben, URL)
    services.subscriptions.update(ann, feed_id, keep_newest=1)
    assert len(titles(services, ben)) == 10
    assert len(titles(services, ann)) == 1


def test_marking_all_counts_what_is_shown(services: Services, ann: Actor, feed_id: int) -> None:
    services.subscriptions.update(ann, feed_id, keep_newest=4)
    done = services.reading.mark_all(ann, ALL)
    assert (done.count, unread(services, ann)) == (4, 0)
    services.reading.undo_mass_mark(ann, done.undo)
    assert unread(services, ann) == 4


def test_marks_of_older_entries_change_no_count(services: Services, ann: Actor, feed_id: int) -> None:
    old, *_, new = services.mappers.entries.find_range(feed_id, 0, 100, 100)
    services.reading.set_many_starred(ann, [old.id, new.id], True)
    services.subscriptions.update(ann, feed_id, keep_newest=4)
    assert services.reading.find_read_states(ann, [old.id, new.id]) == {old.id: True, new.id: False}
    for read, change in ((False, 0), (True, -1)):
        done = services.reading.mark(ann, [old.id, new.id], read=read)
        assert (sum(done.deltas.values()), unread(services, ann)) == (change, 4 + change)
    services.reading.mark(ann, [old.id, new.id], read=False)
    (tag,) = services.tags.change_tags(ann, old.id, add=["x"])
    services.tags.change_tags(ann, new.id, add=["x"])
    ref = StreamRef(StreamKind.TAG, tag.id)
    page = services.reading.load_page(ann, StreamQuery(ref))
    assert services.reading.mark_all(ann, ref, snapshot=page.snapshot).count == 1


def test_saved_pages_are_all_shown(services: Services, ann: Actor) -> None:
    saved = [services.saved_pages.save(ann, f"https://site.example/{n}") for n in range(3)]
    with pytest.raises(InvalidError, match="all pages that you saved"):
        services.subscriptions.update(ann, saved[0].feed_id, keep_newest=2)
    services.subscriptions.update(ann, saved[0].feed_id, keep_newest=0, reopen=True)
    assert len(titles(services, ann)) == 3


def test_the_number_survives_an_unsubscription(services: Services, ann: Actor, feed_id: int) -> None:
    services.subscriptions.update(ann, feed_id, keep_newest=4)
    token = services.subscriptions.unsubscribe(ann, feed_id)
    services.subscriptions.restore(ann, token)
    assert services.subscriptions.get(ann, feed_id).keep_newest == 4
    assert unread(services, ann) == 4


@pytest.mark.parametrize("number", [-1, KEEP_NEWEST_MAX + 1, "3"])
def test_a_number_out_of_range_is_refused(services: Services, ann: Actor, feed_id: int, number: Any) -> None:
    with pytest.raises(InvalidError, match="Enter 0 to"):
        services.subscriptions.update(ann, feed_id, keep_newest=number)


@pytest.mark.parametrize(
    ("keep", "first"), [(0, 3), (1, 20), (2, 19), (3, 14), (4, 13), (13, 4), (14, 3), (100, 3)]
)
def test_numbers_without_an_entry_are_not_counted(keep: int, first: int) -> None:
    # 15 to 18 are gone.
    card = FeedCard(1, "", "", None, None, None, 3, 20, removed=RemovedEntries(0b1111, 15))
    assert card.find_first_seq(keep) == first
