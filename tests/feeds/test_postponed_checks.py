"""Polls that bring nothing: many feeds are written at once, each with its own time."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.gateways.feeds.digest import Digester
from app.models.feeds.fetched import Fetched, FetchRequest
from tests.support.fetches import quiet_poll

HOUR = dt.timedelta(hours=1)


@pytest.fixture
def feed_ids(services: Services) -> list[int]:
    now = clock.now()
    urls = (f"https://feeds.example/{n}" for n in range(8))
    return [services.gateways.feeds.get_or_create(url, now=now).id for url in urls]


def _times(db: Any) -> dict[int, tuple[dt.datetime, dt.datetime | None]]:
    return {doc["_id"]: (doc["next_check_at"], doc.get("checked_at")) for doc in db.feeds.find()}


def test_each_feed_gets_its_own_time(services: Services, db: Any, feed_ids: list[int]) -> None:
    now = clock.now().replace(microsecond=0)
    wanted = {feed_id: now + dt.timedelta(minutes=n // 2) for n, feed_id in enumerate(feed_ids)}
    services.gateways.feeds.record_unchanged([quiet_poll(*one) for one in wanted.items()], now)
    assert _times(db) == {feed_id: (until, now) for feed_id, until in wanted.items()}


def test_what_somebody_holds_or_is_out_of_order_is_left_alone(
    services: Services, db: Any, feed_ids: list[int]
) -> None:
    now = clock.now().replace(microsecond=0)
    held, torn, free = feed_ids[0], feed_ids[1], feed_ids[2:4]
    db.feeds.update_one({"_id": held}, {"$set": {"claim_token": "another"}})
    db.feeds.update_one({"_id": torn}, {"$set": {"torn": True}})
    before = _times(db)

    services.gateways.feeds.record_unchanged(
        [quiet_poll(feed_id, now + HOUR) for feed_id in (held, torn, *free)], now
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
