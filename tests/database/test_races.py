"""Things that come between: a first pull and a subscribe, merges there and back, odd texts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pymongo.database import Database
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

from app import clock
from app.bootstrap.services import Services
from app.errors import NotFoundError, StoreError
from app.feeds.opml import opml
from app.mappers.mongo import ids, store
from app.models.accounts.actor import Actor
from app.models.accounts.user import NewUser
from app.models.imports.opml import Outline
from app.models.reading.stream import StreamKind, StreamQuery, StreamRef
from app.models.subscriptions.subscription import Subscription
from tests.support.database import NOW, World, new_entry


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)


def test_who_subscribes_while_the_first_pull_ends_gets_a_hundred_unread(world: World, alice: Actor) -> None:
    feed_id = world.feed()
    before = world.feeds.get(feed_id)
    world.publish(feed_id, world.minutes(*range(300)))

    wanted = Subscription(0, alice.user_id, feed_id)
    world.services.gateways.subscriptions.add(wanted, before, NOW)

    assert world.services.reading.get_tree(alice).unread == 100


def test_a_first_pull_is_another_revision_of_who_waits_for_it(world: World, alice: Actor) -> None:
    """What was worked out of the state before it, and tags of answers, must not hold any more."""
    feed_id = world.feed("waited")
    services = world.services
    services.subscriptions.subscribe(alice, "https://waited.example.org/feed")
    before = services.subscriptions.get(alice, feed_id)
    world.publish(feed_id, world.minutes(*range(300)))
    after = services.subscriptions.get(alice, feed_id)
    assert after.state != before.state
    assert after.rev > before.rev


def test_a_feed_that_moves_there_and_back_keeps_its_readers(world: World, alice: Actor, bob: Actor) -> None:
    old, new = world.feed("old"), world.feed("new")
    subscribe = world.services.subscriptions.subscribe
    assert subscribe(alice, "https://old.example.org/feed").subscription.feed_id == old
    subscribe(bob, "https://new.example.org/feed")

    assert world.feeds.move(old, "https://new.example.org/feed") == new
    back = world.feeds.move(new, "https://old.example.org/feed")

    assert {f.feed_id for f in world.services.reading.get_tree(alice).feeds} == {back}
    found = world.feeds.find_by_url("https://old.example.org/feed")
    assert found is not None
    assert found.id == back
    assert back in {f.id for f in world.feeds.find_due(NOW + dt.timedelta(days=2), 10)}


@pytest.mark.parametrize("text", ["$expires https://a.example/", "$$NOW https://b.example/"])
def test_an_address_is_never_read_as_an_expression(services: Services, alice: Actor, text: str) -> None:
    found = services.discovery.discover(alice, text, wait=0)
    assert found.address == text


def test_who_subscribes_while_a_feed_is_merged_is_taken_along_or_refused(
    world: World, alice: Actor, bob: Actor
) -> None:
    old, new = world.feed("old"), world.feed("new")
    before = world.feeds.get(old)
    world.services.subscriptions.subscribe(bob, "https://new.example.org/feed")
    world.services.subscriptions.subscribe(alice, "https://old.example.org/feed")
    assert world.feeds.move(old, "https://new.example.org/feed") == new

    # He asked for the feed's document before the merge and subscribes after it.
    with pytest.raises(NotFoundError):
        world.services.gateways.subscriptions.add(Subscription(0, 7, old), before, NOW)

    assert world.services.gateways.subscriptions.find_feed_ids(7) == []
    assert world.feeds.get(old).subscribers == 0


def test_what_readers_do_while_a_feed_is_merged_is_kept(
    world: World, alice: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, mapper = world.services, world.services.mappers.subscriptions
    old, new = world.feed("old"), world.feed("new")
    for feed_id in (old, new):
        world.store(feed_id, [new_entry(n) for n in range(3)])
    carol = Actor(7)
    for who in (alice, bob, carol):
        services.subscriptions.subscribe(who, "https://old.example.org/feed")
    services.subscriptions.subscribe(Actor(8), "https://new.example.org/feed")
    of_feed = mapper.find_by_feed

    def late(*args: Any) -> list[Subscription]:
        monkeypatch.setattr(mapper, "find_by_feed", of_feed)
        looked_up = of_feed(*args)
        services.subscriptions.unsubscribe(alice, old)
        services.reading.mark_all(bob, StreamRef(StreamKind.FEED, old))
        services.subscriptions.set_paused(carol, old, True)
        return looked_up

    # The first look finds that somebody reads the feed, the second whom to move.
    monkeypatch.setattr(
        mapper, "find_by_feed", lambda *_: monkeypatch.setattr(mapper, "find_by_feed", late) or [1]
    )
    world.feeds.move(old, "https://new.example.org/feed")
    assert services.gateways.subscriptions.find_feed_ids(alice.user_id) == []
    assert services.reading.get_tree(bob).unread == 0
    assert services.subscriptions.get(carol, new).paused
    assert world.feeds.get(new).subscribers == 2


@pytest.mark.parametrize(("hours", "errors", "due"), [(5, 0, True), (0, 0, False), (5, 3, False)])
def test_a_feed_that_rested_is_polled_at_once_for_a_new_reader(
    world: World, db: Database[dict[str, Any]], hours: int, errors: int, due: bool
) -> None:
    feed_id = world.feed()
    world.publish(feed_id, world.minutes(1))
    now = NOW + dt.timedelta(hours=hours)
    tomorrow = NOW + dt.timedelta(days=1)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"next_check_at": tomorrow, "errors": errors}})

    wanted = Subscription(0, 7, feed_id)
    world.services.gateways.subscriptions.add(wanted, world.feeds.get(feed_id), now)

    assert [f.id for f in world.feeds.find_due(now, 10)] == [feed_id] * due
    assert world.feeds.get(feed_id).read_at == now


def test_marking_all_counts_as_reading(world: World, alice: Actor) -> None:
    feed_id = world.feed("one")
    world.publish(feed_id, world.minutes(1))
    old = NOW - dt.timedelta(days=40)
    wanted = Subscription(0, alice.user_id, feed_id)
    world.services.gateways.subscriptions.add(wanted, world.feeds.get(feed_id), old)

    world.services.reading.mark_all(alice, StreamRef(StreamKind.ALL))

    assert world.feeds.get(feed_id).read_at == NOW


def test_a_mark_counts_as_reading_once_a_day(
    world: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed_id = world.feed("one")
    world.services.subscriptions.subscribe(alice, "https://one.example.org/feed")
    world.publish(feed_id, world.minutes(1))
    reading = world.services.reading
    entry = reading.load_page(alice, StreamQuery(StreamRef(StreamKind.ALL))).rows[0]
    for hours, noted in ((25, 25), (30, 25), (50, 50)):
        monkeypatch.setattr(clock, "now", lambda hours=hours: NOW + dt.timedelta(hours=hours))
        reading.mark(alice, [entry.id], True)
        assert world.feeds.get(feed_id).read_at == NOW + dt.timedelta(hours=noted)


@pytest.mark.parametrize(
    ("stream", "reads"),
    [("folder", ["load_page", "get_tree"]), ("feed", ["_load_all"]), ("all", ["_load_all"])],
)
def test_a_screen_never_shows_rows_that_its_tree_does_not_count(
    services: Services, monkeypatch: pytest.MonkeyPatch, stream: str, reads: list[str]
) -> None:
    from app.models.reading.stream import StreamQuery, StreamRef
    from tests.support.reader import SAMPLE, follow

    actor = Actor(1)
    folder = services.folders.create(actor, "Folder")
    address = f"https://feeds.example/{SAMPLE[0]}"
    feed_id = services.subscriptions.subscribe(actor, address, folder_id=folder.id).subscription.feed_id
    reading, calls = services.reading, []

    def interleaved(name: str) -> None:
        real = getattr(reading, name)

        def call(*args: object) -> object:
            found = real(*args)
            calls.append(name)
            if len(calls) == 1:
                follow(services, actor, SAMPLE[:1])  # the first pull ends after the first read
            return found

        monkeypatch.setattr(reading, name, call)

    for name in reads:
        interleaved(name)
    ref = {"folder": f"folder/{folder.id}", "feed": f"feed/{feed_id}", "all": "all"}[stream]

    tree, page = reading.load_tree_and_page(actor, StreamQuery(StreamRef.parse(ref)))

    assert calls == reads
    unread = sum(feed.unread for feed in (*tree.feeds, *tree.folders[0].feeds))
    assert len(page.rows) <= unread
    assert reading.load_page(actor, StreamQuery(StreamRef.parse(ref))).rows, "the pull brought entries"


@pytest.mark.parametrize("kind", [AutoReconnect, OperationFailure])
def test_a_transaction_that_is_never_let_through_is_a_store_that_does_not_answer(
    services: Services, monkeypatch: pytest.MonkeyPatch, kind: type[PyMongoError]
) -> None:
    """As while MongoDB is killed: the driver tries until its time is over, and raises its last error."""
    monkeypatch.setattr(store, "TRANSACTION_SECONDS", 0.3)

    def work(_: object) -> None:
        error = kind("not now")
        error._add_error_label("TransientTransactionError")
        raise error

    with pytest.raises(StoreError):
        services.store.run_in_transaction(work)


@pytest.fixture
def people(services: Services) -> tuple[Actor, Actor]:
    """Two accounts, with what takes an id at its first use done."""
    names = ("ann", "ben")
    found = [
        services.gateways.accounts.add_user(NewUser(f"{n}@example.org", n, "$argon2id$none")) for n in names
    ]
    return Actor(found[0].id), Actor(found[1].id)


def _imported(services: Services, who: Actor, entries: Sequence[int], name: str) -> object:
    found = services.imports.preview(who, opml.write(name, [Outline(f"https://{name}.example/", name)]), "")
    assert [i.title for i in services.imports.list_items(who, found.id)] == [name]
    return found.id


def _marked(services: Services, who: Actor, entries: Sequence[int], name: str) -> object:
    changes, began = services.gateways.changes, clock.now()
    changes.record_changes(who.user_id, {}, [entries[0]])
    assert entries[0] in changes.find_since(who.user_id, began)[1]
    return changes.find_last_id(who.user_id)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(
    "work",
    [
        _marked,
        _imported,
        lambda services, who, entries, name: services.folders.create(who, name).id,
        lambda services, who, entries, name: services.tags.change_tags(who, entries[0], add=[name])[-1].id,
        lambda services, who, entries, name: services.tags.save_search(who, name, name).id,
        lambda services, who, entries, name: (
            services.subscriptions.subscribe(who, f"https://{name}.example/").subscription.id
        ),
        lambda services, who, entries, name: services.sharing.publish_post(who, name, name).id,
        lambda services, who, entries, name: services.sharing.share(who, entries[len(name)]).share.id,
    ],
    ids=["change", "import", "folder", "tag", "search", "subscription", "post", "share"],
)
def test_two_processes_that_take_one_id_both_do_their_work(
    services: Services,
    world: World,
    people: tuple[Actor, Actor],
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[..., object],
    own: bool,
) -> None:
    for who in people:
        services.subscriptions.subscribe(who, "https://one.example.org/feed")
    world.publish(world.feed("one"), world.minutes(*range(5)))
    entries = [
        r.id for r in services.reading.load_page(people[0], StreamQuery(StreamRef(StreamKind.ALL))).rows
    ]
    first, second = (people[0], people[0]) if own else people
    last = ids.reserve_ids()

    done = []
    for who, name in ((first, "a"), (second, "ab")):
        monkeypatch.setattr(ids, "_last", last + 10**9)
        done.append(work(services, who, entries, name))

    assert len(set(done)) == 2
