"""People on several replica sets: who is sent where, and what a move or a dead cell refuses to whom."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.database import Database

from app.bootstrap.services import Services
from app.config import Settings
from app.errors import MovingError, SettingsError
from app.mappers.mongo.cells import Cells
from app.models.accounts.actor import Actor
from app.models.operations.cells import HOME, Place, PlaceState
from tests.support import cells as support
from tests.support.cells import CELL, cell_db, second_cell, settings

__all__ = ["cell_db", "second_cell", "settings"]


def test_each_person_is_sent_to_their_cell(
    services: Services, cell_db: Database[Any], alice: Actor, bob: Actor
) -> None:
    support.move(services, alice.user_id)
    assert services.cells.get_database(alice.user_id).client is cell_db.client
    assert services.cells.get_database(bob.user_id).client is services.store.database.client
    groups = services.cells.group_people([alice.user_id, bob.user_id])
    assert [people for _, people in groups] == [[alice.user_id], [bob.user_id]]


def test_writes_of_a_person_who_moves_are_refused(
    services: Services, cell_db: Database[Any], alice: Actor
) -> None:
    place = Place(alice.user_id, HOME)
    moving = services.cells.places.update(place, state=PlaceState.MIGRATING, to=CELL)
    assert moving is not None
    services.cells.forget_places()
    tags = services.cells.get_table("tags")
    assert list(tags.get(alice.user_id).find()) == []
    for write in (
        lambda: tags.get(alice.user_id).insert_one({}),
        lambda: services.cells.get_database(alice.user_id, write=True),
        lambda: services.cells.run_in_transaction(alice.user_id, lambda session: None),
    ):
        with pytest.raises(MovingError):
            write()
    assert services.cells.places.update(place, state=PlaceState.MIGRATING) is None, "it isn't that place"
    assert services.cells.places.update(moving, cell=CELL, state=PlaceState.CLEANING, to=HOME) is not None
    services.cells.forget_places()
    tags.get(alice.user_id).insert_one({"user_id": alice.user_id, "key": "a"})
    assert cell_db["tags"].count_documents({"user_id": alice.user_id}) == 1


def test_without_cells_nothing_is_looked_up(services: Services, alice: Actor) -> None:
    cells = Cells(services.store, {}, "x")
    assert cells.names == [HOME]
    cells.places = None  # type: ignore[assignment]  # whoever asks it fails
    assert cells.get_database(alice.user_id) is services.store.database
    assert cells.is_home(alice.user_id)


@pytest.mark.parametrize("value", ["c1", "home=mongodb://a", "c1=http://a", "c1=mongodb://a c1=mongodb://b"])
def test_wrong_cells_are_refused_without_their_passwords(value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(cells=value)
    assert "//a" not in caught.value.message
