"""The first start with cells: a wrong EVENTR_CELLS stops it, changes nothing, and can be corrected."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import pymongo
import pytest
from pymongo.database import Database

from app.bootstrap import services as bootstrap
from app.commands.stores import require_stores
from app.config import Settings
from app.errors import StartupError
from app.mappers.mongo import cells, store
from app.mappers.mongo.cell_identity import CellIdentity, read_identity
from app.mappers.mongo.migrations.schema import COLLECTION
from app.mappers.mongo.store import Doc
from app.models.operations.cells import HOME
from tests.support.cells import CELL, SecondCell, second_cell

__all__ = ["second_cell"]
NAME = "eventr_first_start"


@dataclasses.dataclass
class Installation:
    """A database in the home store and one in a cell, without any collection."""

    settings: Settings
    home: Database[Doc]
    cell: Database[Doc]

    def start(self, value: str) -> None:
        """Start as ``eventr web`` does."""
        changed = dataclasses.replace(self.settings, cells=value)
        require_stores(changed)
        with contextlib.closing(bootstrap.build(changed)) as built:
            built.migrate()

    def get_names(self) -> list[str | None]:
        """Return the names that the home store and the cell have."""
        found = [read_identity(database) for database in (self.home, self.cell)]
        return [each.name if each else None for each in found]


@pytest.fixture
def new(settings: Settings, second_cell: SecondCell) -> Iterator[Installation]:
    with (
        pymongo.MongoClient[Doc](settings.mongodb_uri, tz_aware=True) as home,
        pymongo.MongoClient[Doc](second_cell.uri, tz_aware=True) as cell,
    ):
        clients = (home, cell)
        for client in clients:
            client.drop_database(NAME)
        yield Installation(dataclasses.replace(settings, mongodb_name=NAME), home[NAME], cell[NAME])
        for client in clients:
            client.drop_database(NAME)


@pytest.mark.parametrize("has_accounts", [False, True])
def test_the_address_of_the_home_store_for_a_cell_changes_nothing(
    new: Installation, second_cell: SecondCell, has_accounts: bool
) -> None:
    if has_accounts:
        new.start("")
    wrong = f"{CELL}={new.settings.mongodb_uri}"
    for _ in range(2):
        with pytest.raises(StartupError, match="c1 leads to the home store"):
            require_stores(dataclasses.replace(new.settings, cells=wrong))
    with (
        contextlib.closing(bootstrap.build(dataclasses.replace(new.settings, cells=wrong))) as built,
        pytest.raises(StartupError, match="Correct EVENTR_CELLS"),
    ):
        built.migrate()
    assert new.get_names() == [None, None]
    new.start("")
    new.start(f"{CELL}={second_cell.uri}")
    assert new.get_names() == [HOME, CELL]


def test_one_address_for_two_cells_changes_nothing(new: Installation, second_cell: SecondCell) -> None:
    for _ in range(5):  # cells are asked at the same time, so either could be the first
        with pytest.raises(StartupError, match="cells c1 and c2 lead to the same database"):
            new.start(f"c1={second_cell.uri} c2={second_cell.uri}")
    assert new.get_names() == [None, None]
    new.start(f"c2={second_cell.uri}")
    assert new.get_names() == [HOME, "c2"]


def test_one_database_behind_two_routers_is_found_by_its_collections(
    new: Installation, second_cell: SecondCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Routers of one sharded cluster are processes of their own."""
    new.start("")
    monkeypatch.setattr(cells, "find_process", lambda database: None)
    with pytest.raises(StartupError, match="c1 leads to the home store"):
        new.start(f"c1={new.settings.mongodb_uri}")
    assert new.get_names() == [None, None]
    with pytest.raises(StartupError, match="c2 leads to the database of the cell c1"):
        new.start(f"c1={second_cell.uri} c2={second_cell.uri}")
    assert new.get_names() == [HOME, CELL]


def test_a_start_checks_and_writes_nothing(new: Installation, second_cell: SecondCell) -> None:
    require_stores(dataclasses.replace(new.settings, cells=f"{CELL}={second_cell.uri}"))
    assert new.home.list_collection_names() == new.cell.list_collection_names() == []


def test_the_database_of_another_installation_is_no_cell(new: Installation, second_cell: SecondCell) -> None:
    new.cell["users"].insert_one({"name": "ann"})
    with pytest.raises(StartupError, match="c1 leads to a database with accounts"):
        new.start(f"{CELL}={second_cell.uri}")
    assert new.get_names() == [None, None]


# -- installations that an earlier program named wrongly


def _name(database: Database[Doc], name: str, *prepared: str) -> None:
    database[COLLECTION].insert_one({"_id": "cell", "name": name, "prepared": list(prepared)})


@pytest.mark.parametrize("was_migrated", [False, True])
def test_a_home_store_that_got_the_name_of_a_cell_gets_its_own_again(
    new: Installation, second_cell: SecondCell, was_migrated: bool
) -> None:
    if was_migrated:
        new.start("")
    _name(new.home, CELL)
    new.start("")
    with pytest.raises(StartupError, match="c1 leads to the home store"):
        new.start(f"{CELL}={new.settings.mongodb_uri}")
    new.start(f"{CELL}={second_cell.uri}")
    assert new.get_names() == [HOME, CELL]


def test_a_cell_that_got_the_name_of_another_one_gets_its_own(
    new: Installation, second_cell: SecondCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if that one has an address of its own now."""
    monkeypatch.setattr(store, "TIMEOUT_MS", 500)
    _name(new.cell, "c2")
    new.start(f"c2=mongodb://127.0.0.1:1 {CELL}={second_cell.uri}")
    assert new.get_names() == [HOME, CELL]
    found = read_identity(new.cell)
    assert found is not None
    assert found.prepared


def test_a_name_that_was_used_is_never_changed(new: Installation, second_cell: SecondCell) -> None:
    """What was prepared may hold people's data, even if its addresses are swapped now."""
    new.start("")
    _name(new.home, CELL, "1-a")
    with pytest.raises(StartupError, match="home leads to the database of the cell c1"):
        new.start("")
    new.home[COLLECTION].delete_one({"_id": "cell"})
    _name(new.cell, "c2", "1-a")
    with pytest.raises(StartupError, match="c1 leads to the database of the cell c2"):
        new.start(f"{CELL}={second_cell.uri}")
    new.cell[COLLECTION].update_one({"_id": "cell"}, {"$set": {"prepared": []}})
    new.home["cells"].insert_one({"_id": "c2", "used": True})
    with pytest.raises(StartupError, match="c1 leads to the database of the cell c2"):
        new.start(f"{CELL}={second_cell.uri}")
    new.cell[COLLECTION].update_one({"_id": "cell"}, {"$set": {"name": HOME}})
    with pytest.raises(StartupError, match="c1 leads to the database of the cell home"):
        new.start(f"{CELL}={second_cell.uri}")
    assert read_identity(new.cell) == CellIdentity(HOME, frozenset())
