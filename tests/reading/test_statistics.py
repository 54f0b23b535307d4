"""Reading statistics: counted only for those who want it, by their own days, and gone with the switch."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import InvalidError, StoreError
from app.models.accounts.actor import Actor
from app.models.reading.statistics import Counted, DayCounts, fill_days, find_day, sum_days, sum_months
from app.models.reading.stream import StreamKind, StreamRef
from app.runtime import identity_map
from tests.support.meanwhile import after
from tests.support.reader import add_user, pull, rss

URL = "https://feeds.example/one"


@pytest.fixture
def ann(services: Services) -> Actor:
    return add_user(services, "ann")


@pytest.fixture
def entries(services: Services, ann: Actor) -> list[int]:
    """Ids of five unread entries."""
    feed_id = services.subscriptions.subscribe(ann, URL).subscription.feed_id
    pull(services, [feed_id], {URL: rss("One", [(f"Entry {n}", "x") for n in range(5)])})
    return [entry.id for entry in services.mappers.entries.find_range(feed_id, 0, 1 << 40, 10)]


def today(services: Services, who: Actor) -> tuple[int, int, int]:
    days = services.statistics.list_days(who, 1)
    assert days is not None
    (one,) = days
    return one.read, one.starred, one.shared


def test_nothing_is_counted_before_it_is_switched_on(
    services: Services, ann: Actor, entries: list[int], db: Any
) -> None:
    services.reading.mark(ann, entries[:2], True)
    services.reading.set_starred(ann, entries[0], True)
    assert services.statistics.list_days(ann, 30) is None
    assert db.readingdays.count_documents({}) == 0
    services.statistics.set_enabled(ann, True)
    assert today(services, ann) == (0, 0, 0)


def test_count_that_comes_after_the_switch_is_deleted(
    services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.statistics.set_enabled(ann, True)
    after(monkeypatch, services.mappers.users, "find", lambda: services.statistics.set_enabled(ann, False))
    with identity_map.open_scope():
        services.gateways.statistics.count(ann.user_id, Counted.READ, 1, clock.now())
    assert services.gateways.statistics.list_all(ann.user_id) == []


def test_what_is_read_starred_and_shared_is_counted_once(
    services: Services, ann: Actor, entries: list[int]
) -> None:
    services.statistics.set_enabled(ann, True)
    for _ in range(2):
        services.reading.mark(ann, entries[:2], True)
        services.reading.set_starred(ann, entries[0], True)
        services.reading.set_many_starred(ann, entries[:3], True)
        services.sharing.share(ann, entries[1])
    services.reading.set_starred(ann, entries[0], False)
    services.reading.mark(ann, entries[:1], False)
    assert today(services, ann) == (2, 3, 1)


def test_marking_a_whole_list_counts_nothing(services: Services, ann: Actor, entries: list[int]) -> None:
    services.statistics.set_enabled(ann, True)
    services.reading.mark_all(ann, StreamRef(StreamKind.ALL))
    assert today(services, ann) == (0, 0, 0)


def test_switching_off_deletes_everything_of_this_user_alone(
    services: Services, ann: Actor, entries: list[int], db: Any
) -> None:
    ben = add_user(services, "ben")
    for who in (ann, ben):
        services.statistics.set_enabled(who, True)
        services.gateways.statistics._statistics.add(
            who.user_id, dt.date(2026, 1, 5), Counted.READ, 3, clock.now() + dt.timedelta(days=9)
        )
    services.statistics.set_enabled(ann, True)  # nothing new: nothing is deleted
    assert db.readingdays.count_documents({"user_id": ann.user_id}) == 1
    services.statistics.set_enabled(ann, False)
    assert db.readingdays.count_documents({"user_id": ann.user_id}) == 0
    assert db.readingdays.count_documents({"user_id": ben.user_id}) == 1
    services.reading.mark(ann, entries[:2], True)
    assert db.readingdays.count_documents({"user_id": ann.user_id}) == 0


def test_days_expire(services: Services, ann: Actor, entries: list[int], db: Any) -> None:
    services.statistics.set_enabled(ann, True)
    services.reading.mark(ann, entries[:1], True)
    (doc,) = db.readingdays.find()
    assert doc["expires"] - clock.now() > dt.timedelta(days=services.statistics.days)
    assert db.readingdays.index_information()["expires"]["expireAfterSeconds"] == 0


def test_more_days_than_are_kept_are_refused(services: Services, ann: Actor) -> None:
    services.statistics.set_enabled(ann, True)
    for days in (0, services.statistics.days + 1):
        with pytest.raises(InvalidError):
            services.statistics.list_days(ann, days)
    assert len(services.statistics.list_days(ann, services.statistics.days) or ()) == services.statistics.days


def test_a_mark_succeeds_without_the_count(
    services: Services, ann: Actor, entries: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    services.statistics.set_enabled(ann, True)

    def refuse(*args: object) -> None:
        raise StoreError

    monkeypatch.setattr(services.gateways.statistics._statistics, "add", refuse)
    services.reading.mark(ann, entries[:1], True)
    assert services.reading.find_read_states(ann, entries[:1]) == {entries[0]: True}


@pytest.mark.parametrize(
    ("zone", "day"),
    [("", 1), ("Europe/Berlin", 2), ("America/New_York", 1), ("Pacific/Kiritimati", 2), ("Nowhere/Else", 1)],
)
def test_a_day_is_that_of_the_users_zone(zone: str, day: int) -> None:
    assert find_day(dt.datetime(2026, 3, 1, 23, 30, tzinfo=dt.UTC), zone) == dt.date(2026, 3, day)


def test_sums() -> None:
    days = fill_days([DayCounts(dt.date(2026, 2, 28), 3, 1, 0)], dt.date(2026, 3, 2), 4)
    assert [(one.day.day, one.read) for one in days] == [(27, 0), (28, 3), (1, 0), (2, 0)]
    assert sum_days(days) == DayCounts(dt.date(2026, 2, 27), 3, 1, 0)
    assert [(one.day.month, one.read) for one in sum_months(days)] == [(2, 3), (3, 0)]
    assert sum_days([]).is_empty
