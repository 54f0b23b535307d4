"""Orders that no index has: the shortest entries first, and what people share most."""

from __future__ import annotations

import random

import pytest

from app.bootstrap.services import Services
from app.gateways.reading import ranking
from app.models.accounts.actor import Actor
from app.models.reading.entry import EntryChange
from app.models.reading.stream import Show, Sort, StreamQuery, StreamRef
from tests.sharing.conftest import People
from tests.support.database import World, guid, new_entry

ALL, FOLLOWING, STARRED = (StreamRef.parse(name) for name in ("all", "following", "starred"))


@pytest.fixture
def people(services: Services) -> People:
    return People(services)


def list_pages(
    services: Services,
    who: Actor,
    query: StreamQuery,
    *,
    dice: random.Random | None = None,
) -> list[int]:
    """Return the ids on all pages; with ``dice``, entries of all kinds are marked in between."""
    page = services.reading.load_page(who, query)
    found = [row.id for row in page.rows]
    while page.cursor is not None:
        if dice:
            services.reading.mark(who, dice.sample(found, min(3, len(found))), dice.random() < 0.7)
        page = services.reading.load_page(
            who,
            StreamQuery(query.ref, query.sort, page.cursor, page.snapshot, query.limit, query.show),
        )
        found += [row.id for row in page.rows]
    return found


def publish_texts(world: World, who: Actor, *lengths: list[int], first: int = 1) -> list[int]:
    """Subscribe to one feed per list, with texts of these lengths, the newest first; return their ids."""
    number, feeds = first, []
    for name, some in enumerate(lengths):
        feed_id = world.feed(f"l{name}")
        world.services.subscriptions.subscribe(who, f"https://l{name}.example.org/feed")
        new = []
        for age, length in enumerate(some):
            entry = new_entry(number, world.minutes(age * 7 + name)[0])
            new.append(entry._replace(content=f"<p>{'x' * length}</p><p></p>"))
            number += 1
        world.store(feed_id, new)
        feeds.append(feed_id)
    return feeds


def expect_shortest(services: Services, *, unread: set[int] | None = None) -> list[int]:
    docs = [d for d in services.store.database["entries"].find() if unread is None or d["_id"] in unread]
    docs.sort(key=lambda d: (d["at"], d["_id"]), reverse=True)
    docs.sort(key=lambda d: d["length"])
    return [d["_id"] for d in docs]


def test_the_shortest_texts_come_first(world: World, alice: Actor) -> None:
    publish_texts(world, alice, [30, 5, 12], [7, 100, 5])
    found = list_pages(world.services, alice, StreamQuery(ALL, Sort.SHORTEST, limit=2))
    assert found == expect_shortest(world.services)
    lengths = {d["_id"]: d["length"] for d in world.services.store.database["entries"].find()}
    assert [lengths[i] for i in found] == [5, 5, 7, 12, 30, 100]
    # A changed text has another place.
    world.store(
        world.feed("l0"), [], changed=[EntryChange(guid_hash=guid(2), title="x", content="<b>" + "y" * 50)]
    )
    assert list_pages(world.services, alice, StreamQuery(ALL, Sort.SHORTEST)) == expect_shortest(
        world.services
    )
    assert expect_shortest(world.services) != found


def test_texts_from_before_lengths_were_stored_are_measured_once(world: World, alice: Actor) -> None:
    publish_texts(world, alice, [30, 5, 12], [7, 100, 5])
    entries = world.services.store.database["entries"]
    before = expect_shortest(world.services)
    entries.update_many({"seq": {"$gt": 1}}, {"$unset": {"length": ""}})
    assert list_pages(world.services, alice, StreamQuery(ALL, Sort.SHORTEST)) == before
    assert entries.count_documents({"length": None}) == 0
    assert expect_shortest(world.services) == before


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("show", list(Show))
@pytest.mark.parametrize("sort", [Sort.SHORTEST, Sort.POPULAR])
def test_pages_neither_repeat_nor_lose_rows(
    people: People,
    world: World,
    alice: Actor,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    show: Show,
    sort: Sort,
) -> None:
    services, dice = world.services, random.Random(seed)
    monkeypatch.setattr(ranking, "SHORTEST_OF", dice.choice([3, 8, 1000]))
    publish_texts(world, alice, *([dice.randint(0, 9) for _ in range(dice.randint(1, 9))] for _ in range(4)))
    everything = list_pages(services, alice, StreamQuery(ALL, Sort.NEWEST))
    if sort is Sort.POPULAR:
        sharer = people.join("sharer")
        people.open(sharer)
        for name in range(4):
            services.subscriptions.subscribe(sharer, f"https://l{name}.example.org/feed")
        for one in dice.sample(everything, min(5, len(everything))):
            services.sharing.share(sharer, one)
    services.reading.mark(alice, dice.sample(everything, len(everything) // 3), True)
    wanted = list_pages(services, alice, StreamQuery(ALL, Sort.NEWEST, show=show))
    query = StreamQuery(ALL, sort, limit=dice.randint(1, 4), show=show)
    found = list_pages(services, alice, query, dice=dice)
    assert len(found) == len(set(found))
    assert set(found) == set(wanted)


def test_only_the_newest_are_compared_and_the_rest_follows(
    world: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "SHORTEST_OF", 3)
    publish_texts(world, alice, [9, 8, 7, 1, 2, 3])
    newest = list_pages(world.services, alice, StreamQuery(ALL, Sort.NEWEST))
    found = list_pages(world.services, alice, StreamQuery(ALL, Sort.SHORTEST, limit=2))
    assert found == [newest[2], newest[1], newest[0], *newest[3:]]
    page = world.services.reading.load_page(alice, StreamQuery(ALL, Sort.SHORTEST))
    assert page.split is None


def test_popular_entries_come_first_in_their_order(people: People, world: World, alice: Actor) -> None:
    services = world.services
    publish_texts(world, alice, [1, 1, 1, 1])
    newest = list_pages(services, alice, StreamQuery(ALL, Sort.NEWEST))
    for number in range(3):
        who = people.join(f"who{number}")
        people.open(who)
        services.subscriptions.subscribe(who, "https://l0.example.org/feed")
        services.sharing.share(who, newest[3])
        if number:
            services.sharing.share(who, newest[1])
    expected = [newest[3], newest[1], newest[0], newest[2]]
    assert list_pages(services, alice, StreamQuery(ALL, Sort.POPULAR)) == expected
    # Once in the list, although a followed person shared it, and with that person's name.
    people.join("dora")
    services.following.follow(alice, "who1")
    page = services.reading.load_page(alice, StreamQuery(ALL, Sort.POPULAR))
    assert len(page.rows) == 4
    assert [[one.handle for one in row.sharers] for row in page.rows][:2] == [["who1"], ["who1"]]
    shared = services.reading.load_page(alice, StreamQuery(FOLLOWING, Sort.POPULAR))
    assert [row.title for row in shared.rows] == [row.title for row in page.rows[:2]]
    unread = services.reading.load_page(alice, StreamQuery(ALL, Sort.POPULAR, show=Show.UNREAD))
    services.marking.mark_above(alice, ALL, unread.snapshot, unread.rows[2].id)
    left = services.reading.load_page(alice, StreamQuery(ALL, Sort.POPULAR, show=Show.UNREAD))
    assert [row.id for row in left.rows] == [newest[0], newest[2]]


def test_the_length_of_a_share_is_that_of_the_shared_text(people: People, world: World, alice: Actor) -> None:
    services = world.services
    publish_texts(world, alice, [500])
    long = list_pages(services, alice, StreamQuery(ALL, Sort.NEWEST))[0]
    sharer = people.join("sharer")
    people.open(sharer)
    services.subscriptions.subscribe(sharer, "https://l0.example.org/feed")
    services.sharing.publish_post(sharer, "", "A post of some words, which is not very long")
    services.sharing.share(sharer, long, note="Short")
    reader = people.join("reader")
    services.following.follow(reader, "sharer")
    page = services.reading.load_page(reader, StreamQuery(FOLLOWING, Sort.SHORTEST))
    assert [bool(row.title) for row in page.rows] == [False, True]


def test_other_streams_take_these_orders_as_newest_first(world: World, alice: Actor) -> None:
    services = world.services
    publish_texts(world, alice, [9, 1])
    newest = list_pages(services, alice, StreamQuery(ALL, Sort.NEWEST))
    for one in newest:
        services.reading.set_starred(alice, one, True)
    for sort in Sort.SHORTEST, Sort.POPULAR:
        assert list_pages(services, alice, StreamQuery(STARRED, sort)) == newest[::-1]
