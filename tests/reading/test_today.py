"""The stream "Today": which entries, in which sections and order, and what is popular beside them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import InvalidError
from app.gateways.reading import ranking
from app.models.accounts.actor import Actor
from app.models.reading.entry import EntryKey
from app.models.reading.stream import StreamQuery, StreamRef, Tree, TreeFeed, TreeFolder
from app.models.reading.today import list_sections
from tests.sharing.conftest import People
from tests.support.database import NOW, World

TODAY = StreamRef.parse("today")
HOUR = 60


@pytest.fixture
def people(services: Services) -> People:
    return People(services)


@pytest.fixture(autouse=True)
def at_noon() -> Iterator[None]:
    with clock.set_source(lambda: NOW):
        yield


def feed(number: int, folders: tuple[int, ...] = (), *, person: bool = False) -> TreeFeed:
    return TreeFeed(number, f"Feed {number}", None, None, number, None, folders, person)


def test_each_feed_is_in_one_section() -> None:
    inner = TreeFolder(2, "Inner", 1, 3, (feed(1), feed(9, person=True)), ())
    outer = TreeFolder(1, "Outer", None, 5, (feed(2),), (inner,))
    other = TreeFolder(3, "Other", None, 1, (feed(1), feed(4)), ())
    empty = TreeFolder(5, "Empty", None, 0, (), ())
    tree = Tree((outer, other, empty), (feed(6), feed(7), feed(8, person=True)), 30, 4)
    found = [(str(s.ref), s.title, s.unread, sorted(s.feed_ids)) for s in list_sections(tree)]
    assert found == [
        ("folder/1", "Outer", 5, [1, 2]),
        ("folder/3", "Other", 1, [4]),
        ("None", "", 13, [6, 7]),
        ("following", "", 4, [8, 9]),
    ]
    assert list_sections(Tree((), (), 0)) == []


def follow(world: World, who: Actor, name: str, ages: list[int], *, folder: int | None = None) -> list[int]:
    """Subscribe to a feed with entries so many minutes old; return their ids, the newest first."""
    feed_id = world.feed(name)
    world.services.subscriptions.subscribe(who, f"https://{name}.example.org/feed", folder_id=folder)
    if ages:
        world.publish(feed_id, world.minutes(*ages))
    docs = world.services.store.database["entries"].find({"feed_id": feed_id}).sort("at", -1)
    return [doc["_id"] for doc in docs]


def list_today(services: Services, who: Actor) -> list[int]:
    return [row.id for row in services.reading.load_page(who, StreamQuery(TODAY)).rows]


def test_unread_entries_of_a_day_are_listed_by_folder(world: World, alice: Actor) -> None:
    services = world.services
    late, early = services.folders.create(alice, "Z"), services.folders.create(alice, "A")
    loose = follow(world, alice, "loose", [1, 2])
    last = follow(world, alice, "last", [5, 23 * HOUR, 25 * HOUR], folder=late.id)
    first = follow(world, alice, "first", [10, 20], folder=early.id)
    second = follow(world, alice, "second", [15], folder=early.id)
    assert list_today(services, alice) == [first[0], second[0], first[1], *last[:2], *loose]
    services.reading.mark(alice, [first[0], last[1]], True)
    assert list_today(services, alice) == [second[0], first[1], last[0], *loose]
    page = services.reading.load_page(alice, StreamQuery(TODAY))
    assert (page.unread, page.total, page.cursor) == (5, 5, None)


def test_a_section_begins_with_a_picture(world: World, alice: Actor) -> None:
    services = world.services
    folder = services.folders.create(alice, "A")
    ids = follow(world, alice, "one", [1, 2, 3], folder=folder.id)
    services.store.database["entries"].update_one(
        {"_id": ids[1]}, {"$set": {"image": "https://one.example/1.jpg"}}
    )
    assert list_today(services, alice) == [ids[1], ids[0], ids[2]]


def test_a_busy_feed_leaves_room_for_others() -> None:
    busy = [EntryKey(100 - n, 1, n, 100 - n) for n in range(9)]
    quiet = [EntryKey(50 - n, 2, n, 50 - n) for n in range(2)]
    chosen = ranking.choose_varied([*busy, *quiet], 5)
    assert [key.id for key in chosen] == [100, 99, 98, 50, 49]
    assert ranking.choose_varied(busy, 4) == busy[:4]
    assert ranking.put_picture_first([], set()) == []


def test_sections_share_the_room(world: World, alice: Actor) -> None:
    services = world.services
    one = follow(world, alice, "one", list(range(1, 41)))
    assert list_today(services, alice) == one[: ranking.MOST]
    for n in range(12):
        folder = services.folders.create(alice, f"F{n:02}")
        follow(world, alice, f"f{n}", list(range(1, 11)), folder=folder.id)
    assert len(list_today(services, alice)) == 13 * ranking.LEAST


def test_too_many_entries_leave_fewer_hours(
    world: World, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "BUSY", 5)
    ids = follow(world, alice, "one", [1, 2, 7 * HOUR, 8 * HOUR, 9 * HOUR, 10 * HOUR])
    assert list_today(world.services, alice) == ids[:2]


def test_shares_of_people_are_listed_once_and_longer(world: World, people: People) -> None:
    services = world.services
    ann, bob = people.join("ann"), people.join("bob")
    people.open(bob)
    ids = follow(world, ann, "blog", [3, 50 * HOUR, 100 * HOUR])
    services.subscriptions.subscribe(bob, "https://blog.example.org/feed")
    services.following.follow(ann, "bob")
    with clock.set_source(lambda: NOW - dt.timedelta(hours=30)):
        old = services.sharing.share(bob, ids[1]).share
    new = services.sharing.share(bob, ids[0]).share
    page = services.reading.load_page(ann, StreamQuery(TODAY))
    assert len({row.title for row in page.rows}) == len(page.rows) == 2
    assert {row.id for row in page.rows} <= {old.id, new.id, ids[0]}
    assert [[one.handle for one in row.sharers] for row in page.rows] == [["bob"], ["bob"]]
    services.following.set_muted(ann, "bob", True)
    assert list_today(services, ann) == [ids[0]]


def test_marking_all_marks_what_is_listed(world: World, alice: Actor) -> None:
    services = world.services
    ids = follow(world, alice, "one", list(range(1, 31)))
    page = services.reading.load_page(alice, StreamQuery(TODAY))
    listed = [row.id for row in page.rows]
    done = services.reading.mark_all(alice, TODAY, snapshot=page.snapshot)
    assert done.count == len(listed) == ranking.MOST
    assert list_today(services, alice) == ids[ranking.MOST :]
    services.reading.undo_mass_mark(alice, done.undo)
    assert list_today(services, alice) == listed
    with pytest.raises(InvalidError):
        services.reading.mark_all(alice, TODAY)
    above = services.marking.mark_above(alice, TODAY, page.snapshot, listed[3])
    assert above.count == 3


def test_pages_and_old_lists_stay_as_they_were(world: World, alice: Actor) -> None:
    services = world.services
    folder = services.folders.create(alice, "A")
    follow(world, alice, "one", list(range(1, 10)))
    follow(world, alice, "two", list(range(1, 10)), folder=folder.id)
    page = services.reading.load_page(alice, StreamQuery(TODAY, limit=4))
    whole = services.reading.load_page(alice, StreamQuery(TODAY, snapshot=page.snapshot))
    found = [row.id for row in page.rows]
    services.reading.mark(alice, found, True)
    while page.cursor is not None:
        page = services.reading.load_page(
            alice, StreamQuery(TODAY, cursor=page.cursor, snapshot=page.snapshot, limit=4)
        )
        found += [row.id for row in page.rows]
    assert found == [row.id for row in whole.rows]
    assert len(found) == 18


def test_popular_entries_open_where_one_may_read_them(world: World, people: People) -> None:
    services = world.services
    ann, bob = people.join("ann"), people.join("bob")
    people.open(bob)
    mine = follow(world, bob, "mine", [1])
    other = follow(world, bob, "other", [2])
    services.subscriptions.subscribe(ann, "https://mine.example.org/feed")
    services.sharing.share(bob, mine[0])
    share = services.sharing.share(bob, other[0]).share
    rows = {row.id: row for row in services.trends.list_rows(ann, 5)}
    assert set(rows) == {mine[0], share.id}
    assert rows[mine[0]].markable
    assert not rows[mine[0]].read
    assert not rows[share.id].markable
    assert rows[share.id].feed_title == "other"
    assert [one.handle for one in rows[share.id].sharers] == ["bob"]
    assert services.reading.get_article(ann, share.id).entry.title
    assert len(services.trends.list_rows(ann, 1)) == 1
    services.reading.mark(ann, mine, True)
    assert {row.id: row.read for row in services.trends.list_rows(ann, 5)}[mine[0]]
