"""Stories whose feeds, entries and readers change: merges, retention, addresses, accounts that end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.reading.entry import NewEntry
from app.models.reading.stream import Show, StreamRef
from tests.reading.test_search import index
from tests.reading.test_stories import PAGE, get_titles, load, write
from tests.support.database import World
from tests.support.reader import add_user

Doc = dict[str, Any]


def subscribe(world: World, actor: Actor, *names: str) -> None:
    for name in names:
        world.services.subscriptions.subscribe(actor, f"https://{name}.example.org/feed", title=name.upper())


def bring(world: World, name: str, entries: Sequence[NewEntry]) -> None:
    world.store(world.feed(name), entries)
    index(world)


@pytest.fixture
def alice(services: Services) -> Actor:
    return add_user(services, "alice")


@pytest.fixture
def reader(world: World, alice: Actor) -> World:
    """Alice reads A and B, which have the same story."""
    subscribe(world, alice, "a", "b")
    bring(world, "a", [write(1, PAGE, title="Story in A", age=30), write(2, title="Only A", age=20)])
    bring(world, "b", [write(3, PAGE, title="Story in B", age=10)])
    return world


def describe(world: World, actor: Actor, **options: Any) -> list[tuple[str, list[str]]]:
    """Return the title of each row, and the feeds of its copies."""
    return [(row.title, [copy.feed_title for copy in row.copies]) for row in load(world, actor, **options)]


def test_a_feed_that_moves_into_another_takes_its_copies_along(reader: World, alice: Actor) -> None:
    new = "https://new.example.org/feed"
    bob = add_user(reader.services, "bob")
    reader.services.subscriptions.subscribe(bob, new)
    reader.store(reader.feed("new"), [write(1, PAGE, title="Story in A", age=30)])
    assert reader.feeds.move(reader.feed("a"), new) == reader.feed("new")
    index(reader)
    assert describe(reader, alice)[0] == ("Story in B", ["A"])
    (story,) = [row for row in load(reader, alice) if row.copies]
    reader.services.reading.mark(alice, [story.id], True)
    assert "Story in B" not in get_titles(load(reader, alice, show=Show.UNREAD))
    assert "Story in A" not in get_titles(load(reader, alice, f"feed/{reader.feed('new')}", show=Show.UNREAD))


def test_a_changed_address_keeps_stories_and_what_was_read(reader: World, alice: Actor) -> None:
    bob = add_user(reader.services, "bob")
    subscribe(reader, bob, "other")
    bring(reader, "other", [write(1, PAGE, title="Story elsewhere", age=30)])
    reader.services.reading.mark_all(alice, StreamRef.parse(f"feed/{reader.feed('a')}"))
    done = reader.services.subscriptions.change_address(
        alice, reader.feed("a"), "https://other.example.org/feed"
    )
    assert done.feed_id == reader.feed("other")
    assert describe(reader, alice)[0] == ("Story in B", ["A"])
    assert not get_titles(load(reader, alice, show=Show.UNREAD))


def test_retention_of_a_copy_leaves_the_other_as_it_is(
    reader: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert describe(reader, alice)[0] == ("Story in B", ["A"])
    monkeypatch.setattr(reader.services.gateways.retention, "_keep", 1)
    more = [write(4, title="Newer in A", age=1)]
    bring(reader, "a", more)
    reader.services.gateways.retention.apply_retention(reader.feed("a"))
    rows = describe(reader, alice)
    assert ("Story in B", []) in rows
    assert "Story in A" not in [title for title, _ in rows]
    # A new copy joins what is left, and the kept story still counts as read.
    (story,) = [row for row in load(reader, alice) if row.title == "Story in B"]
    reader.services.reading.mark(alice, [story.id], True)
    subscribe(reader, alice, "c")
    bring(reader, "c", [write(5, PAGE, title="Story in C", age=5)])
    assert "Story in C" not in get_titles(load(reader, alice, show=Show.UNREAD))
    assert ("Story in C", ["B"]) in describe(reader, alice)


def test_an_erased_account_leaves_stories_to_the_others(
    reader: World, alice: Actor, db: Database[Doc]
) -> None:
    bob = add_user(reader.services, "bob")
    subscribe(reader, bob, "a", "b")
    hidden = next(row.id for row in load(reader, alice) if row.copies)
    done = reader.services.reading.mark_all(alice, StreamRef.parse(f"feed/{reader.feed('a')}"))
    reader.services.hiding.hide_entry(alice, hidden)
    assert done.count == 3
    assert db["undos"].count_documents({"user_id": alice.user_id}) > 1
    stories = list(db["twins"].find())
    reader.services.mappers.erasure.erase(alice.user_id, clock.now())
    assert db["undos"].count_documents({"user_id": alice.user_id}) == 0
    assert list(db["twins"].find()) == stories, "stories hold nothing of readers"
    assert describe(reader, bob)[0] == ("Story in B", ["A"])
