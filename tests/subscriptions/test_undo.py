"""Unsubscribing and deleting a folder can be taken back for a day, with all that was there."""

from __future__ import annotations

import datetime as dt

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import ExistsError, InvalidError, NotFoundError
from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamQuery, StreamRef
from tests.support.database import World, new_entry

ALL = StreamRef.parse("all")


@pytest.fixture
def read(world: World, alice: Actor) -> int:
    """A feed in a folder, under a name of her own, of whose 90 entries she has read some and kept one."""
    feed_id = world.feed("news")
    folder = world.services.folders.create(alice, "Folder")
    subscriptions, reading = world.services.subscriptions, world.services.reading
    subscriptions.subscribe(alice, "https://news.example.org/feed", title="Mine", folder_id=folder.id)
    world.publish(feed_id, world.minutes(*range(90)))
    ids = [row.id for row in reading.load_page(alice, StreamQuery(ALL, limit=90)).rows]
    reading.mark_all(alice, ALL)
    reading.mark(alice, ids[3:5], False)
    world.publish(feed_id, world.minutes(0, 0, 0))
    reading.mark(alice, [reading.load_page(alice, StreamQuery(ALL, limit=1)).rows[0].id], True)
    return feed_id


def seen(services: Services, who: Actor) -> object:
    page = services.reading.load_page(who, StreamQuery(ALL, limit=200))
    return services.reading.get_tree(who), [(row.id, row.read) for row in page.rows]


def test_an_unsubscribe_taken_back_leaves_no_trace(world: World, alice: Actor, read: int) -> None:
    services = world.services
    before, was = seen(services, alice), services.subscriptions.get(alice, read)
    token = services.subscriptions.unsubscribe(alice, read)
    assert services.gateways.feeds.get(read).subscribers == 0
    again = services.subscriptions.restore(alice, token)
    assert again
    # A new document: what its own writes count by begins anew.
    assert again._replace(id=was.id, rev=was.rev, mass=was.mass) == was
    assert seen(services, alice) == before
    assert services.gateways.feeds.get(read).subscribers == 1
    with pytest.raises(NotFoundError):
        services.subscriptions.restore(alice, token)


def test_what_came_in_between_is_unread(world: World, alice: Actor, read: int) -> None:
    services = world.services
    unread = services.reading.get_tree(alice).unread
    token = services.subscriptions.unsubscribe(alice, read)
    world.publish(read, world.minutes(0, 0))
    services.subscriptions.restore(alice, token)
    assert services.reading.get_tree(alice).unread == unread + 2


def test_who_subscribed_again_keeps_that(world: World, alice: Actor, read: int) -> None:
    services = world.services
    token = services.subscriptions.unsubscribe(alice, read)
    services.subscriptions.subscribe(alice, "https://news.example.org/feed")
    with pytest.raises(ExistsError):
        services.subscriptions.restore(alice, token)
    assert services.subscriptions.get(alice, read).title == ""
    assert services.gateways.feeds.get(read).subscribers == 1


def test_a_folder_that_went_too_is_left_out(world: World, alice: Actor, read: int) -> None:
    services = world.services
    token = services.subscriptions.unsubscribe(alice, read)
    (folder,) = services.folders.list_folders(alice)
    services.folders.delete(alice, folder.id)
    again = services.subscriptions.restore(alice, token)
    assert again
    assert again.folder_ids == ()


def test_a_feed_whose_first_pull_came_in_between_begins_where_reading_begins(
    world: World, alice: Actor, bob: Actor
) -> None:
    services, feed_id = world.services, world.feed("new")
    for who in (alice, bob):
        services.subscriptions.subscribe(who, "https://new.example.org/feed")
    token = services.subscriptions.unsubscribe(alice, feed_id)
    now = clock.now()
    world.store(feed_id, [new_entry(n, now) for n in range(500)], now=now)
    services.subscriptions.restore(alice, token)
    assert services.reading.get_tree(alice).unread == services.reading.get_tree(bob).unread == 100


@pytest.mark.parametrize("many", [False, True])
def test_a_feed_that_was_merged_in_between_comes_back_as_the_other(
    world: World, alice: Actor, bob: Actor, *, many: bool
) -> None:
    services, old, new = world.services, world.feed("old"), world.feed("new")
    services.subscriptions.subscribe(bob, "https://new.example.org/feed")
    entries = [new_entry(n, clock.now()) for n in range(5)]
    services.subscriptions.subscribe(alice, "https://old.example.org/feed", title="Mine")
    for feed_id in (old, new):
        world.store(feed_id, entries[:4], now=clock.now())
    rows = services.reading.load_page(alice, StreamQuery(ALL)).rows
    services.reading.mark(alice, [row.id for row in rows[:2]], True)
    unread = {row.title for row in rows[2:]}
    if many:
        token, _ = services.bulk_edit.unsubscribe(alice, [old])
    else:
        token = services.subscriptions.unsubscribe(alice, old)
    world.feeds.move(old, "https://new.example.org/feed")
    world.store(new, entries[4:], now=clock.now())
    (services.bulk_edit if many else services.subscriptions).restore(alice, token)
    assert services.subscriptions.get(alice, new).title == "Mine"
    found = services.reading.load_page(alice, StreamQuery(ALL)).rows
    assert {row.title for row in found if not row.read} == {*unread, "Entry 4"}
    assert [world.feeds.get(f).subscribers for f in (old, new)] == [0, 2]


def test_after_a_day_it_is_too_late(world: World, alice: Actor, read: int) -> None:
    services = world.services
    (folder,) = services.folders.list_folders(alice)
    tokens = services.subscriptions.unsubscribe(alice, read), services.folders.delete(alice, folder.id)
    later = clock.now() + dt.timedelta(hours=25)
    with clock.set_source(lambda: later):
        with pytest.raises(NotFoundError):
            services.subscriptions.restore(alice, tokens[0])
        with pytest.raises(NotFoundError):
            services.folders.restore(alice, tokens[1])


def test_a_deleted_folder_comes_back_with_what_was_in_it(world: World, alice: Actor, read: int) -> None:
    services = world.services
    (folder,) = services.folders.list_folders(alice)
    top = services.folders.create(alice, "Top")
    services.gateways.folders._folders.update(alice.user_id, folder.id, {"parent": top.id})
    inner = services.folders.create(alice, "Inner", parent=folder.id)
    before = services.folders.list_folders(alice), seen(services, alice)
    token = services.folders.delete(alice, folder.id)
    assert services.subscriptions.get(alice, read).folder_ids == ()
    assert services.folders.restore(alice, token).id == folder.id
    assert (services.folders.list_folders(alice), seen(services, alice)) == before
    assert {f.id: f.parent for f in services.folders.list_folders(alice)}[inner.id] == folder.id
    with pytest.raises(NotFoundError):
        services.folders.restore(alice, token)


def test_a_new_folder_of_the_same_name_takes_the_old_one_s_feeds(
    world: World, alice: Actor, read: int
) -> None:
    services = world.services
    (folder,) = services.folders.list_folders(alice)
    token = services.folders.delete(alice, folder.id)
    new = services.folders.create(alice, "Folder")
    assert services.folders.restore(alice, token) == new
    assert services.subscriptions.get(alice, read).folder_ids == (new.id,)
    assert services.folders.list_folders(alice) == [new]


def test_a_folder_comes_back_beside_its_namesake_that_lay_in_it(services: Services, alice: Actor) -> None:
    folders = services.folders
    outer = folders.create(alice, "News")
    inner, other = folders.create(alice, "News", parent=outer.id), folders.create(alice, "Other")
    token = folders.delete(alice, outer.id)
    assert [(f.id, f.parent) for f in folders.list_folders(alice)] == [(inner.id, None), (other.id, None)]
    assert folders.restore(alice, token).id == outer.id
    folders.move_folder(alice, outer.id, parent=other.id)
    parents = {f.id: f.parent for f in folders.list_folders(alice)}
    assert parents == {inner.id: outer.id, outer.id: other.id, other.id: None}


def test_a_folder_comes_back_within_the_limits_of_new_ones(
    services: Services, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.gateways.subscriptions.folders.MOST", 3)
    folders = services.folders
    lost, deep = folders.create(alice, "Lost"), folders.create(alice, "Deep")
    token = folders.delete(alice, lost.id)
    for name in ("A", "B"):
        folders.create(alice, name)
    with pytest.raises(InvalidError, match="3 folders"):
        folders.restore(alice, token)
    folders.delete(alice, deep.id)
    assert folders.restore(alice, token) == lost


def test_tokens_of_one_kind_are_none_of_the_other(world: World, alice: Actor, read: int) -> None:
    services = world.services
    (folder,) = services.folders.list_folders(alice)
    with pytest.raises(NotFoundError):
        services.subscriptions.restore(alice, services.folders.delete(alice, folder.id))
    with pytest.raises(NotFoundError):
        services.folders.restore(alice, services.subscriptions.unsubscribe(alice, read))
