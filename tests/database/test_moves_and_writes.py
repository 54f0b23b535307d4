"""A request that writes several times while its person moves: each write finds out where the person lives."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import MovingError
from app.gateways.operations import moves
from app.mappers.mongo.cells import WRITES, Cells
from app.models.accounts.actor import Actor
from app.models.operations.cells import HOME, Place, PlaceState
from app.models.reading.rules import RuleMarks
from tests.support import moves as support
from tests.support.cells import CELL, cell_db, second_cell, settings
from tests.support.database import World, world

__all__ = ["cell_db", "second_cell", "settings", "world"]


class _Interrupted(Mapping[int, Sequence[int]]):
    """Numbers by feed; ``between`` is called before the second feed is handled, once."""

    def __init__(self, feeds: list[int], numbers: list[int], between: Callable[[], object]) -> None:
        self._feeds, self._numbers, self._between = feeds, numbers, [between]

    def __getitem__(self, feed: int) -> Sequence[int]:
        if feed == self._feeds[1] and self._between:
            self._between.pop()()
        return self._numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self._feeds)

    def __len__(self) -> int:
        return len(self._feeds)


@pytest.fixture
def feeds(world: World, alice: Actor, cell_db: Database[Any], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two feeds with three entries each, to which Alice subscribes."""
    monkeypatch.setattr(moves, "NOTICE_SECONDS", 0.0)
    found = [world.feed(f"s{number}") for number in range(2)]
    for number, feed in enumerate(found):
        world.services.subscriptions.subscribe(alice, f"https://s{number}.example.org/feed")
        world.publish(feed, world.minutes(1, 2, 3))
    return found


@pytest.mark.parametrize("noticed", [False, True], ids=["mark", "switch"])
def test_marks_in_several_feeds_survive_a_move_between_them(
    world: World, alice: Actor, feeds: list[int], noticed: bool
) -> None:
    """Their process notices the mark, or the switch as well, which takes it a quarter of a second."""
    services = world.services
    cards = services.mappers.feeds.find_cards(feeds)

    def mark() -> None:
        services.gateways.read_marks.mark(alice.user_id, numbers, cards, read=True)

    def move() -> None:
        with contextlib.closing(bootstrap.build(services.settings)) as other:
            other.mover._at = look
            other.mover.start(alice.user_id, CELL)
            assert other.mover.run(alice.user_id, clock.now()).state == "moved"
        if noticed:
            services.place_epoch._until = 0.0

    def look(_: Place, point: str) -> None:
        if point == "drained":
            services.place_epoch._until = 0.0
            services.cells.find_place(alice.user_id)
            services.place_epoch._until = math.inf

    numbers = _Interrupted(feeds, [1, 2], move)
    try:
        mark()
    except MovingError:
        assert not noticed, "it can be repeated at once"
        services.place_epoch._until = 0.0
        mark()
    services.place_epoch._until = 0.0
    support.work(services, alice.user_id)
    states = {s.feed_id: s.state for s in services.mappers.subscriptions.find_by_user(alice.user_id)}
    assert [[states[feed].is_read(seq) for seq in (1, 2, 3)] for feed in feeds] == [[True, True, False]] * 2


class _Passed(list[RuleMarks]):
    """What rules have passed; ``between`` is called when it is looked through the second time."""

    def __init__(self, marks: Sequence[RuleMarks], between: Callable[[], object]) -> None:
        super().__init__(marks)
        self._looks = iter([lambda: None, between])

    def __iter__(self) -> Iterator[RuleMarks]:
        for look in itertools.islice(self._looks, 1):
            look()
        return super().__iter__()


@pytest.mark.parametrize("known", [False, True], ids=["cached", "grouped"])
def test_what_rules_pass_for_many_survives_a_move(
    world: World, alice: Actor, bob: Actor, feeds: list[int], known: bool
) -> None:
    """Alice moves after this process has read her place, or after it has grouped the people."""
    services, feed = world.services, feeds[0]
    services.subscriptions.subscribe(bob, "https://s0.example.org/feed")
    for who in (alice, bob):
        services.mappers.subscriptions.start_rules(who.user_id, {feed: 0})
    services.cells.group_places([alice.user_id, bob.user_id])

    def move() -> None:
        with contextlib.closing(bootstrap.build(services.settings)) as other:
            other.mover.start(alice.user_id, CELL)
            assert other.mover.run(alice.user_id, clock.now()).state == "moved"
            support.work(other, alice.user_id)
        services.place_epoch._until = 0.0

    marks = [RuleMarks(who.user_id, feed, 0, 3, read=(1,)) for who in (alice, bob)]
    passed = _Passed(marks, move if known else lambda: None)
    if not known:
        move()
    missed = services.mappers.subscriptions.pass_ruled(passed)
    assert missed == ({alice.user_id, bob.user_id} if known else set()), "both shared the home store"
    assert services.mappers.subscriptions.pass_ruled(marks) == set()
    for who in (alice, bob):
        (mine,) = services.mappers.subscriptions.find_by_user(who.user_id, [feed])
        assert (mine.ruled, mine.state.is_read(1)) == (3, True)


def test_someone_who_moves_is_left_out_of_a_write_for_many(
    services: Services, cell_db: Database[Any], alice: Actor, bob: Actor
) -> None:
    place = support.get_place(services, alice.user_id)
    assert services.cells.places.update(place, state=PlaceState.MIGRATING, to=CELL) is not None
    services.cells.forget_places()
    groups = []
    table = services.cells.get_table("changes")
    missed = table.write_groups([alice.user_id, bob.user_id], lambda _, people: groups.append(people))
    assert (missed, groups) == ({alice.user_id}, [[bob.user_id]])


@pytest.mark.parametrize("name", WRITES)
def test_a_table_of_several_people_only_reads(
    services: Services, cell_db: Database[Any], alice: Actor, name: str
) -> None:
    ((table, people),) = services.cells.get_table("changes").group_by_people([alice.user_id])
    assert people == [alice.user_id]
    assert list(table.find({"user_id": alice.user_id})) == []
    with pytest.raises(TypeError, match="write_groups"):
        _WRITES[name](table)


_WRITES: dict[str, Callable[[Any], object]] = {
    "insert_one": lambda table: table.insert_one({"user_id": 1}),
    "insert_many": lambda table: table.insert_many([{"user_id": 1}]),
    "update_one": lambda table: table.update_one({}, {"$set": {"a": 1}}),
    "update_many": lambda table: table.update_many({}, {"$set": {"a": 1}}),
    "replace_one": lambda table: table.replace_one({}, {"user_id": 1}),
    "delete_one": lambda table: table.delete_one({}),
    "delete_many": lambda table: table.delete_many({}),
    "bulk_write": lambda table: table.bulk_write([]),
    "find_one_and_update": lambda table: table.find_one_and_update({}, {"$set": {"a": 1}}),
    "find_one_and_replace": lambda table: table.find_one_and_replace({}, {"user_id": 1}),
    "find_one_and_delete": lambda table: table.find_one_and_delete({}),
}


@pytest.mark.parametrize("moved", [False, True], ids=["moving", "moved"])
@pytest.mark.parametrize("name", _WRITES)
def test_a_table_refuses_writes_once_its_person_has_moved(
    services: Services, cell_db: Database[Any], alice: Actor, name: str, moved: bool
) -> None:
    """Mappers keep a table for several writes, such as the parts of an import."""
    table = services.cells.get_table("changes").get(alice.user_id)
    table.delete_many({"user_id": alice.user_id})
    services.cells.places.add(alice.user_id, CELL if moved else HOME)
    if not moved:
        place = support.get_place(services, alice.user_id)
        assert services.cells.places.update(place, state=PlaceState.MIGRATING, to=CELL) is not None
    services.cells.forget_places()
    with pytest.raises(MovingError):
        _WRITES[name](table)
    assert list(table.find({"user_id": alice.user_id})) == [], "reads go on"


def test_without_cells_tables_are_those_of_the_driver(services: Services, alice: Actor) -> None:
    table = Cells(services.store, {}, "x").get_table("tags")
    assert type(table.get(alice.user_id)) is type(services.store.database["tags"])
