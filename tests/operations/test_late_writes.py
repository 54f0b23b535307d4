"""Writes that reach the old cell after the comparison, from a slow or frozen process: none is lost."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from bson import Int64
from pymongo.database import Database

from app import clock
from app.bootstrap.services import Services
from app.config import Settings
from app.gateways.operations import moves
from app.mappers.operations import person_documents
from app.models.operations.cells import Place
from app.models.operations.moves import MoveStep
from tests.support import moves as support
from tests.support.cells import CELL, cell_db, second_cell, settings
from tests.support.moves import get_place, kill_at, run_in_child

__all__ = ["cell_db", "second_cell", "settings"]

ANN = 1_700_000_000_000_001
#: The id of a document that a process reserved long before its write.
EARLY = Int64(1_500_000_000_000_007)


@pytest.fixture
def home(services: Services, cell_db: Database[Any], monkeypatch: pytest.MonkeyPatch) -> Database[Any]:
    """The home store with documents of Ann."""
    monkeypatch.setattr(person_documents, "DOCUMENTS", 2)
    monkeypatch.setattr(person_documents, "ROW_BYTES", 64)
    monkeypatch.setattr(moves, "NOTICE_SECONDS", 0.0)
    support.make_documents(services.store.database, ANN, 1000)
    return services.store.database


def write_late(home: Database[Any]) -> None:
    """Insert, change and delete documents in the cell that Ann has left."""
    home["folders"].insert_one({"_id": EARLY, "user_id": Int64(ANN), "name": "Late"})
    home["marks"].update_one({"user_id": ANN, "entry_id": 1000}, {"$set": {"text": "late"}})
    home["marks"].delete_one({"user_id": ANN, "entry_id": 1001})


def check_late(cell_db: Database[Any]) -> None:
    """Check that the writes of :func:`write_late` are in the new cell, and nothing else has changed."""
    assert cell_db["folders"].find_one({"_id": EARLY}), "the insert is lost"
    found = {doc["entry_id"]: doc["text"] for doc in cell_db["marks"].find({"user_id": ANN})}
    assert found == {1000: "late", 1002: "x" * 200}
    assert {name: len(docs) for name, docs in support.load(cell_db, ANN).items() if name != "marks"} == {
        name: {"recentreads": 1, "personal_exports": 1, "rules": 1, "folders": 4}.get(name, 3)
        for name in person_documents.NAMES
        if name != "marks"
    }


@pytest.mark.parametrize("point", ["verified", "switched", "carried", "settled"])
def test_late_writes_with_early_ids_are_carried_over(
    services: Services, home: Database[Any], cell_db: Database[Any], point: str
) -> None:
    services.mover._at = lambda _, reached: write_late(home) if reached == point else None
    services.mover.start(ANN, CELL)
    services.mover.run(ANN, clock.now())
    services.mover._at = lambda *_: None
    support.work(services, ANN)
    check_late(cell_db)
    assert support.count(home, ANN) == 0


@pytest.mark.parametrize("point", ["switched", "carried", "settled", "emptying", "cleaned", "swept"])
def test_late_writes_are_carried_over_although_the_mover_dies(
    settings: Settings, services: Services, home: Database[Any], cell_db: Database[Any], point: str
) -> None:
    services.mover.start(ANN, CELL)
    died = 0
    while died != signal.SIGKILL:
        if get_place(services, ANN).step == MoveStep.CLEAN:
            write_late(home)
        died = run_in_child(settings, ANN, kill_at(point))
    if get_place(services, ANN).step == MoveStep.CARRY:
        write_late(home)
    support.work(services, ANN)
    check_late(cell_db)
    assert support.count(home, ANN) == 0


def test_a_switch_without_its_mover_is_announced_and_carried_over_at_once(
    settings: Settings, services: Services, home: Database[Any], cell_db: Database[Any]
) -> None:
    """The cleaning comes 15 s later, and the person may have changed the same documents by then."""
    services.mover.start(ANN, CELL)
    assert run_in_child(settings, ANN, kill_at("switched")) == signal.SIGKILL
    write_late(home)
    epoch = services.place_epoch.raise_epoch()
    assert services.mover.find_due(clock.now(), 10) == [ANN]
    assert services.mover.run(ANN, clock.now()).late == 3
    check_late(cell_db)
    assert services.place_epoch.raise_epoch() > epoch + 1
    assert services.mover.run(ANN, clock.now()).state == "later", "others may still read the old cell"


def test_a_cleaning_that_goes_on_carries_over_what_is_left(
    settings: Settings, services: Services, home: Database[Any], cell_db: Database[Any]
) -> None:
    """What the run before has deleted in the old cell must stay in the new one."""
    services.mover.start(ANN, CELL)
    services.mover.run(ANN, clock.now())
    assert run_in_child(settings, ANN, kill_at("cleaned")) == signal.SIGKILL
    assert home["changes"].count_documents({}) == 0
    home["changes"].insert_one({"_id": EARLY, "user_id": Int64(ANN)})
    home["marks"].update_one({"user_id": ANN, "entry_id": 1000}, {"$set": {"text": "late"}})
    support.work(services, ANN)
    found = support.load(cell_db, ANN)
    assert len(found["changes"]) == 4
    assert {doc["text"] for doc in found["marks"].values()} == {"late", "x" * 100, "x" * 200}
    assert support.count(home, ANN) == 0


@pytest.mark.parametrize("point", ["switched", "moved", "emptying", "swept"])
def test_without_digests_nothing_comes_back_that_the_person_has_deleted(
    settings: Settings, services: Services, home: Database[Any], cell_db: Database[Any], point: str
) -> None:
    """Versions before the digests switched without them, and an upgrade may come before the cleaning."""
    services.mover.start(ANN, CELL)
    if point == "moved":
        services.mover.run(ANN, clock.now())
    else:
        while run_in_child(settings, ANN, kill_at(point)) != signal.SIGKILL:
            pass
    home["move_digests"].delete_many({})
    cell_db["marks"].delete_one({"user_id": ANN, "entry_id": 1001})
    cell_db["marks"].update_one({"user_id": ANN, "entry_id": 1002}, {"$set": {"text": "new"}})
    if point == "swept":  # the old cell was empty: what is there now was written late
        home["folders"].insert_one({"_id": EARLY, "user_id": Int64(ANN), "name": "Late"})
    support.work(services, ANN)
    found = {doc["entry_id"]: doc["text"] for doc in cell_db["marks"].find({"user_id": ANN})}
    assert found == {1000: "", 1002: "new"}
    assert cell_db["folders"].count_documents({"user_id": ANN}) == (4 if point == "swept" else 3)
    assert support.count(home, ANN) == 0


def test_digests_of_no_documents_are_digests(
    services: Services, home: Database[Any], cell_db: Database[Any]
) -> None:
    """Someone who had nothing yet: whatever is in the old cell later was written late."""
    for name in person_documents.NAMES:
        home[name].delete_many({"user_id": ANN})
    services.mover.start(ANN, CELL)
    services.mover.run(ANN, clock.now())
    home["folders"].insert_one({"_id": EARLY, "user_id": Int64(ANN), "name": "Late"})
    support.work(services, ANN)
    assert cell_db["folders"].find_one({"_id": EARLY}) is not None


def test_what_the_person_did_in_the_new_cell_stays(
    services: Services, home: Database[Any], cell_db: Database[Any]
) -> None:
    """Late writes to documents that they have changed or deleted since give way."""

    def write_and_change(_: Place, point: str) -> None:
        if point == "verified":
            home["tags"].insert_one({"_id": EARLY, "user_id": Int64(ANN), "key": "late"})
        if point == "settled":
            cell_db["tags"].delete_one({"_id": EARLY})
            cell_db["marks"].update_one({"user_id": ANN, "entry_id": 1000}, {"$set": {"text": "new"}})
            cell_db["marks"].update_one({"user_id": ANN, "entry_id": 1001}, {"$set": {"text": "new"}})
            cell_db["marks"].delete_one({"user_id": ANN, "entry_id": 1002})
            home["marks"].update_many({"user_id": ANN, "entry_id": {"$ne": 1001}}, {"$set": {"text": "late"}})
            home["marks"].delete_one({"user_id": ANN, "entry_id": 1001})

    services.mover._at = write_and_change
    services.mover.start(ANN, CELL)
    services.mover.run(ANN, clock.now())
    support.work(services, ANN)
    found = {doc["entry_id"]: doc["text"] for doc in cell_db["marks"].find({"user_id": ANN})}
    assert found == {1000: "new", 1001: "new"}
    assert cell_db["tags"].find_one({"_id": EARLY}) is None, "they have deleted it"


def test_nothing_of_a_move_is_left(services: Services, home: Database[Any], cell_db: Database[Any]) -> None:
    rows: list[int] = []

    def look(_: Place, point: str) -> None:
        if point == "switched":
            rows.append(home["move_digests"].count_documents({}))

    services.mover._at = look
    services.mover.start(ANN, CELL)
    support.work(services, ANN)
    assert rows[0] > 10, "digests take several rows"
    services.mover._at = lambda _, point: services.mover.cancel(ANN) if point == "verified" else None
    services.mover.start(ANN, "home")
    services.mover.run(ANN, clock.now())
    services.mover._at = lambda *_: None
    support.work(services, ANN)
    for database in (home, cell_db):
        assert [database[name].count_documents({}) for name in ("move_digests", "move_fences")] == [0, 0]
