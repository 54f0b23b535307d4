"""Streams where they are hard: many feeds, equal times, bursts, long histories, changes meanwhile."""

from __future__ import annotations

import concurrent.futures
import datetime as dt
from typing import Any

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap.services import Services
from app.errors import NotFoundError, TooLargeError
from app.gateways.feeds import feed_merge
from app.gateways.reading import stream_merge
from app.mappers.subscriptions import subscriptions
from app.models.accounts.actor import Actor
from app.models.reading.stream import EntryRow, Sort, StreamKind, StreamQuery, StreamRef
from app.models.subscriptions.read_state import make_state
from tests.support.database import NOW, World, guid, new_entry

ALL = StreamRef(StreamKind.ALL)
Db = Database[dict[str, Any]]


def everything(services: Services, who: Actor, ref: StreamRef, sort: Sort, limit: int = 50) -> list[EntryRow]:
    """Return the rows of all pages."""
    page = services.reading.load_page(who, StreamQuery(ref, sort, limit=limit))
    rows = list(page.rows)
    while page.cursor is not None:
        page = services.reading.load_page(who, StreamQuery(ref, sort, page.cursor, page.snapshot, limit))
        rows += page.rows
    return rows


def follow(world: World, who: Actor, *ages: list[int]) -> list[int]:
    """Subscribe to one feed per list, each with entries so many minutes old, all unread."""
    feeds = []
    for number, minutes in enumerate(ages):
        feed_id = world.feed(f"s{number}")
        with clock.set_source(lambda: NOW):
            world.services.subscriptions.subscribe(who, f"https://s{number}.example.org/feed")
        if minutes:
            world.publish(feed_id, world.minutes(*minutes))
        feeds.append(feed_id)
    return feeds


def expected(db: Db, reverse: bool = True) -> list[int]:
    found = db["entries"].find({}, {"at": 1})
    return [d["_id"] for d in sorted(found, key=lambda d: (d["at"], d["_id"]), reverse=reverse)]


def test_more_feeds_than_one_merge_takes_page_in_one_order(
    world: World, alice: Actor, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_merge, "CHUNK", 8)
    # Feeds of unlike rhythm: some post every minute, most once in hours, some never.
    follow(world, alice, *([n % 7 * 60 + n, n * 3 + 500] if n % 9 else [] for n in range(40)))
    for sort in Sort:
        rows = everything(world.services, alice, ALL, sort, limit=17)
        assert [r.id for r in rows] == expected(db, reverse=sort is not Sort.OLDEST)


def test_entries_of_one_moment_are_neither_doubled_nor_lost(world: World, alice: Actor, db: Db) -> None:
    follow(world, alice, *([5] * 12 for _ in range(22)))
    for sort in Sort:
        rows = everything(world.services, alice, ALL, sort, limit=33)
        assert [r.id for r in rows] == expected(db, reverse=sort is not Sort.OLDEST)


def test_a_burst_that_fills_a_window_is_merged_by_the_server(
    world: World, alice: Actor, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_merge, "BUSY", 50)
    monkeypatch.setattr(stream_merge, "FEW", 0)
    monkeypatch.setattr(stream_merge, "CHUNK", 10)
    follow(world, alice, *([1, 1, 1, 2, 900 + n] for n in range(30)))
    rows = everything(world.services, alice, ALL, Sort.UNREAD_ON_TOP, limit=40)
    assert [r.id for r in rows] == expected(db)


def test_few_unread_in_a_long_history_come_first(world: World, alice: Actor, db: Db) -> None:
    feeds = follow(world, alice, *(list(range(100)) for _ in range(4)))
    oldest = [d["_id"] for d in db["entries"].find({"feed_id": feeds[0]}).sort("seq").limit(3)]
    world.services.reading.mark_all(alice, ALL)
    world.services.reading.mark(alice, oldest, False)
    page = world.services.reading.load_page(alice, StreamQuery(ALL, limit=10))
    assert ([r.id for r in page.rows[:3]], page.split, page.unread) == (oldest[::-1], 3, 3)
    assert world.services.reading.get_tree(alice).unread == 3


def test_what_is_read_after_the_first_page_stays_where_it_was(world: World, alice: Actor) -> None:
    follow(world, alice, list(range(30)))
    first = world.services.reading.load_page(alice, StreamQuery(ALL, limit=10))
    world.services.reading.mark_all(alice, ALL)
    again = world.services.reading.load_page(
        alice, StreamQuery(ALL, Sort.UNREAD_ON_TOP, first.cursor, first.snapshot, 10)
    )
    assert (len(again.rows), again.split) == (10, None)
    assert all(r.read for r in again.rows)


def test_what_arrives_is_announced_and_not_shown(world: World, alice: Actor) -> None:
    reading, (feed_id,) = world.services.reading, follow(world, alice, [1, 2])
    page = reading.load_page(alice, StreamQuery(ALL, limit=1))
    assert reading.count_newer(alice, page.snapshot) == 0
    world.publish(feed_id, world.minutes(0, 0, 90))
    assert reading.count_newer(alice, page.snapshot) == 3
    rest = reading.load_page(alice, StreamQuery(ALL, Sort.UNREAD_ON_TOP, page.cursor, page.snapshot, 10))
    assert len(rest.rows) == 1
    assert reading.mark_all(alice, ALL, snapshot=page.snapshot).count == 2
    assert reading.get_tree(alice).unread == 3


def test_a_snapshot_and_an_undo_end_with_their_day(world: World, alice: Actor) -> None:
    reading = world.services.reading
    follow(world, alice, [1, 2])
    with clock.set_source(lambda: NOW):
        page = reading.load_page(alice, StreamQuery(ALL, limit=1))
        undo = reading.mark_all(alice, ALL).undo
    later = NOW + dt.timedelta(days=1, seconds=1)
    with clock.set_source(lambda: later):
        with pytest.raises(NotFoundError):
            reading.count_newer(alice, page.snapshot)
        with pytest.raises(NotFoundError):
            reading.undo_mass_mark(alice, undo)


def test_single_marks_between_a_mass_action_and_its_undo_are_kept(world: World, alice: Actor) -> None:
    reading = world.services.reading
    follow(world, alice, [1, 2, 3, 4])
    one, two, *_ = [r.id for r in reading.load_page(alice, StreamQuery(ALL)).rows]
    reading.mark(alice, [one], True)
    undo = reading.mark_all(alice, ALL).undo
    reading.mark(alice, [two], True)
    reading.mark(alice, [one], False)
    reading.undo_mass_mark(alice, undo)
    state = {r.id: r.read for r in reading.load_page(alice, StreamQuery(ALL)).rows}
    assert (state[one], state[two], sum(state.values())) == (False, True, 1)
    with pytest.raises(NotFoundError):
        reading.undo_mass_mark(alice, undo)


def test_single_marks_are_kept_by_the_undo_of_two_mass_actions(world: World, alice: Actor) -> None:
    reading, (feed_id,) = world.services.reading, follow(world, alice, [1, 2])
    snapshot = reading.load_page(alice, StreamQuery(ALL)).snapshot
    one, two = [r.id for r in reading.load_page(alice, StreamQuery(ALL)).rows]
    first = reading.mark_all(alice, ALL).undo
    world.publish(feed_id, world.minutes(0))
    second = reading.mark_all(alice, ALL, snapshot=snapshot).undo
    # It is read already, but no longer because of the first action.
    reading.mark(alice, [one], True)
    reading.undo_mass_mark(alice, second)
    reading.undo_mass_mark(alice, first)
    state = {r.id: r.read for r in reading.load_page(alice, StreamQuery(ALL)).rows}
    assert (state[one], state[two], sum(state.values())) == (True, False, 1)


def test_marks_of_many_devices_commute_with_a_mass_action(world: World, alice: Actor) -> None:
    reading, (feed_id,) = world.services.reading, follow(world, alice, list(range(100)))
    rows = everything(world.services, alice, ALL, Sort.NEWEST)
    page = reading.load_page(alice, StreamQuery(ALL))
    world.publish(feed_id, world.minutes(*[0] * 64))
    fresh = [
        r.id for r in everything(world.services, alice, ALL, Sort.NEWEST) if r.id not in {o.id for o in rows}
    ]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        marks = [pool.submit(reading.mark, alice, [entry_id], True) for entry_id in fresh[:32]]
        keeps = [pool.submit(reading.mark, alice, [r.id], True) for r in rows[:20]]
        mass = pool.submit(reading.mark_all, alice, ALL, snapshot=page.snapshot)
        moved = sum(m.result().total for m in (*marks, *keeps))
    assert reading.get_tree(alice).unread == 32
    assert moved - mass.result().count == -(100 + 32)
    reading.undo_mass_mark(alice, mass.result().undo)
    assert reading.get_tree(alice).unread == 32 + 80


def test_what_a_pull_brings_is_counted_and_named_at_once(world: World, alice: Actor, db: Db) -> None:
    # Cards are decoded once per content: each change of a feed is another content.
    feed_id, reading = follow(world, alice, [1, 2])[0], world.services.reading
    assert reading.get_tree(alice).unread == 2
    world.publish(feed_id, world.minutes(0))
    assert reading.get_tree(alice).unread == 3
    db["feeds"].update_one({"_id": feed_id}, {"$set": {"title": "Renamed", "error": "timeout"}})
    feed = reading.get_tree(alice).feeds[0]
    assert (feed.title, feed.error, feed.unread) == ("Renamed", "timeout", 3)
    db["feeds"].update_one({"_id": feed_id}, {"$unset": {"error": "", "title": ""}})
    feed = reading.get_tree(alice).feeds[0]
    assert (feed.title, feed.error) == ("https://s0.example.org/feed", None)


def test_states_are_replaced_unless_they_changed_since_they_were_read(
    world: World, alice: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds = follow(world, alice, *[list(range(130))] * 5)
    follow(world, bob, *[[]] * 5)
    mapper, words = world.services.gateways.subscriptions._subscriptions, make_state(3, 5 << 60, 0, [2])
    monkeypatch.setattr(subscriptions, "PLACES", 2)
    mapper.mark(alice.user_id, feeds[2], [70], read=True)
    kept, others = mapper.find_by_user(alice.user_id), mapper.find_by_user(bob.user_id)
    mapper.mark(alice.user_id, feeds[1], [100], read=True)
    replaces = [subscriptions.StateReplacement(k, words, None if n else "mass") for n, k in enumerate(kept)]
    assert mapper.replace_states(alice.user_id, replaces) == 4
    now = {k.feed_id: k for k in mapper.find_by_user(alice.user_id)}
    assert {f for f in feeds if now[f].state == words} == {*feeds} - {feeds[1]}
    assert now[feeds[1]].state.is_read(100)
    assert [now[f].rev - k.rev for f, k in zip(feeds, kept, strict=True)] == [1] * 5
    assert [now[f].mass for f in feeds] == ["mass", *[None] * 4]
    assert mapper.find_by_user(bob.user_id) == others
    assert mapper.replace_states(alice.user_id, replaces) == 0
    assert mapper.replace_states(alice.user_id, []) == 0


def test_bitmaps_beyond_one_statement_are_replaced_too(
    world: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(world, alice, *[list(range(100))] * 4)
    reading = world.services.reading
    reading.mark(alice, [r.id for r in everything(world.services, alice, ALL, Sort.NEWEST)][::2], True)
    monkeypatch.setattr(subscriptions, "BITS", 150)
    before = [
        k.state for k in world.services.gateways.subscriptions._subscriptions.find_by_user(alice.user_id)
    ]
    reading.undo_mass_mark(alice, reading.mark_all(alice, ALL).undo)
    after = [
        k.state for k in world.services.gateways.subscriptions._subscriptions.find_by_user(alice.user_id)
    ]
    assert after == before
    assert reading.get_tree(alice).unread == 200


def test_a_folder_holds_what_its_folders_hold(world: World, alice: Actor) -> None:
    services, feeds = world.services, follow(world, alice, [1], [2], [3])
    outer = services.folders.create(alice, "Outer")
    inner = services.folders.create(alice, "Inner", parent=outer.id)
    services.subscriptions.update(alice, feeds[0], folder_ids=[outer.id, inner.id])
    services.subscriptions.update(alice, feeds[1], folder_ids=[inner.id])
    rows = everything(services, alice, StreamRef(StreamKind.FOLDER, outer.id), Sort.NEWEST)
    assert [r.feed_id for r in rows] == feeds[:2]
    tree = services.reading.get_tree(alice)
    assert [(f.name, f.unread, [g.name for g in f.folders]) for f in tree.folders] == [
        ("Outer", 2, ["Inner"])
    ]
    assert [f.feed_id for f in tree.feeds] == feeds[2:]
    services.folders.delete(alice, outer.id)
    tree = services.reading.get_tree(alice)
    assert [(f.name, f.unread) for f in tree.folders] == [("Inner", 2)]


def test_what_was_unsubscribed_meanwhile_is_not_shown(world: World, alice: Actor) -> None:
    services, feeds = world.services, follow(world, alice, [1, 3, 5], [2, 4, 6])
    page = services.reading.load_page(alice, StreamQuery(ALL, limit=2))
    services.subscriptions.unsubscribe(alice, feeds[1])
    rest = services.reading.load_page(
        alice, StreamQuery(ALL, Sort.UNREAD_ON_TOP, page.cursor, page.snapshot, 9)
    )
    assert {r.feed_id for r in rest.rows} == {feeds[0]}
    with pytest.raises(NotFoundError):
        services.reading.get_article(alice, page.rows[1].id)


def test_a_first_pull_of_a_big_feed_leaves_a_hundred_unread(world: World, alice: Actor, bob: Actor) -> None:
    services = world.services
    with clock.set_source(lambda: NOW):
        services.subscriptions.subscribe(alice, "https://big.example.org/feed")
        feed_id = world.feed("big")
        world.publish(feed_id, world.minutes(*range(300)))
        ticket = services.subscriptions.subscribe(bob, "https://big.example.org/feed").ticket
    assert ticket is None
    assert [services.reading.get_tree(who).unread for who in (alice, bob)] == [100, 100]
    world.publish(feed_id, world.minutes(0))
    assert [services.reading.get_tree(who).unread for who in (alice, bob)] == [101, 101]


def test_R03_parallel_subscribes_and_unsubscribes_count_once(world: World, db: Db) -> None:
    feed_id = world.feed("busy")
    users = [Actor(1_700_000_000_000_100 + n) for n in range(6)]

    def rush(who: Actor) -> None:
        for _ in range(3):
            world.services.subscriptions.subscribe(who, "https://busy.example.org/feed")
            world.services.subscriptions.subscribe(who, "http://busy.example.org/feed")
            if who is not users[0]:
                world.services.subscriptions.unsubscribe(who, feed_id)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(rush, users))
    feed = db["feeds"].find_one({"_id": feed_id})
    assert feed is not None
    assert db["feeds"].count_documents({}) == 1
    assert feed["subscribers"] == db["subscriptions"].count_documents({"feed_id": feed_id}) == 1


def test_there_is_a_most_of_subscriptions(world: World, alice: Actor) -> None:
    world.services.gateways.subscriptions._most = 1
    world.services.subscriptions.subscribe(alice, "https://one.example.org/feed")
    with pytest.raises(TooLargeError):
        world.services.subscriptions.subscribe(alice, "https://two.example.org/feed")
    assert world.services.subscriptions.subscribe(alice, "https://one.example.org/feed").existed


def test_feeds_that_prove_to_be_one_take_their_readers_along(world: World, alice: Actor, bob: Actor) -> None:
    services, feeds = world.services, world.feeds
    old, new = world.feed("old"), world.feed("new")
    for who, name in ((alice, "old"), (bob, "old"), (bob, "new")):
        services.subscriptions.subscribe(who, f"https://{name}.example.org/feed")
    for feed_id in (old, new):
        world.store(feed_id, [new_entry(n, NOW - dt.timedelta(minutes=n)) for n in range(5)])
    rows = services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.FEED, old))).rows
    services.reading.mark(alice, [r.id for r in rows if r.title in ("Entry 1", "Entry 3")], True)
    assert feeds.move(old, "https://new.example.org/feed") == new
    assert feeds.get_or_create("https://old.example.org/feed", now=NOW).id == new
    moved = services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.FEED, new))).rows
    assert {r.title for r in moved if not r.read} == {"Entry 0", "Entry 2", "Entry 4"}
    assert [f.feed_id for f in services.reading.get_tree(bob).feeds] == [new]
    assert (feeds.get(old).subscribers, feeds.get(new).subscribers) == (0, 2)
    assert feeds.move(new, "https://newest.example.org/feed") == new
    assert feeds.get(new).url == "https://newest.example.org/feed"
    for who in (alice, bob):
        services.subscriptions.unsubscribe(who, new)
    assert feeds.move(old, "https://newest.example.org/feed") == new, "a late pull of what was merged"
    assert feeds.get_or_create("https://old.example.org/feed", now=NOW).id == new


def _old_and_new(world: World, *readers: Actor) -> tuple[int, int]:
    """Two feeds, each with a reader of its own."""
    old, new = world.feed("old"), world.feed("new")
    for who, name in zip(readers, ("old", "new"), strict=True):
        world.services.subscriptions.subscribe(who, f"https://{name}.example.org/feed")
    return old, new


@pytest.mark.parametrize("how", ["moved", "chosen"])
def test_a_twin_with_other_guids_is_read_where_the_old_feed_was(
    world: World, alice: Actor, bob: Actor, how: str
) -> None:
    """As the RSS and the Atom feed of a blog: the same links and titles."""
    services, feeds = world.services, world.feeds
    old, new = _old_and_new(world, alice, bob)
    posts = [new_entry(n, NOW - dt.timedelta(minutes=n)) for n in range(10)]
    world.store(old, posts)
    world.store(new, [post._replace(guid_hash=guid(100 + n)) for n, post in enumerate(posts)])
    rows = services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.FEED, old))).rows
    services.reading.mark(alice, [r.id for r in rows if r.title != "Entry 4"], True)
    if how == "moved":
        assert feeds.move(old, "https://new.example.org/feed") == new
    else:
        with clock.set_source(lambda: NOW):
            services.subscriptions.change_address(alice, old, "https://new.example.org/feed")
    moved = services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.FEED, new))).rows
    assert {r.title for r in moved if not r.read} == {"Entry 4"}


def test_what_a_twin_calls_by_other_names_is_unread_if_it_may_be_what_was(
    world: World, alice: Actor, bob: Actor
) -> None:
    services, feeds = world.services, world.feeds
    old, new = _old_and_new(world, alice, bob)
    posts = [new_entry(n, NOW - dt.timedelta(minutes=n)) for n in range(6)]
    world.store(old, posts)
    renamed = [
        post._replace(guid_hash=guid(100 + n), url=None, title=f"Other {n}") for n, post in enumerate(posts)
    ]
    # The twin knows 0 to 2 under names of its own, and 3 to 5 under those of the old feed.
    world.store(new, [*renamed[:3], *posts[3:], new_entry(9, NOW - dt.timedelta(minutes=9))])
    rows = services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.FEED, old))).rows
    services.reading.mark(alice, [r.id for r in rows if r.title not in ("Entry 1", "Entry 4")], True)
    assert feeds.move(old, "https://new.example.org/feed") == new
    moved = services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.FEED, new))).rows
    assert {r.title for r in moved if not r.read} == {"Other 0", "Other 1", "Entry 4"}


@pytest.mark.parametrize(("oldest", "unread"), [(50, set()), (12, {"Post 1", "Post 2"})])
def test_an_unread_entry_from_before_a_twin_began_makes_nothing_unread_there(
    world: World, alice: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch, oldest: int, unread: set[str]
) -> None:
    """What may be there under another name is, but not more than is looked for."""
    monkeypatch.setattr(feed_merge, "CARRIED", 2)
    services, feeds = world.services, world.feeds
    old, new = _old_and_new(world, alice, bob)
    shared = [new_entry(n, NOW - dt.timedelta(hours=n)) for n in (0, 5, 7)]
    world.store(old, [*shared, new_entry(oldest, NOW - dt.timedelta(hours=oldest))])
    others = [
        post._replace(guid_hash=guid(100 + n), url=None, title=f"Post {n}")
        for n, post in enumerate((new_entry(n, NOW - dt.timedelta(hours=n)) for n in range(1, 20)), 1)
    ]
    world.store(new, [*shared, *others])
    rows = services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.FEED, old))).rows
    services.reading.mark(alice, [r.id for r in rows if r.title != f"Entry {oldest}"], True)
    assert feeds.move(old, "https://new.example.org/feed") == new
    moved = services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.FEED, new))).rows
    assert {r.title for r in moved if not r.read} == unread


@pytest.mark.parametrize("gone", [False, True])
def test_a_feed_that_moves_where_none_is_polled_stays_what_it_is(
    world: World, db: Db, alice: Actor, bob: Actor, gone: bool
) -> None:
    services, feeds = world.services, world.feeds
    old, new = world.feed("old"), world.feed("new")
    services.subscriptions.subscribe(alice, "https://old.example.org/feed")
    if gone:
        services.subscriptions.subscribe(bob, "https://new.example.org/feed")
        db["feeds"].update_one({"_id": new}, {"$set": {"next_check_at": None, "error": "gone"}})
    world.store(new, [new_entry(n, NOW - dt.timedelta(minutes=n)) for n in range(3, 9)])
    world.store(old, [new_entry(n, NOW - dt.timedelta(minutes=n)) for n in range(5)])
    rows = services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.FEED, old))).rows
    services.reading.mark(alice, [r.id for r in rows if r.title in ("Entry 1", "Entry 3")], True)
    assert feeds.move(old, "https://new.example.org/feed") == old
    assert feeds.get_or_create("https://new.example.org/feed", now=NOW).id == old
    assert (feeds.get(old).url, feeds.get(new).merged_into) == ("https://new.example.org/feed", old)
    assert [d.id for d in feeds.find_due(NOW, 9)] == [old]
    moved = services.reading.load_page(alice, StreamQuery(StreamRef(StreamKind.FEED, old))).rows
    assert {r.title for r in moved if not r.read} == {"Entry 0", "Entry 2", "Entry 4"}
    # Entries 3 and 4, and those that his feed never had, since older ones that he did not read are gone.
    assert [f.unread for f in services.reading.get_tree(bob).feeds] == [5] * gone
