"""Moves that fail: they wait longer each time, others go on meanwhile, and administrators see why."""

from __future__ import annotations

import datetime as dt
import signal
from collections.abc import Callable
from typing import Any

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap.services import Services
from app.errors import ConflictError, StoreError
from app.gateways.operations import moves
from app.models.accounts.actor import Actor, Role
from app.models.operations.cells import HOME
from app.models.operations.moves import RETRY_LONGEST, SWEEPS, MoveStep, compute_retry_delay
from tests.operations.test_move_commands import run
from tests.support import moves as support
from tests.support.cells import CELL, SecondCell, cell_db, second_cell, settings, wait_until
from tests.support.moves import kill_at, run_in_child
from tests.support.reader import add_user
from tests.web.conftest import Visitor, app, visitor

__all__ = ["app", "cell_db", "second_cell", "settings", "visitor"]
ROOT = Actor(0, Role.ADMIN)
SECOND = dt.timedelta(seconds=1)


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch: pytest.MonkeyPatch, cell_db: Database[Any]) -> None:
    monkeypatch.setattr(moves, "NOTICE_SECONDS", 0.0)


def test_the_delay_grows_up_to_a_limit() -> None:
    delays = [compute_retry_delay(tries) for tries in (1, 2, 3, 50, 5000)]
    assert delays == [5 * SECOND, 10 * SECOND, 20 * SECOND, RETRY_LONGEST, RETRY_LONGEST]


def test_moves_that_fail_make_room_for_others(
    services: Services, cell_db: Database[Any], second_cell: SecondCell
) -> None:
    stuck = [add_user(services, f"stuck{n}").user_id for n in range(3)]
    for user_id in stuck:
        services.mover.start(user_id, CELL)
    second_cell.kill()
    try:
        for _ in range(2):
            for user_id in stuck:
                services.store.database["places"].update_one({"_id": user_id}, {"$set": {"due": clock.now()}})
                with pytest.raises(StoreError):
                    services.mover.run(user_id, clock.now())
    finally:
        second_cell.start()
    wait_until(lambda: services.cells.get_store(CELL).ping() is None)
    now = clock.now()
    late = add_user(services, "late").user_id
    services.mover.start(late, CELL)
    assert services.mover.find_due(now + SECOND, 1) == [late]
    assert services.mover.run(stuck[0], now).state == "later"
    assert set(services.mover.find_due(now + 11 * SECOND, 10)) == {late, *stuck}
    wait_until(lambda: services.cells.get_store(CELL).ping() is None)
    support.work(services, stuck[0])
    assert services.moves.list_moves(ROOT)[0].user_id != stuck[0]


def test_moves_of_all_steps_go_on_in_the_order_in_which_they_are_due(services: Services) -> None:
    one, other = (add_user(services, name).user_id for name in ("one", "other"))
    for user_id in (one, other):
        services.mover.start(user_id, CELL)
    services.mover.cancel(other)
    places = services.store.database["places"]
    places.update_one({"_id": other}, {"$set": {"due": clock.now() + SECOND}})
    assert services.mover.find_due(clock.now() + SECOND, 1) == [one]
    places.update_one({"_id": one}, {"$set": {"due": clock.now() + 2 * SECOND}})
    assert services.mover.find_due(clock.now() + 2 * SECOND, 1) == [other]


def test_moves_whose_movers_die_go_on_in_turns(services: Services, cell_db: Database[Any]) -> None:
    people = [add_user(services, f"user{n}").user_id for n in range(3)]
    for user_id in people:
        services.mover.start(user_id, CELL)
    seen = []
    for _ in range(6):
        [user_id] = services.mover.find_due(clock.now() + SECOND, 1)
        seen.append(user_id)
        assert run_in_child(services.settings, user_id, kill_at("copied")) == signal.SIGKILL
    assert sorted(seen[:3]) == sorted(seen[3:]) == sorted(people)


def test_a_sweep_that_fails_makes_room_for_others(
    services: Services, cell_db: Database[Any], second_cell: SecondCell
) -> None:
    one, other = (add_user(services, name).user_id for name in ("one", "other"))
    for user_id in (one, other):
        for cell in (CELL, HOME):
            services.mover.start(user_id, cell)
            support.work(services, user_id)
    now = clock.now() + SWEEPS[0] * 2
    assert set(services.mover.find_due(now, 10)) == {one, other}
    second_cell.kill()
    try:
        with pytest.raises(StoreError):
            services.mover.run(one, now)
    finally:
        second_cell.start()
    assert services.mover.find_due(now, 10) == [other]
    assert one in services.mover.find_due(now + SWEEPS[0] * 2, 10), "it is repeated"


def test_administrators_see_why_a_move_fails(
    services: Services, cell_db: Database[Any], visitor: Callable[[], Visitor]
) -> None:
    add_user(services, "root", Role.ADMIN)
    admin = visitor()
    admin.log_in("root")
    ann = add_user(services, "ann").user_id
    services.mover.start(ann, CELL)

    def fail(_: object, point: str) -> None:
        if point == "drained":
            raise StoreError

    def conflict(_: object, point: str) -> None:
        if point == "drained":
            raise ConflictError("This id is taken in the other cell.")

    for hook, error in (
        (fail, "A cell or Redis isn't responding."),
        (conflict, "This id is taken in the other cell."),
    ):
        services.mover._at = hook
        with pytest.raises((StoreError, ConflictError)):
            services.mover.run(ann, clock.now() + RETRY_LONGEST)
        [move] = services.moves.list_moves(ROOT)
        assert move.error == error
        assert f"The last attempt failed: {error}" in admin.get("/admin/cells").text
    assert (move.tries, move.step) == (2, MoveStep.COPY)
    assert move.due is not None
    assert move.due > clock.now()
    assert services.mover.run(ann, clock.now()).state == "later"
    [row] = run(services, "moves")["moves"]
    assert (row["name"], row["cell"], row["to"], row["step"]) == ("ann", HOME, CELL, "copy")
    assert (row["tries"], row["error"]) == (2, "This id is taken in the other cell.")
    services.mover._at = lambda *_: None
    assert services.mover.run(ann, clock.now() + RETRY_LONGEST).state == "moved"
    [move] = services.moves.list_moves(ROOT)
    assert (move.tries, move.error) == (0, ""), "the rest goes well so far"
    assert "The last attempt failed" not in admin.get("/admin/cells").text
    support.work(services, ann)
    assert run(services, "moves") == {"moves": []}
