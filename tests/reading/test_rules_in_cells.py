"""Rules and marks by time of people in several cells: what a dead cell or a move may not change."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.reading.rules import Rule, RuledReader
from tests.reading.test_rules import bring, subscribe
from tests.support.cells import SecondCell, cell_db, move, second_cell, settings
from tests.support.reader import add_user

__all__ = ["cell_db", "second_cell", "settings"]


@pytest.fixture
def ann(services: Services, cell_db: Database[Any]) -> Actor:
    """Lives in the second cell."""
    found = add_user(services, "ann")
    move(services, found.user_id)
    return found


def test_marks_by_time_reach_the_home_store_while_a_cell_is_down(
    services: Services, second_cell: SecondCell, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = add_user(services, "bob")
    for who in (ann, bob):
        feed_id = subscribe(services, who)
        services.subscriptions.update(who, feed_id, read_after=1)
    bring(services, feed_id, "one")
    later = clock.now() + dt.timedelta(days=1, minutes=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    deaths = iter([second_cell.kill])

    def is_stopping() -> bool:
        for kill in deaths:  # after the readers were found
            kill()
        return False

    try:
        done = services.auto_read.run(0, seconds=60.0, is_stopping=is_stopping)
    finally:
        second_cell.start()
    assert done == {"users": 2, "entries": 1}
    assert services.reading.get_tree(bob).unread == 0


def test_a_person_in_two_cells_is_one_reader_with_rules(
    services: Services, cell_db: Database[Any], ann: Actor
) -> None:
    services.rules.save(ann, Rule(0, "", "football", read=True))
    feed_id = subscribe(services, ann)
    bring(services, feed_id, "football")
    copy = cell_db["subscriptions"].find_one({"user_id": ann.user_id})
    assert copy is not None
    for ruled in (5, 3):  # the old copy may be older or, after an undone move, newer
        services.store.database["subscriptions"].replace_one(
            {"_id": copy["_id"]}, {**copy, "ruled": ruled}, upsert=True
        )
        cell_db["subscriptions"].update_one({"_id": copy["_id"]}, {"$set": {"ruled": 4}})
        found = services.mappers.subscriptions.find_ruled([feed_id])
        assert found == [RuledReader(ann.user_id, feed_id, max(ruled, 4), "", (), False, False)]
