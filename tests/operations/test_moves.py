"""People move between two real replica sets: nothing is lost or doubled, even if any process is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from bson import Int64
from pymongo.database import Database

from app import clock
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import ConflictError, InvalidError, MovingError, NotFoundError, StoreError
from app.gateways.operations import moves
from app.mappers.operations import person_documents
from app.mappers.operations.person_documents import PersonDocuments, StaleRunError
from app.models.operations.cells import HOME, Place, PlaceState
from app.models.operations.moves import CLEAN_AFTER, SWEEPS, MoveStep, plan_balance
from tests.support import moves as support
from tests.support.cells import CELL, cell_db, second_cell, settings
from tests.support.moves import POINTS, get_place, kill_at, run_in_child

__all__ = ["cell_db", "second_cell", "settings"]

ANN, BEN = 1_700_000_000_000_001, 1_700_000_000_000_002


@pytest.fixture
def home(
    services: Services, cell_db: Database[Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database[Any]]:
    """The home store with documents of Ann, whom these tests move, and of Ben, whom they don't."""
    # Each collection takes several batches, and no other process has to notice anything.
    monkeypatch.setattr(person_documents, "DOCUMENTS", 2)
    monkeypatch.setattr(moves, "NOTICE_SECONDS", 0.0)
    database = services.store.database
    support.make_documents(database, ANN, 1000)
    support.make_documents(database, BEN, 500_000)
    support.make_documents(cell_db, BEN + 1, 900_000)
    before = support.load(database, BEN), support.load(cell_db, BEN + 1)
    yield database
    assert (support.load(database, BEN), support.load(cell_db, BEN + 1)) == before, "others were touched"


def test_a_person_moves_there_and_back_with_all_documents(
    services: Services, home: Database[Any], cell_db: Database[Any]
) -> None:
    before = support.load(home, ANN)
    assert all(before.values())
    assert services.mover.start(ANN, CELL)
    assert services.mover.find_due(clock.now(), 10) == [ANN]
    first, second = support.work(services, ANN)
    assert (first.state, first.copied, second.state) == ("moved", sum(map(len, before.values())), "normal")
    assert support.load(cell_db, ANN) == before
    assert support.count(home, ANN) == 0
    place = get_place(services, ANN)
    assert (place.cell, place.state, place.to, place.step) == (CELL, PlaceState.NORMAL, "", "")
    assert services.cells.get_database(ANN).client is cell_db.client
    assert not services.mover.start(ANN, CELL), "they live there"
    assert services.mover.start(ANN, HOME)
    support.work(services, ANN)
    assert support.load(home, ANN) == before
    assert support.count(cell_db, ANN) == 0
    assert list(home["move_fences"].find()) == list(cell_db["move_fences"].find()) == []


def test_a_move_goes_on_after_sigkill_at_each_point(
    settings: Settings, services: Services, home: Database[Any], cell_db: Database[Any]
) -> None:
    before, databases = support.load(home, ANN), {HOME: home, CELL: cell_db}
    cell = HOME
    for point in POINTS:
        to = CELL if cell == HOME else HOME
        services.mover.start(ANN, to)
        died = 0
        while get_place(services, ANN).step and died != signal.SIGKILL:
            died = run_in_child(settings, ANN, kill_at(point))
        assert died == signal.SIGKILL, f"nothing reaches {point}"
        support.work(services, ANN)
        assert support.load(databases[to], ANN) == before, point
        assert support.count(databases[cell], ANN) == 0, point
        cell = to


@pytest.mark.parametrize("point", ["batch", "marked", "verified"])
def test_a_cancelled_move_leaves_the_person_at_home(
    settings: Settings, services: Services, home: Database[Any], cell_db: Database[Any], point: str
) -> None:
    before = support.load(home, ANN)
    services.mover.start(ANN, CELL)

    def cancel(_: Place, reached: str) -> None:
        if reached == point:
            services.mover.cancel(ANN)

    services.mover._at = cancel
    assert services.mover.run(ANN, clock.now()).state == "taken", "the run that was cancelled goes no further"
    assert get_place(services, ANN).state is PlaceState.NORMAL
    services.cells.get_database(ANN, write=True)
    # And the mover that empties the new cell may be killed as well.
    assert run_in_child(settings, ANN, kill_at("emptied")) == signal.SIGKILL
    support.work(services, ANN)
    assert support.load(home, ANN) == before
    assert support.count(cell_db, ANN) == 0
    assert get_place(services, ANN).cell == HOME


def test_what_cannot_be_moved_or_cancelled_is_refused(services: Services, home: Database[Any]) -> None:
    with pytest.raises(InvalidError):
        services.mover.start(ANN, "c9")
    with pytest.raises(NotFoundError):
        services.mover.cancel(ANN)
    services.mover.start(ANN, CELL)
    with pytest.raises(ConflictError):
        services.mover.start(ANN, CELL)
    services.mover.run(ANN, clock.now())
    assert get_place(services, ANN).step == MoveStep.CLEAN
    assert services.mover.run(ANN, clock.now()).state == "later", "others may still read the old cell"
    with pytest.raises(ConflictError):
        services.mover.cancel(ANN)


def test_reads_go_on_and_writes_are_refused_from_the_mark_to_the_switch(
    services: Services, home: Database[Any], cell_db: Database[Any]
) -> None:
    seen: dict[str, bool] = {}

    def look(_: Place, point: str) -> None:
        services.cells.forget_places()
        assert services.cells.get_database(ANN)["marks"].count_documents({"user_id": ANN}) == 3
        try:
            services.cells.get_database(ANN, write=True)
        except MovingError:
            seen[point] = False
        else:
            seen[point] = True

    services.mover._at = look
    services.mover.start(ANN, CELL)
    support.work(services, ANN)
    assert [point for point in POINTS if not seen[point]] == ["marked", "drained", "verified"]


def test_writes_during_the_copy_and_late_writes_are_carried_over(
    services: Services, home: Database[Any], cell_db: Database[Any]
) -> None:
    """A process may write before it notices the mark, after the comparison, and even after the switch."""
    marks = home["marks"]

    def write(_: Place, point: str) -> None:
        key = f"at {point}"
        if point in ("copied", "marked", "drained", "verified", "switched", "settled"):
            marks.insert_one(
                {"_id": Int64(clock.now().timestamp() * 1e6), "user_id": ANN, "entry_id": hash(point)}
            )
            marks.update_one({"user_id": ANN, "entry_id": 1000}, {"$set": {"text": key}})
        if point == "verified":
            marks.delete_one({"user_id": ANN, "entry_id": 1001})
            home["subscriptions"].delete_one({"user_id": ANN, "feed_id": 1001})
            # A unique key goes from one document to another.
            home["tags"].delete_one({"user_id": ANN, "key": "tags0"})
            home["tags"].update_one({"user_id": ANN, "key": "tags1"}, {"$set": {"key": "tags0"}})

    services.mover._at = write
    services.mover.start(ANN, CELL)
    moved = services.mover.run(ANN, clock.now())
    assert moved.late >= 4
    after = cell_db["marks"].find({"user_id": ANN}).sort("entry_id")
    found = {doc["entry_id"]: doc.get("text") for doc in after}
    assert found.keys() >= {hash(p) for p in ("copied", "marked", "drained", "verified", "switched")}
    assert found[1000] == "at switched"
    assert 1001 not in found
    assert hash("settled") not in found
    assert {doc["key"] for doc in cell_db["tags"].find({"user_id": ANN})} == {"tags0", "tags2"}
    support.work(services, ANN)
    assert cell_db["marks"].count_documents({"user_id": ANN, "entry_id": hash("settled")}) == 1, (
        "at the cleaning"
    )
    assert support.count(home, ANN) == 0


def test_inserts_of_frozen_processes_are_swept_for_an_hour(
    services: Services, home: Database[Any], cell_db: Database[Any]
) -> None:
    services.mover.start(ANN, CELL)
    support.work(services, ANN)
    now = clock.now() + CLEAN_AFTER
    for number, after in enumerate(SWEEPS):
        assert services.mover.find_due(now + after * 0.9, 10) == []
        home["folders"].insert_one({"_id": Int64(77 + number), "user_id": Int64(ANN), "name": "Zombie"})
        # There is one with this key already: the newer cell is right.
        home["marks"].insert_one(
            {"_id": Int64(87), "user_id": Int64(ANN), "entry_id": Int64(1000), "text": "old"}
        )
        assert services.mover.find_due(now + after * 1.1, 10) == [ANN]
        services.mover.run(ANN, now + after * 1.1)
        assert cell_db["folders"].find_one({"_id": 77 + number})
        assert support.count(home, ANN) == 0
    assert cell_db["marks"].count_documents({"user_id": ANN}) == 3
    assert services.mover.find_due(now + SWEEPS[-1] * 10, 10) == []
    # What is there when they come back belongs to them as well.
    services.mover.start(ANN, HOME)
    support.work(services, ANN)
    cell_db["folders"].insert_one({"_id": Int64(99), "user_id": Int64(ANN), "name": "Zombie"})
    services.mover.start(ANN, CELL)
    support.work(services, ANN)
    assert cell_db["folders"].find_one({"_id": 99})


def test_a_run_that_dies_right_at_the_switch_leaves_time_for_readers(
    services: Services, home: Database[Any], cell_db: Database[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody was told of the switch, and nothing says since when the old cell has been left."""
    monkeypatch.setattr(services.mappers.moves, "set_times", lambda *_: None)
    services.mover.start(ANN, CELL)
    services.mover.run(ANN, clock.now())
    monkeypatch.undo()
    assert services.mover.run(ANN, clock.now()).state == "later"
    assert services.mover.run(ANN, clock.now()).state == "later"
    assert support.count(home, ANN)
    assert services.mover.run(ANN, clock.now() + CLEAN_AFTER).state == "normal"
    assert not support.count(home, ANN)


def test_an_account_is_deleted_after_its_move(
    services: Services, home: Database[Any], cell_db: Database[Any]
) -> None:
    """The mover had copied documents, and nobody would look for them once the place is gone."""
    services.mover.start(ANN, CELL)
    services.mover._at = lambda _, point: None if point != "copied" else services.mover.cancel(ANN)
    services.mover.run(ANN, clock.now())
    assert support.count(cell_db, ANN)
    assert not services.mappers.erasure.erase(ANN, clock.now())
    services.mover._at = lambda *_: None
    support.work(services, ANN)
    assert services.mappers.erasure.erase(ANN, clock.now())
    assert support.count(cell_db, ANN) == support.count(home, ANN) == 0


def test_a_run_that_was_taken_over_writes_nothing(
    services: Services, home: Database[Any], cell_db: Database[Any]
) -> None:
    """A frozen mover wakes up at each point after another one has brought the move to its end."""
    for point in ("taken", "batch", "copied", "verified"):
        cell = get_place(services, ANN).cell
        to = HOME if cell == CELL else CELL

        def freeze(_: Place, reached: str, point: str = point) -> None:
            if reached == point:
                services.mover._at = lambda *_: None
                support.work(services, ANN)
                services.cells.get_database(ANN, write=True)["marks"].update_one(
                    {"user_id": ANN, "entry_id": 1000}, {"$set": {"text": point}}
                )

        services.mover._at = freeze
        services.mover.start(ANN, to)
        assert services.mover.run(ANN, clock.now()).state == "taken", point
        found = services.cells.get_database(ANN)["marks"].find_one({"user_id": ANN, "entry_id": 1000})
        assert found is not None
        assert found["text"] == point
        assert support.count({HOME: home, CELL: cell_db}[cell], ANN) == 0
    stale = PersonDocuments(services.store, ANN, "stale")
    for write in (lambda: stale.remove_all("marks"), lambda: stale.add_documents("marks", [])):
        with pytest.raises(StaleRunError):
            write()


def test_a_dead_cell_gives_the_person_their_writes_back(
    services: Services, home: Database[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Place, point: str) -> None:
        if point == "drained":
            raise StoreError

    services.mover._at = fail
    services.mover.start(ANN, CELL)
    with pytest.raises(StoreError):
        services.mover.run(ANN, clock.now())
    services.cells.get_database(ANN, write=True)
    assert get_place(services, ANN).step == MoveStep.COPY
    services.mover._at = lambda *_: None
    support.work(services, ANN)
    assert get_place(services, ANN).cell == CELL


def test_the_drain_waits_for_open_transactions(services: Services, home: Database[Any]) -> None:
    documents = PersonDocuments(services.store, ANN, "x")
    assert not documents.has_writes_since(0.0)
    client = services.store.database.client
    with client.start_session() as session, session.start_transaction():
        home["marks"].update_one({"user_id": ANN}, {"$set": {"text": "open"}}, session=session)
        assert documents.has_writes_since(0.0)
        assert not documents.has_writes_since(60.0)
    assert not documents.has_writes_since(0.0)


def test_a_plan_gives_each_cell_its_share() -> None:
    assert plan_balance({"home": 10, "a": 0, "b": 0}, {"a": 1, "b": 1}) == [
        ("home", "a", 5),
        ("home", "b", 5),
    ]
    assert plan_balance({"home": 4, "a": 5}, {"home": 1, "a": 1}) in ([], [("a", "home", 1)])
    assert plan_balance({"home": 4, "a": 5}, {}) == []
    for people, weights in (
        ({"x": 7, "y": 0, "z": 100}, {"x": 3, "y": 2, "z": 1}),
        ({"x": 1, "y": 0}, {"y": 5}),
    ):
        left = dict(people)
        for cell, to, moved in plan_balance(people, weights):
            left[cell] -= moved
            left[to] += moved
        whole = sum(weights.values())
        assert all(abs(left[c] - sum(people.values()) * weights.get(c, 0) / whole) <= 1 for c in left)


def test_the_process_is_ended_for_real() -> None:
    """The tests above count on it."""
    child = os.fork()
    if child == 0:
        kill_at("x")(Place(1, HOME), "x")
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
