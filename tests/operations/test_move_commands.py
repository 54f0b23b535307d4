"""``eventr admin move|balance|drain``, the page Admin → Cells, the job and the metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from pymongo.database import Database

from app import cli, clock
from app.bootstrap.services import Services
from app.errors import ConflictError, ForbiddenError
from app.gateways.operations import moves
from app.models.accounts.actor import Actor, Role
from app.models.operations.cells import HOME
from app.services.operations.moves import make_move_job
from tests.support import moves as support
from tests.support.cells import CELL, cell_db, second_cell, settings
from tests.support.reader import add_user
from tests.web.conftest import Visitor, app, visitor

__all__ = ["app", "cell_db", "second_cell", "settings", "visitor"]
ROOT = Actor(0, Role.ADMIN)


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch: pytest.MonkeyPatch, cell_db: Database[Any]) -> None:
    monkeypatch.setattr(moves, "NOTICE_SECONDS", 0.0)


def run(services: Services, *words: str, code: int = 0) -> Any:
    settings = services.settings
    environment = {
        "EVENTR_HOME": str(settings.home),
        "EVENTR_MONGODB_URI": settings.mongodb_uri,
        "EVENTR_MONGODB_NAME": settings.mongodb_name,
        "EVENTR_REDIS_URL": settings.redis_url,
        "EVENTR_CELLS": settings.cells,
    }
    done = CliRunner().invoke(cli.cli, ["admin", *words], env=environment)
    if code:
        assert done.exit_code == code, done.output
        return str(done.exception) + done.output
    assert done.exit_code == 0, done.output + str(done.exception)
    return json.loads(done.stdout)


def test_commands_start_and_cancel_moves(services: Services) -> None:
    ann = add_user(services, "ann").user_id
    assert run(services, "move", "ann", CELL) == {"name": "ann", "cell": CELL, "started": True}
    assert services.moves.find_due_jobs(clock.now()) == [make_move_job(ann)]
    assert run(services, "move", "--cancel", "ann") == {"name": "ann", "cancelled": True}
    support.work(services, ann)
    assert support.get_place(services, ann).cell == HOME
    run(services, "move", "ann", CELL)
    assert services.moves.run(ann)["state"] == "moved"
    support.work(services, ann)
    assert run(services, "move", "ann", CELL)["started"] is False
    for words, said in (
        (("move", "ann"), "Give either a CELL or --cancel"),
        (("move", "nobody", CELL), "no user with this name"),
        (("move", "ann", "c9"), "no cell with this name"),
        (("move", "--cancel", "ann"), "isn't being moved"),
        (("balance",), "No cell has a weight"),
        (("drain", HOME), "No other cell has a weight"),
    ):
        assert said in run(services, *words, code=2 if words == ("move", "ann") else 1), words


def test_commands_list_cells_place_new_people_and_recount(services: Services) -> None:
    add_user(services, "ann")
    placed = run(services, "place", f"{HOME}=0", f"{CELL}=3")["cells"]
    assert [(c["name"], c["people"], c["weight"], c["responding"]) for c in placed] == [
        (HOME, 1, 0, True),
        (CELL, 0, 3, True),
    ]
    bob = add_user(services, "bob").user_id
    assert support.get_place(services, bob).cell == CELL
    assert [c["people"] for c in run(services, "cells")["cells"]] == [1, 1]
    feed = services.subscriptions.subscribe(Actor(bob), "https://one.example.org/feed").subscription.feed_id
    assert run(services, "recount") == {"feeds": 1, "wrong_feeds": 1, "entries": 0, "wrong_entries": 0}
    assert services.gateways.feeds.get(feed).subscribers == 1
    assert run(services, "recount")["wrong_feeds"] == 0
    for words, code, said in (
        (("place", "c9=1"), 1, "There is no cell named c9."),
        (("place", f"{CELL}=5000"), 1, "A share must be from 0 to 1000."),
        (("place", CELL), 2, "Give a number"),
    ):
        assert said in run(services, *words, code=code), words


def test_balance_and_drain_move_people_by_weight(services: Services) -> None:
    people = [add_user(services, f"user{number}").user_id for number in range(6)]

    def finish() -> dict[str, int]:
        for user_id in people:
            support.work(services, user_id)
        return {row.name: row.people for row in services.mover.list_cells()}

    services.cells.places.set_weights({HOME: 1, CELL: 2})
    assert run(services, "balance", "--limit", "1") == {"started": 1}
    assert run(services, "balance") == {"started": 3}, "one is on the way"
    assert services.moves.count_steps()["copy"] == 4
    assert finish() == {HOME: 2, CELL: 4}
    assert run(services, "balance") == {"started": 0}
    assert run(services, "drain", CELL) == {"cell": CELL, "started": 4}
    assert finish() == {HOME: 6, CELL: 0}
    assert run(services, "drain", CELL) == {"cell": CELL, "started": 0}
    assert services.cells.places.find_weights()[CELL] == 0, "nobody new is placed there"


def test_only_admins_move_people(services: Services) -> None:
    someone = add_user(services, "ann")
    calls: tuple[Callable[[], object], ...] = (
        lambda: services.moves.start(someone, "ann", CELL),
        lambda: services.moves.cancel(someone, "ann"),
        lambda: services.moves.start_balancing(someone),
        lambda: services.moves.drain(someone, CELL),
        lambda: services.moves.list_cells(someone),
        lambda: services.moves.list_moves(someone),
    )
    for call in calls:
        with pytest.raises(ForbiddenError):
            call()


@pytest.mark.parametrize("language", ["en", "ar"])
def test_admins_see_cells_and_moves_and_cancel_them(
    services: Services, visitor: Callable[[], Visitor], language: str
) -> None:
    root = add_user(services, "root", Role.ADMIN)
    services.accounts.set_preferences(root, {"language": language})
    ann = add_user(services, "ann").user_id
    one = visitor()
    one.log_in("root")
    page = one.get("/admin/cells").text
    assert 'href="/admin/cells"' in one.get("/admin").text
    assert CELL in page
    assert (
        "mongodb" not in page.lower().replace("mongodb server", "").replace("mongodb-", "")
        or language != "en"
    )
    assert services.settings.cells.split("=")[1] not in page, "the address stays secret"
    assert one.post("/admin/cells/move", {"name": "nobody", "cell": CELL}).status_code == 404
    assert one.post("/admin/cells/move", {"name": "ann", "cell": "c9"}).status_code == 400
    assert one.post("/admin/cells/move", {"name": "ann", "cell": CELL}).status_code == 303
    assert one.post("/admin/cells/move", {"name": "ann", "cell": CELL}).status_code == 409
    assert 'action="/admin/cells/cancel"' in one.get("/admin/cells").text
    assert one.post("/admin/cells/cancel", {"name": "ann"}).status_code == 303
    page = one.get("/admin/cells").text
    assert 'action="/admin/cells/cancel"' not in page
    assert f"/admin/users/{ann}" in page
    support.work(services, ann)
    assert f"/admin/users/{ann}" not in one.get("/admin/cells").text
    one = visitor()
    one.log_in("ann")
    assert one.get("/admin/cells").status_code == 404


def test_two_admins_start_one_move(services: Services) -> None:
    add_user(services, "ann")
    assert services.moves.start(ROOT, "ann", CELL)
    with pytest.raises(ConflictError):
        services.moves.start(ROOT, "Ann", CELL)
