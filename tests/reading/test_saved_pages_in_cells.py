"""Saved pages of a person whose data is in another cell than the pages."""

from __future__ import annotations

from typing import Any

import pytest

from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from tests.support.cells import cell_db, move, second_cell, settings
from tests.support.reader import add_user

__all__ = ["cell_db", "second_cell", "settings"]


@pytest.fixture
def ann(services: Services, cell_db: Any) -> Actor:
    found = add_user(services, "ann")
    move(services, found.user_id)
    return found


def test_marks_go_with_a_page_and_come_back_with_it(services: Services, ann: Actor) -> None:
    saved = services.saved_pages.save(ann, "https://site.example/1", title="One")
    services.tags.change_tags(ann, saved.entry_id, add=["x"])
    services.notes.set_text(ann, saved.entry_id, "Mine")
    before = services.mappers.marks.find_all(ann.user_id, saved.entry_id, None)
    token = services.saved_pages.remove(ann, saved.entry_id)
    assert services.mappers.marks.find_all(ann.user_id, saved.entry_id, None) is None
    assert [tag.count for tag in services.tags.list_tags(ann)] == [0]
    services.saved_pages.restore(ann, token)
    assert services.mappers.marks.find_all(ann.user_id, saved.entry_id, None) == before
    assert [tag.count for tag in services.tags.list_tags(ann)] == [1]
