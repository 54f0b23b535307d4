"""Feeds that nobody reads are deleted with their entries, unless someone needs one of them."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import ConflictError, StoreError
from app.feeds.opml import opml
from app.gateways.feeds import orphans as gateway
from app.models.accounts.actor import Actor, Role
from app.models.imports.opml import Outline
from app.models.jobs.jobs import Task
from app.models.operations.check_result import Severity
from app.models.operations.feed_list import FeedFilter, FeedQuery
from app.monitoring import health
from tests.feeds.test_pull import rss
from tests.imports.test_imports import Pulling
from tests.imports.test_imports import run as run_import
from tests.sharing.conftest import People
from tests.support.database import NOW, World

DAY = dt.timedelta(days=1)
ADDRESS = "https://old.example.org/feed"
ADMIN = Actor(8, role=Role.ADMIN)


@pytest.fixture
def time() -> Iterator[list[dt.datetime]]:
    """The time is its only item."""
    now = [NOW]
    with clock.set_source(lambda: now[0]):
        yield now


@pytest.fixture
def left(world: World, alice: Actor, time: list[dt.datetime]) -> int:
    """A feed with five entries that its only subscriber has left."""
    feed_id = world.services.subscriptions.subscribe(alice, ADDRESS).subscription.feed_id
    world.publish(feed_id, world.minutes(*range(5)))
    world.services.subscriptions.unsubscribe(alice, feed_id)
    return feed_id


def run(services: Services, **options: Any) -> dict[str, int]:
    return services.orphans.run(seconds=60, **options)._asdict()


def find_left(db: Any, feed_id: int) -> tuple[int, int]:
    """Return how many documents of a feed and of its entries there are."""
    return db.feeds.count_documents({"_id": feed_id}), db.entries.count_documents({"feed_id": feed_id})


def test_a_feed_that_nobody_reads_is_deleted_after_some_days(
    world: World, left: int, time: list[dt.datetime], db: Any
) -> None:
    services = world.services
    other = world.feed("read")
    services.subscriptions.subscribe(Actor(9), "https://read.example.org/feed")
    assert run(services) == {"feeds": 0, "entries": 0, "waiting": 1}
    time[0] += 29 * DAY
    assert run(services) == {"feeds": 0, "entries": 0, "waiting": 1}
    time[0] += 1 * DAY
    assert run(services) == {"feeds": 1, "entries": 5, "waiting": 0}
    assert find_left(db, left) == (0, 0)
    assert db.feeds.count_documents({"_id": other}) == 1
    assert run(services) == {"feeds": 0, "entries": 0, "waiting": 0}
    assert db.orphans.count_documents({}) == 0
    removals = [r.feed_id for r in services.gateways.indexing.find_removals(10)]
    assert removals == [left], "the search index forgets it, too"


def test_the_next_subscriber_gets_a_new_feed(
    world: World, left: int, time: list[dt.datetime], alice: Actor
) -> None:
    run(world.services)
    time[0] += 31 * DAY
    run(world.services)
    again = world.services.subscriptions.subscribe(alice, ADDRESS)
    assert again.subscription.feed_id != left
    assert not again.existed


def star(world: World, alice: Actor, feed_id: int) -> None:
    world.services.subscriptions.subscribe(alice, ADDRESS)
    entry_id = world.services.store.database.entries.find_one({"feed_id": feed_id})["_id"]
    world.services.reading.set_starred(alice, entry_id, True)
    world.services.subscriptions.unsubscribe(alice, feed_id)


def tag(world: World, alice: Actor, feed_id: int) -> None:
    world.services.subscriptions.subscribe(alice, ADDRESS)
    entry_id = world.services.store.database.entries.find_one({"feed_id": feed_id})["_id"]
    world.services.tags.change_tags(alice, entry_id, add=["later"])
    world.services.subscriptions.unsubscribe(alice, feed_id)


def like(world: World, alice: Actor, feed_id: int) -> None:
    world.services.subscriptions.subscribe(alice, ADDRESS)
    entry_id = world.services.store.database.entries.find_one({"feed_id": feed_id})["_id"]
    world.services.discussion.set_liked(alice, entry_id)
    world.services.subscriptions.unsubscribe(alice, feed_id)


def pause(world: World, alice: Actor, feed_id: int) -> None:
    world.services.subscriptions.subscribe(alice, ADDRESS)
    world.services.subscriptions.set_paused(alice, feed_id, True)


def share(world: World, alice: Actor, feed_id: int) -> None:
    store = world.services.store.database
    store.shares.insert_one({"_id": 1, "of": 1, "of_feed": feed_id, "feed_id": 2, "user_id": 3, "live": True})


def ask_hub(world: World, alice: Actor, feed_id: int) -> None:
    rows = world.services.store.database.websubs
    rows.insert_one({"_id": 1, "feed_id": feed_id, "current": True, "topic": "t", "token": "t"})


@pytest.mark.parametrize("need", [star, tag, like, pause, share, ask_hub])
def test_a_feed_that_someone_needs_stays(
    world: World,
    left: int,
    time: list[dt.datetime],
    db: Any,
    alice: Actor,
    need: Callable[[World, Actor, int], None],
) -> None:
    need(world, alice, left)
    for _ in range(4):
        assert run(world.services)["feeds"] == 0
        time[0] += 31 * DAY
    assert find_left(db, left) == (1, 5)


def test_likes_of_entries_that_are_gone_keep_no_feed(
    world: World, left: int, time: list[dt.datetime], db: Any, alice: Actor
) -> None:
    like(world, alice, left)
    liked = db.marks.find_one()["entry_id"]
    db.entries.delete_one({"_id": liked})  # as retention does
    time[0] += 31 * DAY
    run(world.services)
    time[0] += 31 * DAY
    assert run(world.services)["feeds"] == 1


def test_a_feed_is_deleted_after_those_that_were_merged_into_it(
    world: World, left: int, time: list[dt.datetime], db: Any
) -> None:
    """Until then, subscribers at their addresses are led to it."""
    other = world.feed("other")
    into = world.feeds.move(other, ADDRESS)
    (merged,) = {left, other} - {into}
    assert db.feeds.find_one({"_id": merged})["merged_into"] == into
    for _ in range(3):
        time[0] += 31 * DAY
        run(world.services, limit=1)
        assert db.feeds.count_documents({"_id": into}) or not db.feeds.count_documents({"_id": merged})
    time[0] += 31 * DAY
    run(world.services)
    assert db.feeds.count_documents({}) == 0


def test_a_feed_waits_anew_after_each_subscriber(
    world: World, left: int, time: list[dt.datetime], db: Any, alice: Actor
) -> None:
    """Also after one who had paused it: an undo must find it."""
    services = world.services
    run(services)
    time[0] += 29 * DAY
    services.subscriptions.subscribe(alice, ADDRESS)
    services.subscriptions.set_paused(alice, left, True)
    run(services)
    time[0] += 31 * DAY
    undo = services.subscriptions.unsubscribe(alice, left)
    assert run(services)["feeds"] == 0
    assert services.subscriptions.restore(alice, undo)
    assert find_left(db, left) == (1, 5)


def test_an_undo_brings_a_share_of_a_feed_without_readers_back(
    world: World, left: int, time: list[dt.datetime], db: Any
) -> None:
    services = world.services
    ann = People(services).join("ann")
    services.subscriptions.subscribe(ann, ADDRESS)
    entry_id = db.entries.find_one({"feed_id": left})["_id"]
    services.sharing.share(ann, entry_id)
    services.subscriptions.unsubscribe(ann, left)
    run(services)
    time[0] += 30 * DAY - dt.timedelta(hours=1)
    undo = services.sharing.unshare(ann, entry_id)
    assert undo
    time[0] += dt.timedelta(hours=2)
    assert run(services)["feeds"] == 0
    assert services.sharing.restore_share(ann, undo)
    assert find_left(db, left) == (1, 5)


def test_nothing_is_deleted_when_it_is_turned_off_or_while_an_undo_is_possible(
    world: World, left: int, time: list[dt.datetime], db: Any
) -> None:
    settings = world.services.settings
    for changes, due in (({"orphan_days": 0}, 0), ({"orphan_days": 1, "undo_ttl": 5 * 86400}, 1)):
        with contextlib.closing(bootstrap.build(dataclasses.replace(settings, **changes))) as services:
            assert len(services.orphans.find_due_jobs(time[0])) == due
            run(services)
            time[0] += 4 * DAY
            assert run(services)["feeds"] == 0
            time[0] += 2 * DAY
            assert run(services)["feeds"] == due


def test_a_claimed_feed_is_left_to_its_pull(
    world: World, left: int, time: list[dt.datetime], db: Any
) -> None:
    run(world.services)
    time[0] += 31 * DAY
    assert world.feeds.claim([left], "token", time[0], 60)
    assert run(world.services)["feeds"] == 0
    time[0] += 62 * DAY
    assert run(world.services)["feeds"] == 1


@pytest.mark.parametrize("leaves", [False, True])
def test_someone_who_subscribes_meanwhile_keeps_the_feed(
    world: World,
    left: int,
    time: list[dt.datetime],
    db: Any,
    alice: Actor,
    monkeypatch: pytest.MonkeyPatch,
    leaves: bool,
) -> None:
    """After the search for references, too; and who leaves again at once may undo that."""
    subscriptions = world.services.subscriptions
    run(world.services)
    time[0] += 31 * DAY
    mapper = world.services.gateways.orphans._orphans
    remove, undo = mapper.remove, list[str]()

    def subscribe_first(*args: Any) -> bool:
        monkeypatch.setattr(mapper, "remove", remove)
        subscriptions.subscribe(alice, ADDRESS)
        if leaves:
            undo.append(subscriptions.unsubscribe(alice, left))
        return remove(*args)

    monkeypatch.setattr(mapper, "remove", subscribe_first)
    assert run(world.services)["feeds"] == 0
    if leaves:
        subscriptions.restore(alice, undo[0])
    assert subscriptions.get(alice, left).feed_id == left
    assert find_left(db, left) == (1, 5)


def test_an_import_whose_feed_is_deleted_meanwhile_gets_a_new_one(
    world: World, left: int, time: list[dt.datetime], db: Any, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(world.services)
    time[0] += 31 * DAY
    subscriptions = world.services.gateways.subscriptions
    add = subscriptions.add_many

    def delete_first(*args: Any) -> Any:
        monkeypatch.setattr(subscriptions, "add_many", add)
        assert run(world.services)["feeds"] == 1
        return add(*args)

    monkeypatch.setattr(subscriptions, "add_many", delete_first)
    services = world.services
    one = services.imports.preview(alice, opml.write("Mine", [Outline(ADDRESS, "Old")]), "mine.opml")
    services.imports.start(alice, one.id)
    counts = run_import(services, services.imports.get(alice, one.id), Pulling(services, {ADDRESS: rss(1)}))
    assert counts["added"] == 1
    (feed_id,) = world.services.gateways.subscriptions.find_feed_ids(alice.user_id)
    assert feed_id != left


def test_no_feed_is_merged_into_one_that_was_deleted_meanwhile(
    world: World, left: int, time: list[dt.datetime]
) -> None:
    target = world.feeds.get(left)
    run(world.services)
    time[0] += 31 * DAY
    run(world.services)
    source = world.feeds.get(world.feed("moved"))
    with pytest.raises(ConflictError):
        world.services.gateways.feeds._merger.merge(source, target)
    assert world.feeds.get(source.id).merged_into is None


def test_someone_whose_feed_is_deleted_meanwhile_gets_a_new_one(
    world: World, left: int, time: list[dt.datetime], db: Any, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(world.services)
    time[0] += 31 * DAY
    subscriptions = world.services.gateways.subscriptions
    add = subscriptions.add

    def delete_first(*args: Any) -> Any:
        monkeypatch.setattr(subscriptions, "add", add)
        assert run(world.services)["feeds"] == 1
        return add(*args)

    monkeypatch.setattr(subscriptions, "add", delete_first)
    found = world.services.subscriptions.subscribe(alice, ADDRESS).subscription
    assert found.feed_id != left
    assert db.feeds.find_one({"_id": found.feed_id})["subscribers"] == 1
    assert find_left(db, left) == (0, 0)


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("step", range(8))
def test_a_run_that_is_killed_anywhere_is_completed_by_the_next(
    world: World, left: int, time: list[dt.datetime], db: Any, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Killed before and after each statement of the mapper."""
    monkeypatch.setattr(gateway, "BATCH", 2)
    run(world.services)
    time[0] += 31 * DAY
    mapper, count = world.services.gateways.orphans._orphans, iter(range(100))

    def kill(name: str) -> Callable[..., Any]:
        real = getattr(mapper, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if next(count) == step:
                raise KilledError
            found = real(*args, **kwargs)
            if next(count) == step:
                raise KilledError
            return found

        return call

    with monkeypatch.context() as patch, contextlib.suppress(KilledError):
        for name in ("remove", "delete_entries", "forget"):
            patch.setattr(mapper, name, kill(name))
        run(world.services)
    feeds, entries = find_left(db, left)
    assert feeds or db.orphans.count_documents({}) or not entries, "what is left is known"
    assert not feeds or entries == 5, "a feed that is there has its entries"
    time[0] += 31 * DAY
    run(world.services)
    assert find_left(db, left) == (0, 0)
    assert db.orphans.count_documents({}) == 0


def test_runs_are_bounded_and_go_on(
    world: World, time: list[dt.datetime], db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds = [world.feed() for _ in range(5)]
    for marked in (2, 4, 5):
        assert run(world.services, limit=2)["waiting"] == 5
        assert db.feeds.count_documents({"orphan_at": NOW}) == marked
    time[0] += 31 * DAY
    assert world.services.orphans.run(seconds=0).feeds == 0
    assert run(world.services, is_stopping=lambda: True)["feeds"] == 0
    assert [run(world.services, limit=2)["feeds"] for _ in range(4)] == [2, 2, 1, 0]
    assert db.feeds.count_documents({"_id": {"$in": feeds}}) == 0


def test_an_entry_that_is_starred_meanwhile_stays(
    world: World, left: int, time: list[dt.datetime], db: Any
) -> None:
    run(world.services)
    time[0] += 31 * DAY
    entry_id = db.entries.find_one({"feed_id": left})["_id"]
    assert world.services.gateways.orphans._remove(left, time[0] - DAY, time[0])
    db.entries.update_one({"_id": entry_id}, {"$inc": {"stars": 1}})
    run(world.services)
    assert [d["_id"] for d in db.entries.find({"feed_id": left})] == [entry_id]


def test_a_run_is_due_once_an_hour_if_there_is_something_to_do(world: World, time: list[dt.datetime]) -> None:
    services = world.services

    def find_jobs() -> int:
        time[0] += dt.timedelta(minutes=60)
        return len(services.orphans.find_due_jobs(time[0]))

    assert find_jobs() == 0
    world.feed()
    (job,) = services.orphans.find_due_jobs(time[0] + dt.timedelta(minutes=60))
    assert (job.task, job.args) == (Task.COLLECT, {})
    assert services.orphans.find_due_jobs(time[0] + dt.timedelta(minutes=119)) == []
    time[0] += dt.timedelta(minutes=60)
    assert find_jobs() == 1
    run(services)
    assert find_jobs() == 0, "it waits"
    time[0] += 31 * DAY
    assert find_jobs() == 1
    run(services)
    assert find_jobs() == 0


def test_a_silent_store_ends_a_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> int:
        raise StoreError

    monkeypatch.setattr(world.services.gateways.orphans._orphans, "mark_new", refuse)
    with pytest.raises(StoreError):
        run(world.services)


def test_administrators_see_how_many_feeds_nobody_subscribes_to(
    world: World, left: int, alice: Actor
) -> None:
    services = world.services
    services.subscriptions.subscribe(alice, "https://read.example.org/feed")
    found = services.feed_lists.count_feeds(ADMIN)
    assert (found.total, found.orphaned) == (2, 1)
    listed = services.feed_lists.list_feeds(ADMIN, FeedQuery(FeedFilter.ORPHANED)).rows
    assert [(row.id, row.subscribers) for row in listed] == [(left, 0)]


@pytest.mark.parametrize(
    ("days", "then"), [(30, "Eventr deletes each after 30 days"), (0, "Eventr keeps them")]
)
def test_doctor_says_how_many_feeds_nobody_subscribes_to(
    world: World, left: int, days: int, then: str
) -> None:
    settings = dataclasses.replace(world.services.settings, orphan_days=days)
    (found,) = health.check_orphans(settings)
    assert found.word is Severity.OK
    assert found.text.startswith(f"1 feed has no subscribers. {then}")
    world.services.subscriptions.subscribe(Actor(9), ADDRESS)
    assert list(health.check_orphans(settings)) == []
