"""The entry budget: the oldest entries of feeds that nobody opened go first, and what people keep stays."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from app import clock
from app.gateways.feeds.retention_budget import LEAST, RetentionBudgetGateway
from app.mappers.mongo import ids
from app.models.accounts.actor import Actor
from app.models.jobs.jobs import Task
from app.models.operations.check_result import Severity
from app.monitoring import health
from app.services.feeds.retention_budget import EVERY, RetentionBudgetService
from tests.support.database import NOW, World

DAY = dt.timedelta(days=1)
#: Entries of each feed that are 400 days old, and that are 100 days old.
OLD, NEWER = 30, 30


class Library:
    """Three feeds with old and newer entries; one was opened today, one a month and a half ago, one never."""

    def __init__(self, world: World, alice: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        names = ("never", "once", "today")
        self.never, self.once, self.today = (
            world.services.subscriptions.subscribe(
                alice, f"https://{n}.example.org/feed"
            ).subscription.feed_id
            for n in names
        )
        monkeypatch.setattr(ids, "_last", 0)  # the subscriptions have taken ids of today
        for days, count in ((400, OLD), (100, NEWER)):
            with clock.set_source(lambda days=days: NOW - days * DAY):  # type: ignore[misc]
                for feed_id in (self.never, self.once, self.today):
                    world.publish(feed_id, [NOW - days * DAY] * count)
        feeds = world.services.store.database["feeds"]
        feeds.update_many({}, {"$set": {"created": NOW - 500 * DAY}, "$unset": {"read_at": ""}})
        for feed_id, days in ((self.once, 45), (self.today, 0)):
            feeds.update_one({"_id": feed_id}, {"$set": {"read_at": NOW - days * DAY}})

    def count(self) -> tuple[int, int, int]:
        """Return the number of entries of each feed."""
        entries = self.world.services.store.database["entries"]
        never, once, today = (
            entries.count_documents({"feed_id": f}) for f in (self.never, self.once, self.today)
        )
        return never, once, today

    def make(self, budget: int) -> RetentionBudgetGateway:
        mappers = self.world.services.mappers
        return RetentionBudgetGateway(
            mappers.retention_budget, mappers.entries, mappers.outbox, budget=budget
        )


@pytest.fixture
def library(world: World, alice: Actor, monkeypatch: pytest.MonkeyPatch) -> Library:
    return Library(world, alice, monkeypatch)


def never() -> bool:
    return False


def after(calls: int) -> Callable[[], bool]:
    """Return a function that is true after so many calls."""
    left = iter(range(calls))
    return lambda: next(left, None) is None


def test_unopened_feeds_lose_their_oldest_entries_first(library: Library) -> None:
    assert library.make(180).trim_entries(NOW, never) == (0, 0, False), "the budget is met"
    assert library.make(0).trim_entries(NOW, never) == (0, 0, False), "there is no budget"
    assert library.make(160).trim_entries(NOW, never).deleted == OLD
    assert library.count() == (NEWER, 60, 60)
    assert library.make(149).trim_entries(NOW, never).deleted == NEWER - LEAST, (
        "newer ones before other feeds"
    )
    assert library.count() == (LEAST, 60, 60)
    assert library.make(130).trim_entries(NOW, never).deleted == OLD
    assert library.count() == (LEAST, NEWER, 60)


def test_what_people_keep_and_open_stays(library: Library, alice: Actor, db: Any) -> None:
    first = db["entries"].find_one({"feed_id": library.never}, sort=[("seq", 1)])
    library.world.services.reading.set_starred(alice, first["_id"], True)
    db["feeds"].update_one({"_id": library.never}, {"$unset": {"read_at": ""}})
    gateway = library.make(10)
    done = gateway.trim_entries(NOW, never)
    assert done.is_exhausted
    assert library.count() == (LEAST + 1, LEAST, 60)
    assert db["entries"].count_documents({"_id": first["_id"]}) == 1
    assert not gateway.is_over(NOW + DAY / 5), "a new walk would find nothing, either"
    assert gateway.is_over(NOW + DAY)
    feed = library.world.feeds.get(library.never)
    assert (feed.first_seq, feed.last_seq) == (61 - LEAST, 60)


@pytest.mark.parametrize("calls", [2, 3, 5])
def test_an_interrupted_walk_goes_on(library: Library, calls: int) -> None:
    gateway = library.make(90)
    rounds = 0
    while gateway.is_over(NOW) and rounds < 99:
        gateway.trim_entries(NOW, after(calls + rounds))
        position = library.world.services.mappers.retention_budget.get_position()
        assert position.after or position.step or not gateway.is_over(NOW), "the next run begins here"
        rounds += 1
    assert rounds > 1
    assert sum(library.count()) <= 100
    assert library.count()[2] == 60


def test_a_job_is_due_only_above_the_budget(library: Library) -> None:
    def find(budget: int) -> list[Task]:
        service = RetentionBudgetService(library.make(budget), is_enabled=budget > 0)
        jobs = service.find_due_jobs(NOW)
        assert service.find_due_jobs(NOW + EVERY / 2) == [], "once a minute"
        return [job.task for job in jobs]

    assert find(0) == find(180) == []
    assert find(179) == [Task.TRIM]
    assert library.world.services.retention_budget.find_due_jobs(NOW) == [], "no limit by default"


def test_admins_see_the_budget(library: Library) -> None:
    def check(budget: int) -> list[tuple[Severity, str]]:
        settings = dataclasses.replace(library.world.services.settings, retention_total=budget)
        return [(r.word, r.text) for r in health.check_mongodb(settings) if r.check == "entries"]

    assert check(0) == []
    assert check(180) == [(Severity.OK, "180 entries of at most 180 (EVENTR_RETENTION_TOTAL).")]
    [(word, text)] = check(10)
    assert word is Severity.WARN
    assert "is deleting" in text
    library.make(10).trim_entries(NOW, never)
    assert "Raise the limit" in check(10)[0][1]
