"""What waits in an outbox is settled and delivered once, whatever fails or runs at the same time."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import NotFoundError
from app.gateways.feeds.retention import RetentionGateway
from app.gateways.notifications import notifications as gateway
from app.gateways.operations import outbox
from app.mappers.mongo import store
from app.mappers.mongo.outbox_rows import add_missed_feeds
from app.mappers.operations.outbox import OutboxMapper
from app.models.accounts.actor import Actor
from app.models.discussion.comments import NotificationKind
from app.models.operations.cells import HOME, Place, PlaceState
from tests.sharing.conftest import People
from tests.support.cells import (
    CELL,
    SecondCell,
    cell_db,
    move,
    running_cell,
    second_cell,
    settings,
    wait_until,
)
from tests.support.database import World

__all__ = ["cell_db", "second_cell", "settings"]


@pytest.fixture
def other(settings: Settings, services: Services) -> Iterator[Services]:
    """Another process that settles the outboxes at the same time."""
    with contextlib.closing(bootstrap.build(settings)) as built:
        yield built


@pytest.fixture
def bob(people: People) -> Actor:
    return people.join("bob")


@pytest.fixture
def cleo(people: People) -> Actor:
    return people.join("cleo")


@pytest.fixture
def share(people: People, ann: Actor, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(gateway, "WAIT", dt.timedelta(0))
    people.open(ann)
    return people.services.sharing.share(ann, people.blog([ann])[0]).share.id


def begin_to_move(services: Services, user_id: int) -> Place:
    """Refuse a person's writes, as the mover does."""
    place = services.cells.places.update(Place(user_id, HOME), state=PlaceState.MIGRATING, to=CELL)
    assert place is not None
    services.cells.forget_places()
    return place


def say_it_all(services: Services, ann: Actor, bob: Actor, share: int) -> None:
    """Let Bob do all that Ann is notified of."""
    services.discussion.set_liked(bob, share)
    for text in ("One", "Two, @cleo and @ann"):
        services.discussion.comment(bob, share, text)
    services.following.follow(bob, "ann")
    services.notifier.notify_export_finished(ann.user_id)
    services.notifier.notify_import_finished(ann.user_id, 3)


def find_rows(database: Database[Any], user_id: int) -> dict[str, tuple[int, bool]]:
    found = database["notifications"].find({"user_id": user_id})
    return {doc["kind"]: (doc["count"], doc["read"]) for doc in found}


ALL = {
    NotificationKind.LIKE.value: (1, False),
    NotificationKind.COMMENT.value: (2, False),
    NotificationKind.FOLLOWER.value: (1, False),
    NotificationKind.EXPORT.value: (1, False),
    NotificationKind.IMPORT.value: (1, False),
    NotificationKind.ENTRIES.value: (3, False),
}


def test_notifications_of_someone_who_moves_wait_and_arrive_once(
    services: Services,
    other: Services,
    cell_db: Database[Any],
    ann: Actor,
    bob: Actor,
    cleo: Actor,
    share: int,
    people: People,
) -> None:
    people.blog([ann, cleo], name="news")
    [feed] = {one.feed_id for one in services.mappers.subscriptions.find_by_user(cleo.user_id)}
    for who in (ann, cleo):
        services.subscriptions.update(who, feed, notify=True)
    home = services.store.database
    waiting = len(ALL) + 1  # two comments

    def act(_: Place, point: str) -> None:
        if point != "drained":
            return
        # She is in both cells now, and counts once.
        assert sorted(services.mappers.subscriptions.find_readers([feed])[feed]) == [
            ann.user_id,
            cleo.user_id,
        ]
        say_it_all(services, ann, bob, share)
        services.notifier.notify_new_entries({feed: 3})
        assert find_rows(home, ann.user_id) == {}, "her data can't be written"
        # Others don't wait for her.
        assert find_rows(home, cleo.user_id).keys() == {"mention", "entries"}
        assert home["outbox"].count_documents({"user_id": ann.user_id}) == waiting
        assert services.notifier.deliver_waiting() == 0
        assert home["outbox"].count_documents({"user_id": ann.user_id}) == waiting

    services.mover._at = act
    services.mover.start(ann.user_id, CELL)
    assert services.mover.run(ann.user_id, clock.now()).state == "moved"
    # A relay dies after it has delivered them, and another one delivers them at the same time.
    now = clock.now()
    for event in other.gateways.notifications.list_waiting(now):
        assert other.gateways.notifications.deliver_event(event, now)
    assert services.notifier.deliver_waiting() == waiting
    assert services.notifier.deliver_waiting() == 0
    assert find_rows(cell_db, ann.user_id) == ALL
    assert find_rows(home, ann.user_id) == {}
    assert home["outbox"].count_documents({"kind": "notification"}) == 0
    assert services.notifications.count_unread(ann) == len(ALL)


def test_what_waits_is_dropped_once_nobody_may_see_it(
    services: Services, cell_db: Database[Any], ann: Actor, bob: Actor, share: int
) -> None:
    moving = begin_to_move(services, ann.user_id)
    services.discussion.set_liked(bob, share)
    services.following.follow(bob, "ann")
    assert services.cells.places.update(moving, cell=CELL, state=PlaceState.NORMAL, to="") is not None
    services.cells.forget_places()
    services.sharing.remove_share(ann, share)
    assert services.notifier.deliver_waiting() == 2
    assert find_rows(cell_db, ann.user_id).keys() == {"follower"}


def test_notifications_wait_for_a_cell_that_is_down(
    services: Services,
    cell_db: Database[Any],
    second_cell: SecondCell,
    people: People,
    ann: Actor,
    bob: Actor,
) -> None:
    move(services, ann.user_id)
    people.open(ann)
    second_cell.kill()
    try:
        services.following.follow(bob, "ann")
        services.notifier.notify_import_finished(ann.user_id, 3)
    finally:
        second_cell.start()
    wait_until(lambda: services.gateways.notifications.count_unread(ann.user_id) == 0)
    assert services.store.database["outbox"].count_documents({"user_id": ann.user_id}) == 2
    later = clock.now() + dt.timedelta(minutes=1)
    events = services.gateways.notifications.list_waiting(later)
    assert all(services.gateways.notifications.deliver_event(event, later) for event in events)
    assert find_rows(cell_db, ann.user_id) == {"follower": (1, False), "import": (1, False)}


# -- numbers


@pytest.mark.parametrize("what", ["readers", "keepers"])
def test_a_relay_that_counted_earlier_does_not_set_an_old_number(
    services: Services,
    other: Services,
    cell_db: Database[Any],
    ann: Actor,
    world: World,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Someone changes their mind between the count of a relay and its write, and another relay is faster."""
    feed = world.feed()
    world.publish(feed, world.minutes(1))
    (entry,) = services.store.database["entries"].find({"feed_id": feed})
    move(services, ann.user_id)
    url = services.gateways.feeds.get(feed).url
    services.subscriptions.subscribe(ann, url)
    while services.gateways.outbox.settle_rows(clock.now()):
        pass
    if what == "readers":
        services.subscriptions.unsubscribe(ann, feed)
    else:
        services.reading.set_starred(ann, entry["_id"], True)
    original, others = getattr(OutboxMapper, f"count_{what}"), []

    def count(self: OutboxMapper, cell: str, *args: Any) -> int:
        found: int = original(self, cell, *args)
        if cell == CELL and not others:
            others.append(cell)
            if what == "readers":
                services.subscriptions.subscribe(ann, url)
            else:
                services.reading.set_starred(ann, entry["_id"], False)
            while other.gateways.outbox.settle_rows(clock.now()):
                pass
        return found

    monkeypatch.setattr(OutboxMapper, f"count_{what}", count)
    while services.gateways.outbox.settle_rows(clock.now()):
        pass
    assert others
    assert cell_db["outbox"].count_documents({}) == 0
    assert services.gateways.feeds.get(feed).subscribers == 1
    (entry,) = services.store.database["entries"].find({"feed_id": feed})
    assert entry.get("stars", 0) == 0


def test_retention_spares_what_someone_in_a_cell_has_just_starred(
    services: Services, cell_db: Database[Any], second_cell: SecondCell, ann: Actor, world: World
) -> None:
    """However long the updater has been away, and whether the cell is responding or not."""
    feed = world.feed()
    world.publish(feed, world.minutes(*range(5)))
    table = services.store.database["entries"]
    entries = [doc["_id"] for doc in table.find({"feed_id": feed}).sort("seq")]
    move(services, ann.user_id)
    services.subscriptions.subscribe(ann, services.gateways.feeds.get(feed).url)
    services.reading.set_starred(ann, entries[0], True)
    services.reading.set_starred(ann, entries[1], True)
    services.reading.set_starred(ann, entries[1], False)
    g, m = services.gateways, services.mappers
    keep_two = RetentionGateway(m.feeds, m.entries, m.outbox, keep=2, keep_bytes=1 << 30)
    second_cell.kill()
    try:
        assert keep_two.apply_retention(feed) == 0
    finally:
        second_cell.start()
    wait_until(lambda: m.outbox.find_unsettled_entries(feed) == set(entries[:2]))
    assert keep_two.apply_retention(feed) == 1
    assert table.count_documents({"_id": {"$in": entries[:2]}}) == 2
    while g.outbox.settle_rows(clock.now()):
        pass
    assert keep_two.apply_retention(feed) == 1
    assert [doc["_id"] for doc in table.find({"feed_id": feed}).sort("seq")] == [entries[0], *entries[3:]]


def test_two_relays_at_once_lose_and_double_nothing(
    services: Services, other: Services, cell_db: Database[Any], ann: Actor, bob: Actor, world: World
) -> None:
    feed = world.feed()
    world.publish(feed, world.minutes(*range(3)))
    entries = [doc["_id"] for doc in services.store.database["entries"].find({"feed_id": feed})]
    for who in (ann, bob):
        move(services, who.user_id)
    url = services.gateways.feeds.get(feed).url
    stop, failed = threading.Event(), list[BaseException]()

    def relay(mine: Services) -> None:
        try:
            while not stop.is_set():
                mine.cell_upkeep.settle_outbox()
        except BaseException as e:  # noqa: BLE001 — the test fails with it
            failed.append(e)

    relays = [threading.Thread(target=relay, args=(one,)) for one in (services, other)]
    for thread in relays:
        thread.start()
    try:
        for number in range(12):
            who, leaves = (ann, bob)[number % 2], number % 4 == 3
            services.subscriptions.subscribe(who, url)
            services.reading.set_starred(who, entries[number % 3], number % 5 != 4)
            if leaves:
                services.subscriptions.unsubscribe(who, feed)
    finally:
        stop.set()
        for thread in relays:
            thread.join()
    assert not failed, failed
    while services.gateways.outbox.settle_rows(clock.now()):
        pass
    assert services.gateways.outbox.recount(clock.now())[1::2] == (0, 0)


def test_a_recount_of_a_single_store_counts_nobody_twice(people: People, ann: Actor) -> None:
    (entry,) = people.blog([ann])
    feeds = people.services.store.database["feeds"]
    with contextlib.closing(bootstrap.build(_without_cells(people.services.settings))) as single:
        feeds.update_many({}, {"$inc": {"subscribers": 7}})
        assert single.gateways.outbox.recount(clock.now()).wrong_feeds >= 1
        assert single.gateways.outbox.recount(clock.now()).wrong_feeds == 0
        feed = people.services.store.database["entries"].find_one({"_id": entry}, {"feed_id": 1})
        assert feed is not None
        assert single.gateways.feeds.get(feed["feed_id"]).subscribers == 1


def _without_cells(settings: Settings) -> Settings:
    return dataclasses.replace(settings, cells="")


# -- cells that are down


@pytest.fixture
def third_cell() -> Iterator[SecondCell]:
    with running_cell("c2") as cell:
        yield cell


def test_a_cell_that_is_down_does_not_keep_the_numbers_of_others_from_being_settled(
    settings: Settings,
    services: Services,
    cell_db: Database[Any],
    third_cell: SecondCell,
    ann: Actor,
    bob: Actor,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "TIMEOUT_MS", 1000)
    cells = f"{settings.cells} {third_cell.name}={third_cell.uri}"
    feed = world.feed()
    world.publish(feed, world.minutes(*range(3)))
    entries = [doc["_id"] for doc in services.store.database["entries"].find({"feed_id": feed}).sort("seq")]
    move(services, ann.user_id)
    move(services, bob.user_id, "c2")
    with contextlib.closing(bootstrap.build(dataclasses.replace(settings, cells=cells))) as three:
        three.cells.prepare()
        url = three.gateways.feeds.get(feed).url
        for who in (ann, bob):
            three.subscriptions.subscribe(who, url)
            three.reading.set_starred(who, entries[0], True)
        while three.gateways.outbox.settle_rows(clock.now()):
            pass
        assert _find_numbers(three, feed, entries[0]) == (2, 2)
        three.reading.set_starred(bob, entries[1], True)
        third_cell.kill()
        try:
            three.reading.set_starred(ann, entries[0], False)
            three.reading.set_starred(ann, entries[2], True)
            three.subscriptions.unsubscribe(ann, feed)
            # More rows than a relay settles at a time need a cell that is down: a feed that it missed.
            monkeypatch.setattr(outbox, "BATCH", 2)
            add_missed_feeds(three.store.database, [feed] * 5)
            for _ in range(5):
                three.gateways.outbox.settle_rows(clock.now())
            assert _find_numbers(three, feed, entries[0]) == (1, 1), "Bob counts as before"
            assert _find_numbers(three, feed, entries[2])[1] == 1
            assert cell_db["outbox"].count_documents({}) == 0
            assert three.store.database["outbox"].count_documents({}) == 5, "they wait for the other cell"
        finally:
            third_cell.start()
        wait_until(lambda: three.mappers.outbox.count_readers("c2", feed) == 1)
        later = clock.now() + dt.timedelta(minutes=1)
        while three.gateways.outbox.settle_rows(later):
            pass
        assert three.store.database["outbox"].count_documents({}) == 0
        assert [_find_numbers(three, feed, entry)[1] for entry in entries] == [1, 1, 1]
        assert three.gateways.outbox.recount(clock.now())[1::2] == (0, 0)


def _find_numbers(services: Services, feed_id: int, entry_id: int) -> tuple[int, int]:
    entry = services.store.database["entries"].find_one({"_id": entry_id})
    assert entry is not None
    return services.gateways.feeds.get(feed_id).subscribers, entry.get("stars", 0)


def test_a_row_that_cannot_be_settled_does_not_stop_the_others(
    services: Services, cell_db: Database[Any], ann: Actor, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a merge with a feed that is being deleted."""
    feeds = [world.feed(), world.feed()]
    move(services, ann.user_id)
    for feed in feeds:
        services.subscriptions.subscribe(ann, services.gateways.feeds.get(feed).url)
    original = OutboxMapper.count_readers

    def count(self: OutboxMapper, cell: str, feed_id: int, *args: Any) -> int:
        if feed_id == feeds[0] and cell == CELL:
            raise NotFoundError
        return original(self, cell, feed_id, *args)

    with monkeypatch.context() as failing:
        failing.setattr(OutboxMapper, "count_readers", count)
        failing.setattr(outbox, "BATCH", 1)
        for _ in range(2):
            services.gateways.outbox.settle_rows(clock.now())
    assert [services.gateways.feeds.get(feed).subscribers for feed in feeds] == [0, 1]
    services.gateways.outbox.settle_rows(clock.now() + outbox.RETRY)
    assert [services.gateways.feeds.get(feed).subscribers for feed in feeds] == [1, 1]
