"""Pulls that users ask for: whoever has many slow feeds holds few of the workers (X06, F13)."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
import redis

from app import clock
from app.bootstrap.services import Services
from app.errors import RateLimitedError
from app.models.accounts.actor import Actor
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Queue
from app.services.feeds.refresh_requests import BATCH, BATCHES
from tests.support.database import World

MONTH = dt.timedelta(days=30)


@pytest.fixture
def share(services: Services) -> int:
    return services.settings.pulls_per_minute


def _waiting(client: redis.Redis) -> int:
    length: Any = client.llen(redis_keys.make_queue_key(Queue.PULL))
    return int(length)


def _follow(services: Services, actor: Actor, name: str, count: int) -> list[str | None]:
    return [
        services.subscriptions.subscribe(actor, f"https://{name}{n}.example.org/feed").ticket
        for n in range(count)
    ]


def test_X06_first_pulls_beyond_a_share_are_left_to_the_updater(
    services: Services, alice: Actor, bob: Actor, redis_client: redis.Redis, share: int
) -> None:
    tickets = _follow(services, alice, "slow", share + 10)
    assert [ticket is not None for ticket in tickets] == [True] * share + [False] * 10
    assert _waiting(redis_client) == share
    # None is forgotten: those without a job are due, like all the others.
    assert len(services.pull.find_due(clock.now(), 100)) == share + 10
    # Whoever else subscribes does not wait behind them.
    assert _follow(services, bob, "good", 1) != [None]


def test_what_was_in_error_is_due_at_once_for_whom_has_no_pull_left(
    services: Services, world: World, alice: Actor, bob: Actor, db: Any, share: int
) -> None:
    feed_id = services.subscriptions.subscribe(bob, "https://ill.example.org/feed").subscription.feed_id
    ill = {"next_check_at": clock.now() + MONTH, "errors": 9, "error": "http_503"}
    db.feeds.update_one({"_id": feed_id}, {"$set": ill})
    _follow(services, alice, "slow", share)
    assert services.subscriptions.subscribe(alice, "https://ill.example.org/feed").ticket is None
    assert feed_id in {feed.id for feed in services.pull.find_due(clock.now(), 100)}


def test_what_was_gone_is_due_at_once_for_whom_has_no_pull_left(
    services: Services, alice: Actor, bob: Actor, db: Any, share: int
) -> None:
    feed_id = services.subscriptions.subscribe(bob, "https://gone.example.org/feed").subscription.feed_id
    db.feeds.update_one(
        {"_id": feed_id}, {"$set": {"next_check_at": None, "errors": 1, "error": "gone", "last_seq": 3}}
    )
    _follow(services, alice, "slow", share)
    assert services.subscriptions.subscribe(alice, "https://gone.example.org/feed").ticket is None
    assert feed_id in {feed.id for feed in services.pull.find_due(clock.now(), 100)}


def test_what_is_nowhere_to_be_fetched_is_never_due(services: Services, bob: Actor, db: Any) -> None:
    names = ("person", "merged", "held")
    one, other, third = (
        services.subscriptions.subscribe(bob, f"https://{name}.example/feed").subscription.feed_id
        for name in names
    )
    db.feeds.update_one({"_id": one}, {"$set": {"kind": "shared"}})
    db.feeds.update_one({"_id": other}, {"$set": {"merged_into": third}})
    db.feeds.update_one({"_id": third}, {"$set": {"claim_token": "another"}})
    db.feeds.update_many({}, {"$set": {"next_check_at": None}})
    services.gateways.feeds.force_due([one, other, third], clock.now())
    assert services.pull.find_due(clock.now(), 100) == []


def test_many_feeds_are_checked_by_few_jobs(
    services: Services, alice: Actor, redis_client: redis.Redis, db: Any
) -> None:
    count = BATCH * BATCHES + 30
    _follow(services, alice, "feed", count)
    redis_client.delete(redis_keys.make_queue_key(Queue.PULL))
    db.feeds.update_many({}, {"$set": {"next_check_at": clock.now() + MONTH}})
    db.feeds.update_many({"url": {"$regex": "5"}}, {"$set": {"next_check_at": None}})  # gone, some time ago
    asked = services.subscriptions.refresh(alice)
    assert (asked.count, len(asked.tickets)) == (count, BATCHES)
    assert len(services.pull.find_due(clock.now(), 1000)) == 30


def test_a_few_feeds_are_checked_each_by_its_own_job(services: Services, alice: Actor) -> None:
    _follow(services, alice, "feed", 5)
    asked = services.subscriptions.refresh(alice)
    assert (asked.count, len(asked.tickets)) == (5, 5)


def test_X06_who_checks_again_and_again_is_told_to_wait(services: Services, alice: Actor, share: int) -> None:
    feed_id = services.subscriptions.subscribe(alice, "https://a.example.org/feed").subscription.feed_id
    for _ in range(share):
        services.subscriptions.refresh(alice, feed_id)
    for ask in (
        lambda: services.subscriptions.refresh(alice, feed_id),
        lambda: services.subscriptions.refresh(alice),
        lambda: services.bulk_edit.refresh(alice, [feed_id]),
    ):
        with pytest.raises(RateLimitedError, match="Try again in"):
            ask()
