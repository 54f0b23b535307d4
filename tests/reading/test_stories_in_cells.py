"""Stories of a person whose data is in another cell than the entries."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.database import Database

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.reading.stream import Show, StreamRef
from tests.reading.test_stories import PAGE, get_titles, load, write
from tests.reading.test_story_lives import bring, describe, reader, subscribe
from tests.support.cells import cell_db, move, second_cell, settings
from tests.support.database import World
from tests.support.reader import add_user

__all__ = ["cell_db", "reader", "second_cell", "settings"]
Doc = dict[str, Any]


@pytest.fixture
def alice(services: Services, cell_db: Database[Doc]) -> Actor:
    """Lives in the second cell."""
    found = add_user(services, "alice")
    move(services, found.user_id)
    return found


def test_a_person_in_another_cell_has_the_same_stories(
    cell_db: Database[Doc], reader: World, alice: Actor
) -> None:
    subscribe(reader, alice, "c")
    assert cell_db["subscriptions"].count_documents({"user_id": alice.user_id}) == 3
    assert describe(reader, alice) == [("Story in B", ["A"]), ("Only A", [])]
    services = reader.services
    done = services.reading.mark_all(alice, StreamRef.parse(f"feed/{reader.feed('a')}"))
    assert done.count == 3, "the copy in B is marked"
    bring(reader, "c", [write(9, PAGE, title="Story in C", age=5)])
    assert get_titles(load(reader, alice, show=Show.UNREAD)) == []
    assert services.reading.get_tree(alice).unread == 0, "the late copy is read"
    services.reading.undo_mass_mark(alice, done.undo)
    assert services.reading.get_tree(alice).unread == 3
    story = next(row for row in load(reader, alice) if row.copies)
    token = services.hiding.hide_entry(alice, story.id)
    assert get_titles(load(reader, alice)) == ["Only A"]
    services.hiding.restore(alice, token)
    assert services.reading.get_tree(alice).unread == 3
