"""Polls that bring nothing: many feeds are written at once, each with its own time."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.gateways.feeds.digest import Digester
from app.mappers.feeds.feed_states import ALIKE
from app.models.feeds.feed import FetchRecord, NextCheck
from app.models.feeds.fetched import Fetched, FetchRequest

HOUR = dt.timedelta(hours=1)


@pytest.fixture
def feed_ids(services: Services) -> list[int]:
    now = clock.now()
    urls = (f"https://feeds.example/{n}" for n in range(2 * ALIKE + 5))
    return [services.gateways.feeds.get_or_create(url, now=now).id for url in urls]


def _times(db: Any) -> dict[int, tuple[dt.datetime, dt.datetime | None]]:
    return {doc["_id"]: (doc["next_check_at"], doc.get("checked_at")) for doc in db.feeds.find()}


def test_feeds_with_the_same_time_and_with_others_get_their_own(
    services: Services, db: Any, feed_ids: list[int]
) -> None:
    now = clock.now().replace(microsecond=0)
    same, fewer, others = feed_ids[:ALIKE], feed_ids[ALIKE : 2 * ALIKE - 1], feed_ids[2 * ALIKE - 1 :]
    wanted = dict.fromkeys(same, now + HOUR) | dict.fromkeys(fewer, now + 2 * HOUR)
    wanted |= {feed_id: now + dt.timedelta(minutes=n) for n, feed_id in enumerate(others)}

    services.gateways.feeds.record_unchanged([NextCheck(*one) for one in wanted.items()], now)

    assert _times(db) == {feed_id: (until, now) for feed_id, until in wanted.items()}


@pytest.mark.parametrize("number", [1, ALIKE], ids=["looked up", "alike"])
def test_what_somebody_holds_or_is_out_of_order_is_left_alone(
    services: Services, db: Any, feed_ids: list[int], number: int
) -> None:
    now = clock.now().replace(microsecond=0)
    held, torn, free = feed_ids[0], feed_ids[1], feed_ids[2 : 2 + number]
    db.feeds.update_one({"_id": held}, {"$set": {"claim_token": "another"}})
    db.feeds.update_one({"_id": torn}, {"$set": {"torn": True}})
    before = _times(db)

    services.gateways.feeds.record_unchanged(
        [NextCheck(feed_id, now + HOUR) for feed_id in (held, torn, *free)], now
    )

    assert _times(db) == before | dict.fromkeys(free, (now + HOUR, now))


def test_batches_are_spread_as_feeds_are(services: Services, feed_ids: list[int]) -> None:
    (poll,) = services.gateways.feeds.find_polls(feed_ids[:1])
    unchanged = Fetched(FetchRequest(poll.url), 304, poll.url, unchanged=True, validators=poll.validators)
    digester, now = Digester(services.settings), clock.now()
    waits = [
        digester.calculate_rest(poll, unchanged, now, digester.make_batch_rng()) or dt.timedelta()
        for _ in range(300)
    ]
    assert min(waits) < 0.92 * HOUR
    assert max(waits) == HOUR  # no feed rests longer, so half of them rest just so long
    assert sorted(waits)[75] < 0.98 * HOUR


def test_the_log_of_fetches_says_what_was_nothing(services: Services, db: Any, feed_ids: list[int]) -> None:
    now = clock.now().replace(microsecond=0)
    gateway, feed_id = services.gateways.feeds, feed_ids[0]
    old = {"f": feed_id, "at": now, "s": 200, "ms": 7, "b": 0, "n": 0, "e": None}
    db.fetches.insert_one({"at": now, "of": [old]})
    told = [
        FetchRecord(feed_id, now + HOUR, 304, 5, 0),
        FetchRecord(feed_id, now + 2 * HOUR, 200, 6, 900, 2),
        FetchRecord(feed_id, now + 3 * HOUR, 0, 0, 0, 0, "timeout"),
    ]
    for record in told:
        gateway.record_fetches([record])
    assert gateway.find_fetches(feed_id) == [*reversed(told), FetchRecord(feed_id, now, 200, 7, 0)]
