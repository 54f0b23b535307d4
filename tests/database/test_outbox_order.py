"""In which order the rows of the outbox are settled, and what is left of numbers that are 0."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import Any

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.gateways.operations import outbox
from app.gateways.operations.outbox import ZEROS_FOR
from app.mappers.mongo.outbox_rows import OutboxKind
from app.mappers.operations import outbox as outbox_mapper
from app.models.accounts.actor import Actor
from tests.database.test_explain import Recorder, statements
from tests.support import cells as support
from tests.support.cells import cell_db, second_cell, settings
from tests.support.commands import add_listener
from tests.support.database import World, world

__all__ = ["cell_db", "second_cell", "settings", "world"]
HUGE, HUGER, SMALL = 7, 8, 9


@pytest.fixture
def rows(services: Services, cell_db: Database[Any]) -> None:
    """Two huge moves, a small one after them, and two changes after all of them."""
    now = clock.now()
    for user_id, count in ((HUGE, 50), (HUGER, 60), (SMALL, 3)):
        services.mappers.outbox.add_rows("c1", range(1, count + 1), (), user_id=user_id, due=now)
    cell_db["outbox"].insert_many([{"kind": OutboxKind.FEED.value, "feed_id": feed} for feed in (90, 91)])


def test_a_huge_move_makes_nobody_wait(services: Services, rows: None) -> None:
    found = services.mappers.outbox.list_rows("c1", 10, clock.now())
    assert [row.feed_id for row in found if not row.user_id] == [90, 91]
    assert [row.feed_id for row in found if row.user_id == SMALL] == [1, 2, 3]
    assert [row.feed_id for row in found if row.user_id == HUGE] == [1, 2, 3]
    assert [row.feed_id for row in found if row.user_id == HUGER] == [1, 2, 3, 4], "they share the rest"


def test_no_row_that_waits_makes_the_others_slow(
    settings: Settings, services: Services, cell_db: Database[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, later = clock.now(), clock.now() + dt.timedelta(seconds=30)
    for user_id, due in ((HUGE, now), (HUGER, later)):
        services.mappers.outbox.add_rows("c1", range(1, 3001), (), user_id=user_id, due=due)
    feeds: Any = [{"kind": OutboxKind.FEED.value, "feed_id": feed} for feed in range(1, 2001)]
    kept = [{**feed, "entry_id": 5} for feed in feeds[:500]]
    cell_db["outbox"].insert_many([{**feed, "due": now} for feed in feeds[500:1000]])
    cell_db["outbox"].insert_many([{**feed, "due": later} for feed in feeds[1000:]])
    cell_db["outbox"].insert_many(feeds[:500])
    cell_db["outbox"].insert_many(kept)
    recorder = Recorder()
    add_listener(monkeypatch, recorder)
    with contextlib.closing(bootstrap.build(settings)) as built:
        rows = built.mappers.outbox.list_rows("c1", 8, now)
        assert built.mappers.outbox.find_unsettled_entries(77) == {5}
    assert [row.feed_id for row in rows if not row.user_id] == [501, 502, 1, 2, 3, 4, 5, 6]
    assert [row.user_id for row in rows if row.user_id] == [HUGE] * 8
    asked = [s for name, command in recorder.commands for s in statements(name, command) if s[0] == "outbox"]
    assert len(asked) >= 7
    for _, _, explainable in asked:
        plan = cell_db.command("explain", explainable, verbosity="executionStats")
        assert find_examined(plan) <= 12, explainable


def test_of_very_many_people_who_move_each_call_counts_others(
    services: Services, rows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_mapper, "COUNTED", 2)
    people = [
        {row.user_id for row in services.mappers.outbox.list_rows("c1", 10, clock.now()) if row.user_id}
        for _ in range(3)
    ]
    assert people == [{HUGE, HUGER}, {SMALL, HUGE}, {HUGER, SMALL}]


def find_examined(plan: Any) -> int:
    """Return the most documents that a part of a plan has examined."""
    if isinstance(plan, list):
        return max(map(find_examined, plan), default=0)
    if not isinstance(plan, dict):
        return 0
    return max([int(plan.get("totalDocsExamined", 0)), *map(find_examined, plan.values())])


def test_all_rows_are_settled_in_the_end(
    services: Services, cell_db: Database[Any], rows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "BATCH", 10)
    settled = []
    while count := services.gateways.outbox.settle_rows(clock.now()):
        settled.append(count)
    assert sum(settled) == 115
    assert cell_db["outbox"].count_documents({}) == 0


def test_numbers_that_are_zero_go_after_an_hour(world: World, cell_db: Database[Any], alice: Actor) -> None:
    services, home = world.services, world.services.store.database
    support.move(services, alice.user_id)
    feed = world.feed("one")
    world.publish(feed, world.minutes(1))
    entry = home["entries"].find_one({"feed_id": feed})
    assert entry is not None
    now = clock.now()

    def settle(at: dt.datetime) -> list[int]:
        with clock.set_source(lambda: at):
            while services.gateways.outbox.settle_rows(at):
                pass
        return [doc["n"] for name in ("feed_readers", "entry_keepers") for doc in home[name].find()]

    services.subscriptions.subscribe(alice, "https://one.example.org/feed")
    services.reading.set_starred(alice, entry["_id"], True)
    assert settle(now) == [1, 1]
    assert settle(now + ZEROS_FOR * 2) == [1, 1], "they aren't 0"
    services.reading.set_starred(alice, entry["_id"], False)
    services.subscriptions.unsubscribe(alice, feed)
    assert settle(now + ZEROS_FOR * 3) == [0, 0]
    assert settle(now + ZEROS_FOR * 3.9) == [0, 0], "a relay may still be about to set them"
    assert settle(now + ZEROS_FOR * 4.1) == []
    services.subscriptions.subscribe(alice, "https://one.example.org/feed")
    assert settle(now + ZEROS_FOR * 5) == [1]
