"""Accounts that are deleted while their person moves between cells, or while a cell is down."""

from __future__ import annotations

import contextlib
import datetime as dt
import signal
from typing import Any

import pytest
from pymongo import monitoring
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import CellError, ConflictError
from app.gateways.operations import moves
from app.models.accounts.actor import Actor, Role
from app.models.operations.cells import HOME
from app.models.operations.moves import MoveStep
from tests.support import moves as support
from tests.support.cells import CELL, SecondCell, cell_db, second_cell, settings, wait_until
from tests.support.commands import CommandLog, add_listener
from tests.support.database import World, world
from tests.support.moves import get_place, kill_at, run_in_child
from tests.support.reader import add_user

__all__ = ["cell_db", "second_cell", "settings", "world"]


@pytest.fixture
def ann(services: Services, cell_db: Database[Any], monkeypatch: pytest.MonkeyPatch) -> Actor:
    """Someone at home with documents of all kinds, on a server that has an admin."""
    monkeypatch.setattr(moves, "NOTICE_SECONDS", 0.0)
    add_user(services, "root", Role.ADMIN)
    found = add_user(services, "ann")
    support.make_documents(services.store.database, found.user_id, 1000)
    for name in ("subscriptions", "marks"):  # the deletion needs whole ones of these
        services.store.database[name].delete_many({"user_id": found.user_id})
    return found


def count_left(services: Services, cell_db: Database[Any], user_id: int) -> int:
    home = services.store.database
    places = home["places"].count_documents({"_id": user_id}) + home["users"].count_documents(
        {"_id": user_id}
    )
    fences = sum(database["move_fences"].count_documents({"_id": user_id}) for database in (home, cell_db))
    return places + fences + support.count(home, user_id) + support.count(cell_db, user_id)


def finish(services: Services, user_id: int) -> bool:
    """Go on with the deletion when no request of the person can be running anymore."""
    tomorrow = clock.now() + dt.timedelta(days=1)
    with clock.set_source(lambda: tomorrow):
        return services.gateways.erasure.finish(user_id, clock.now())


def test_no_move_of_an_account_begins_that_is_being_deleted(services: Services, ann: Actor) -> None:
    services.cells.places.set_weights({HOME: 0, CELL: 1})
    services.gateways.erasure.begin(ann.user_id, clock.now())
    with pytest.raises(ConflictError):
        services.mover.start(ann.user_id, CELL)
    assert services.moves.start_balancing(Actor(0, Role.ADMIN)) == 1, "the admin moves alone"
    assert not get_place(services, ann.user_id).step


def test_a_move_ends_when_the_account_is_being_deleted(
    services: Services, cell_db: Database[Any], ann: Actor
) -> None:
    services.mover.start(ann.user_id, CELL)
    assert run_in_child(services.settings, ann.user_id, kill_at("copied")) == signal.SIGKILL
    assert support.count(cell_db, ann.user_id)
    services.gateways.erasure.begin(ann.user_id, clock.now())
    assert not finish(services, ann.user_id), "the mover holds copies"
    assert services.mover.run(ann.user_id, clock.now()).state == "normal"
    assert get_place(services, ann.user_id).cell == HOME
    assert finish(services, ann.user_id)
    assert count_left(services, cell_db, ann.user_id) == 0


class _At(CommandLog):
    """Calls ``action`` once, before the command that deletes from a collection."""

    def __init__(self, table: str, action: Any) -> None:
        super().__init__()
        self._table, self._actions = table, [action]

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if self._actions and event.command.get("delete") == self._table:
            self._actions.pop()()


@pytest.mark.parametrize("has_place", [False, True])
def test_a_move_that_begins_during_the_deletion_leaves_nothing_behind(
    services: Services, cell_db: Database[Any], ann: Actor, monkeypatch: pytest.MonkeyPatch, has_place: bool
) -> None:
    """Someone started it a moment before the deletion began, and its first write comes late."""
    if has_place:
        services.cells.places.add(ann.user_id, HOME)
    services.gateways.erasure.begin(ann.user_id, clock.now())

    def move() -> None:
        place = get_place(services, ann.user_id)
        assert services.cells.places.update(place, to=CELL, step=MoveStep.COPY.value) is not None
        support.make_documents(cell_db, ann.user_id, 1000, 1)

    add_listener(monkeypatch, _At("sessions", move))
    with contextlib.closing(bootstrap.build(services.settings)) as other:
        assert not finish(other, ann.user_id)
    assert get_place(services, ann.user_id).step == MoveStep.COPY
    assert services.gateways.erasure.find_leaving(9, clock.now() + dt.timedelta(days=1)) == [ann.user_id]
    support.work(services, ann.user_id)
    assert finish(services, ann.user_id)
    assert count_left(services, cell_db, ann.user_id) == 0


def test_documents_in_all_cells_are_deleted_and_the_numbers_stay_right(
    services: Services, cell_db: Database[Any], ann: Actor, world: World
) -> None:
    """A frozen process has written them to a cell that the person had left."""
    feed = world.feed("one")
    world.publish(feed, world.minutes(1, 2))
    bob = add_user(services, "bob")
    for cell in (CELL, HOME):
        services.cells.places.add(bob.user_id, cell)
        services.cells.forget_places()
        services.subscriptions.subscribe(bob, "https://one.example.org/feed")
        entry = services.store.database["entries"].find_one({"feed_id": feed})
        assert entry is not None
        services.reading.set_starred(bob, entry["_id"], True)
        services.cells.places.remove(bob.user_id, get_place(services, bob.user_id))
    services.cells.forget_places()
    tomorrow = clock.now() + dt.timedelta(days=1)

    def settle() -> None:
        while services.gateways.outbox.settle_rows(tomorrow):
            pass

    settle()
    cell_db["move_fences"].insert_one({"_id": bob.user_id, "token": "of a mover that was killed"})
    assert services.gateways.feeds.get(feed).subscribers == 2
    services.gateways.erasure.begin(bob.user_id, clock.now())
    assert finish(services, bob.user_id)
    assert count_left(services, cell_db, bob.user_id) == 0
    settle()
    assert services.gateways.feeds.get(feed).subscribers == 0
    assert services.gateways.outbox.recount(tomorrow)[1::2] == (0, 0)


def test_a_deletion_waits_for_a_cell_that_is_down(
    services: Services, cell_db: Database[Any], second_cell: SecondCell, ann: Actor
) -> None:
    support.make_documents(cell_db, ann.user_id, 1000, 1)
    services.gateways.erasure.begin(ann.user_id, clock.now())
    second_cell.kill()
    try:
        with pytest.raises(CellError):
            finish(services, ann.user_id)
        assert services.gateways.erasure.find_leaving(9, clock.now() + dt.timedelta(days=1)) == [ann.user_id]
    finally:
        second_cell.start()
    wait_until(lambda: services.cells.get_store(CELL).ping() is None)
    assert finish(services, ann.user_id)
    assert count_left(services, cell_db, ann.user_id) == 0
