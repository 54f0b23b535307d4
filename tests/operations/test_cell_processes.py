"""Moves and the entry budget in real processes: queued by the updater, done by workers, and counted."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap.services import Services
from app.config import Settings
from app.gateways.feeds.retention_budget import LEAST
from app.mappers.mongo import ids
from app.models.accounts.actor import Actor
from app.models.operations.cells import HOME, PlaceState
from tests.jobs import support
from tests.operations import ask
from tests.support.cells import CELL, SecondCell, cell_db, second_cell
from tests.support.database import World, world
from tests.support.moves import get_place
from tests.support.reader import add_user
from tests.support.up import free_port

__all__ = ["cell_db", "second_cell", "world"]

_MAINTENANCE = """
[maintenance]
queues = ["maintenance"]
mode = "solo"
"""
#: Entries of the feed that nobody opens, all of them older than a year.
ENTRIES = LEAST + 30


@pytest.fixture
def settings(settings: Settings, second_cell: SecondCell) -> Settings:
    port = free_port(3)
    quick = dataclasses.replace(
        settings,
        cells=f"{CELL}={second_cell.uri}",
        retention_total=LEAST,
        metrics_listen=f"127.0.0.1:{port}",
        job_backoff=0.05,
        stop_grace=1.0,
        worker_nice=0,
        updater_interval=0.5,
    )
    return dataclasses.replace(quick, queues_file=support.groups(quick, extra=_MAINTENANCE))


@pytest.mark.long
def test_the_updater_lets_workers_move_people_and_trim_entries(
    settings: Settings,
    services: Services,
    cell_db: Database[Any],
    world: World,
    eventually: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ann = add_user(services, "ann")
    feed = services.subscriptions.subscribe(ann, "https://old.example.org/feed").subscription.feed_id
    old = clock.now() - dt.timedelta(days=500)
    monkeypatch.setattr(ids, "_last", 0)
    with clock.set_source(lambda: old):
        world.publish(feed, [old] * ENTRIES)
    database = services.store.database
    database["feeds"].update_many({}, {"$set": {"created": old, "subscribers": 0}, "$unset": {"read_at": ""}})
    monkeypatch.undo()
    # Only the updater queues its jobs.
    assert services.mover.start(ann.user_id, CELL)
    # An upgrade while the cell was down: the updater prepares it before anyone moves there.
    cell_db["schema"].update_one({"_id": "cell"}, {"$set": {"prepared": []}})
    with contextlib.ExitStack() as processes:
        processes.enter_context(support.running("workers.updater.updater", settings, "updater"))
        eventually(lambda: (cell_db["schema"].find_one({"_id": "cell"}) or {}).get("prepared"))
        processes.enter_context(support.running("queue_manager.main", settings, "manager"))
        eventually(lambda: get_place(services, ann.user_id).cell == CELL)
        assert cell_db["subscriptions"].count_documents({"user_id": ann.user_id}) == 1

        def scrape(name: str, label: str) -> float:
            return ask.scrape(settings, "updater")[name][(label,)]

        eventually(lambda: scrape("eventr_cell_users", CELL) == 1)
        assert scrape("eventr_cell_users", HOME) == 0
        # The move may be between two steps, or over already on a slow machine.
        eventually(
            lambda: (
                scrape("eventr_moves", "clean") == 1
                or get_place(services, ann.user_id).state is PlaceState.NORMAL
            )
        )
        # The new cell settles the number of readers, and the budget is kept.
        eventually(lambda: services.gateways.feeds.get(feed).subscribers == 1)
        eventually(lambda: database["entries"].count_documents({}) == LEAST)
        # 15 seconds later the old cell is emptied.
        eventually(lambda: get_place(services, ann.user_id).state is PlaceState.NORMAL)
        assert database["subscriptions"].count_documents({}) == 0
    services.cells.forget_places()
    assert services.subscriptions.get(Actor(ann.user_id), feed).feed_id == feed
