"""Many subscriptions at once: the table, bulk deeds with one undo, pause, and a change of address."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import ExistsError, InvalidError, NotFoundError, RateLimitedError, TooLargeError
from app.feeds import schedule
from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamQuery, StreamRef
from app.models.subscriptions.bulk_edit import BulkEditQuery, Condition, Order
from app.models.subscriptions.folder import FolderEditMode
from tests.support.database import NOW, World, new_entry

ALL = StreamRef.parse("all")


def follow(world: World, who: Actor, *names: str) -> list[int]:
    ids = [world.feed(name) for name in names]
    for name in names:
        world.services.subscriptions.subscribe(who, f"https://{name}.example.org/feed")
    return ids


def names(services: Services, who: Actor, **wish: object) -> list[str]:
    rows = services.bulk_edit.load_page(who, BulkEditQuery(**wish)).rows  # type: ignore[arg-type]
    return [row.title for row in rows]


def test_the_table_is_filtered_and_sorted(world: World, alice: Actor, bob: Actor) -> None:
    services = world.services
    fast, dead, quiet, broken, empty = follow(world, alice, "fast", "dead", "quiet", "broken", "empty")
    follow(world, bob, "other")
    for feed_id, days in ((fast, 0), (dead, 400), (quiet, 100), (broken, 1)):
        world.publish(feed_id, [NOW - dt.timedelta(days=days, minutes=m) for m in range(2)])
    history = schedule.seed([NOW - dt.timedelta(hours=h) for h in range(30)], NOW)
    feeds = services.store.database["feeds"]
    feeds.update_one({"_id": fast}, {"$set": {"history": history.pack()}})
    feeds.update_one({"_id": broken}, {"$set": {"error": "http_503"}})
    services.subscriptions.set_paused(alice, empty, True)
    folder = services.folders.create(alice, "Folder")
    services.folders.place_feeds(alice, [quiet, dead], [folder.id], FolderEditMode.ADD)
    services.marking.mark_feeds(alice, [dead])
    with clock.set_source(lambda: NOW):
        page = services.bulk_edit.load_page(alice, BulkEditQuery())
        assert [row.title for row in page.rows] == ["broken", "dead", "empty", "fast", "quiet"]
        assert (page.total, page.subscriptions, page.after) == (5, 5, "")
        assert {c.value: n for c, n in page.counts.items()} == {
            "all": 5, "unread": 3, "error": 1, "quiet": 1, "dead": 1, "paused": 1,
        }  # fmt: skip
        for condition, found in (
            ("quiet", "quiet"),
            ("dead", "dead"),
            ("error", "broken"),
            ("paused", "empty"),
        ):
            assert names(services, alice, condition=Condition(condition)) == [found]
        assert names(services, alice, order=Order.NEWEST) == ["fast", "broken", "quiet", "dead", "empty"]
        assert names(services, alice, order=Order.RATE)[0] == "fast"
        assert page.rows[3].rate == pytest.approx(21, abs=2)
        assert names(services, alice, order=Order.UNREAD)[:3] == ["fast", "quiet", "broken"]
        assert names(services, alice, folder=folder.id) == ["dead", "quiet"]
        assert names(services, alice, folder=0) == ["broken", "empty", "fast"]
        assert names(services, alice, words="EXAMPLE fa") == ["fast"]
        assert services.bulk_edit.find_feed_ids(alice, BulkEditQuery(words="fa")) == [fast]


@pytest.mark.parametrize("order", list(Order))
def test_two_thousand_are_paged_by_key(world: World, alice: Actor, order: Order) -> None:
    services, count = world.services, 2000
    store = services.store.database
    store["feeds"].insert_many(
        {
            "_id": n, "kind": "web", "url": f"https://site{n}.example/feed", "url_key": f"k{n}",
            "title": f"Same {n % 7}",
            "first_seq": 1, "last_seq": n % 5, "errors": 0, "subscribers": 1, "created": NOW,
            "last_entry_at": NOW - dt.timedelta(days=n % 40),
        }
        for n in range(1, count + 1)
    )  # fmt: skip
    store["subscriptions"].insert_many(
        {"_id": n, "user_id": alice.user_id, "feed_id": n, "rev": 0, "upto": 0, "words": {}, "unread": []}
        for n in range(1, count + 1)
    )
    seen: list[int] = []
    query = BulkEditQuery(order=order)
    while True:
        page = services.bulk_edit.load_page(alice, query)
        assert len(page.rows) <= 500
        assert page.total == count
        seen += [row.feed_id for row in page.rows]
        if not page.after:
            break
        query = BulkEditQuery(order=order, after=page.after)
        # What went meanwhile moves no other row to another page.
        store["subscriptions"].delete_one({"feed_id": seen[0]})
        count = store["subscriptions"].count_documents({})
    assert len(seen) == len(set(seen)) == 2000


@pytest.mark.parametrize("cursor", ["x", "1.x", "0.1", "1", "1." + "9" * 30])
def test_a_cursor_that_is_none_is_refused(services: Services, alice: Actor, cursor: str) -> None:
    with pytest.raises(InvalidError, match="Reload"):
        services.bulk_edit.load_page(alice, BulkEditQuery(order=Order.UNREAD, after=cursor))


def test_many_go_and_come_back_as_one(world: World, alice: Actor, bob: Actor) -> None:
    services = world.services
    ids = follow(world, alice, *(f"feed{n:03}" for n in range(120)))
    folder = services.folders.create(alice, "Folder")
    services.folders.place_feeds(alice, ids[:50], [folder.id], FolderEditMode.ADD)
    world.publish(ids[0], world.minutes(1, 2, 3))
    services.subscriptions.set_paused(alice, ids[1], True)
    before = services.reading.get_tree(alice)
    token, count = services.bulk_edit.unsubscribe(alice, [*ids, 12345])
    assert count == 120
    assert not services.gateways.subscriptions.find_feed_ids(alice.user_id)
    assert {services.gateways.feeds.get(f).subscribers for f in ids} == {0}
    with pytest.raises(NotFoundError):
        services.bulk_edit.restore(bob, token)
    services.subscriptions.subscribe(alice, "https://feed007.example.org/feed")
    assert len(services.bulk_edit.restore(alice, token).restored) == 119
    assert services.gateways.feeds.get(ids[7]).subscribers == 1
    assert services.subscriptions.get(alice, ids[1]).paused
    assert services.gateways.feeds.get(ids[1]).subscribers == 0
    services.folders.place_feeds(alice, [ids[7]], [folder.id], FolderEditMode.ADD)
    assert services.reading.get_tree(alice) == before
    with pytest.raises(NotFoundError):
        services.bulk_edit.restore(alice, token)


def test_what_comes_back_counts_without_what_is_there_again(world: World, alice: Actor) -> None:
    services = world.services
    services.gateways.subscriptions._most = 2
    ids = follow(world, alice, "one", "two")
    token, _ = services.bulk_edit.unsubscribe(alice, ids)
    follow(world, alice, "one", "three")
    with pytest.raises(TooLargeError):
        services.bulk_edit.restore(alice, token)
    services.subscriptions.unsubscribe(alice, world.feed("three"))
    assert [s.feed_id for s in services.bulk_edit.restore(alice, token).restored] == ids[1:]


def test_marks_and_checks_are_for_his_own_feeds(world: World, alice: Actor, bob: Actor) -> None:
    services = world.services
    mine, theirs = follow(world, alice, "mine"), follow(world, bob, "theirs")
    for feed_id in (*mine, *theirs):
        world.publish(feed_id, world.minutes(1, 2))
    done = services.marking.mark_feeds(alice, [*mine, *theirs])
    assert done.count == 2
    assert services.reading.get_tree(bob).unread == 2
    services.reading.undo_mass_mark(alice, done.undo)
    assert services.reading.get_tree(alice).unread == 2
    assert services.bulk_edit.refresh(alice, [*mine, *theirs]) == 1


def due(services: Services, feed_id: int) -> bool:
    later = clock.now() + dt.timedelta(days=2)
    return feed_id in {feed.id for feed in services.gateways.feeds.find_due(later, 100)}


def test_a_feed_that_all_have_paused_is_not_polled(world: World, alice: Actor, bob: Actor) -> None:
    services = world.services
    (feed_id,) = follow(world, alice, "news")
    follow(world, bob, "news")
    services.subscriptions.set_paused(alice, feed_id, True)
    services.subscriptions.set_paused(alice, feed_id, True)
    assert due(services, feed_id)
    services.subscriptions.set_paused(bob, feed_id, True)
    assert not due(services, feed_id)
    assert services.gateways.feeds.get(feed_id).subscribers == 0
    # Going away and coming back changes nothing about that.
    token = services.subscriptions.unsubscribe(alice, feed_id)
    again = services.subscriptions.restore(alice, token)
    assert again
    assert again.paused
    assert not due(services, feed_id)
    services.subscriptions.set_paused(alice, feed_id, False)
    assert due(services, feed_id)
    assert services.gateways.feeds.get(feed_id).subscribers == 1
    with pytest.raises(NotFoundError):
        services.subscriptions.set_paused(Actor(77), feed_id, True)


@pytest.mark.parametrize("is_single", [True, False])
def test_pausing_and_resuming_brings_no_check_forward(
    world: World, alice: Actor, db: Any, is_single: bool
) -> None:
    services, now = world.services, clock.now().replace(microsecond=0)
    planned, late, gone = ids = follow(world, alice, "planned", "late", "gone")
    times = {planned: now + dt.timedelta(hours=3), late: now - dt.timedelta(hours=1), gone: None}
    for feed_id, at in times.items():
        db.feeds.update_one({"_id": feed_id}, {"$set": {"next_check_at": at}})
    for _ in range(3):
        for paused in (True, False):
            if is_single:
                for feed_id in ids:
                    services.subscriptions.set_paused(alice, feed_id, paused)
            else:
                assert services.bulk_edit.set_paused(alice, ids, paused) == 3
            found = {feed.id for feed in services.gateways.feeds.find_due(clock.now(), 100)}
            assert found & set(ids) == (set() if paused else {late}), "what was missed is made up for"
    assert {i: services.gateways.feeds.get(i).next_check_at for i in ids} == times


def test_a_paused_reader_follows_a_feed_that_moves(world: World, alice: Actor, bob: Actor) -> None:
    services = world.services
    old, new = follow(world, alice, "old", "new")
    services.subscriptions.unsubscribe(alice, new)
    follow(world, bob, "old", "new")
    services.subscriptions.set_paused(alice, old, True)
    assert services.gateways.feeds.move(old, "https://new.example.org/feed") == new
    assert services.subscriptions.get(alice, new).paused
    assert services.gateways.feeds.get(new).subscribers == 1


def unread(services: Services, who: Actor) -> list[str]:
    rows = services.reading.load_page(who, StreamQuery(ALL, limit=100)).rows
    return sorted(row.title for row in rows if not row.read)


def test_a_changed_address_keeps_name_folders_and_what_was_read(world: World, alice: Actor) -> None:
    services = world.services
    (old,) = follow(world, alice, "old")
    new = world.feed("new")
    entries = [new_entry(n, NOW - dt.timedelta(minutes=n)) for n in range(6)]
    world.store(old, entries[2:])
    world.store(new, entries[:5])
    folder = services.folders.create(alice, "Folder")
    services.subscriptions.update(alice, old, title="Mine", folder_ids=[folder.id])
    ids = {row.title: row.id for row in services.reading.load_page(alice, StreamQuery(ALL)).rows}
    services.reading.mark(alice, [ids["Entry 3"]], True)
    services.reading.set_starred(alice, ids["Entry 5"], True)
    done = services.subscriptions.change_address(alice, old, "https://new.example.org/feed")
    assert (done.feed_id, done.was_known) == (new, True)
    mine = services.subscriptions.get(alice, new)
    assert (mine.title, mine.folder_ids) == ("Mine", (folder.id,))
    # 0 and 1 are new there; 2 and 4 were unread, 3 was read.
    with clock.set_source(lambda: NOW):
        assert unread(services, alice) == ["Entry 0", "Entry 1", "Entry 2", "Entry 4"]
    assert [f.subscribers for f in map(services.gateways.feeds.get, (old, new))] == [0, 1]
    starred = services.reading.load_page(alice, StreamQuery(StreamRef.parse("starred")))
    assert [row.title for row in starred.rows] == ["Entry 5"]
    services.gateways.subscriptions._most = 1
    services.subscriptions.restore(alice, done.undo)
    assert services.subscriptions.get(alice, old).title == "Mine"
    assert services.gateways.subscriptions.find_feed_ids(alice.user_id) == [old]
    assert [f.subscribers for f in map(services.gateways.feeds.get, (old, new))] == [1, 0]


def test_who_pauses_while_an_address_is_changed_is_counted_out(world: World, alice: Actor) -> None:
    services = world.services
    (old,) = follow(world, alice, "old")
    mine, target = services.subscriptions.get(alice, old), services.gateways.feeds.get(world.feed("new"))
    services.subscriptions.set_paused(alice, old, True)
    services.gateways.subscriptions.replace_feed(mine, target, mine.state, NOW, NOW)
    assert [f.subscribers for f in map(services.gateways.feeds.get, (old, target.id))] == [0, 0]


def test_an_address_that_nobody_knew_begins_anew(world: World, alice: Actor) -> None:
    services = world.services
    (old,) = follow(world, alice, "old")
    world.publish(old, world.minutes(1, 2))
    done = services.subscriptions.change_address(alice, old, "fresh.example.org/feed")
    assert not done.was_known
    assert [f.feed_id for f in services.reading.get_tree(alice).feeds] == [done.feed_id]
    assert due(services, done.feed_id)


GONE = {"error": "gone", "errors": 1, "next_check_at": None}


@pytest.mark.parametrize("ill", [GONE, {"error": "timeout", "errors": 1}])
def test_a_feed_that_was_not_well_is_asked_for_who_is_new(
    world: World, alice: Actor, bob: Actor, redis_client: Any, ill: dict[str, object]
) -> None:
    services, url = world.services, "https://ill.example.org/feed"
    (feed_id,) = follow(world, alice, "ill")
    world.publish(feed_id, world.minutes(1, 2))
    (mine,) = follow(world, bob, "mine")
    services.store.database["feeds"].update_one({"_id": feed_id}, {"$set": ill})
    redis_client.flushall()
    assert services.subscriptions.subscribe(alice, url).ticket is None, "she can check it by hand"
    assert services.subscriptions.subscribe(bob, url).ticket is not None
    assert redis_client.llen("rq:queue:feed-pull") == 1
    services.subscriptions.unsubscribe(bob, feed_id)
    redis_client.flushall()
    services.subscriptions.change_address(bob, mine, url)
    assert redis_client.llen("rq:queue:feed-pull") == 1


def test_S01_subscriptions_per_hour_are_limited(world: World, alice: Actor, bob: Actor) -> None:
    subscriptions = world.services.subscriptions
    subscriptions._subscriptions_per_hour = 2
    before = world.services.store.database["feeds"].count_documents({})
    for name in ("one", "two"):
        subscriptions.subscribe(alice, f"https://{name}.example/feed")
    with pytest.raises(RateLimitedError):
        subscriptions.subscribe(alice, "https://three.example/feed")
    assert world.services.store.database["feeds"].count_documents({}) == before + 2, "no feed is created"
    subscriptions.subscribe(bob, "https://three.example/feed")


def test_addresses_per_hour_are_limited(world: World, alice: Actor) -> None:
    (old,) = follow(world, alice, "old")
    world.services.subscriptions._addresses_per_hour = 2
    for number in range(2):
        done = world.services.subscriptions.change_address(
            alice, old, f"https://fresh{number}.example.org/feed"
        )
        old = done.feed_id
    with pytest.raises(RateLimitedError):
        world.services.subscriptions.change_address(alice, old, "https://fresh3.example.org/feed")
    assert [f.feed_id for f in world.services.reading.get_tree(alice).feeds] == [old]
    assert world.services.gateways.feeds.find_by_url("https://fresh3.example.org/feed") is None, (
        "nothing is fetched"
    )


def test_an_address_that_does_not_fit_changes_nothing(world: World, alice: Actor) -> None:
    services = world.services
    old, other = follow(world, alice, "old", "other")
    with pytest.raises(ExistsError, match="already"):
        services.subscriptions.change_address(alice, old, "https://other.example.org/feed")
    with pytest.raises(InvalidError, match="Enter a different one"):
        services.subscriptions.change_address(alice, old, "https://old.example.org/feed")
    for bad in ("x" * 3000, "no address", "javascript:alert(1)", "file:///etc/passwd", ""):
        with pytest.raises(InvalidError):
            services.subscriptions.change_address(alice, old, bad)
    with pytest.raises(NotFoundError):
        services.subscriptions.change_address(Actor(77), old, "https://third.example.org/feed")
    assert {f.feed_id for f in services.reading.get_tree(alice).feeds} == {old, other}
    assert [services.gateways.feeds.get(f).subscribers for f in (old, other)] == [1, 1]
