"""Pushes in true workers: a poisonous feed costs three crashes and no more."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import redis

from app import clock
from app.bootstrap.services import Services
from app.config import Settings
from app.models.accounts.actor import Actor
from app.models.feeds.feed import Feed
from app.models.jobs.jobs import Job, Queue, Task
from tests.feeds.websub.conftest import HUB
from tests.jobs.test_poison import faulty_parser as faulty_parser
from tests.support import manager, reader
from tests.support.rawserver import RawServer, file_reply


@pytest.mark.usefixtures("faulty_parser")
def test_X03_a_poisonous_feed_that_is_pushed_rests_after_its_third_crash(
    services: Services, settings: Settings, redis_client: redis.Redis, eventually: Callable[..., Any]
) -> None:
    rows, websubs = services.mappers.websubs, services.gateways.websubs
    with RawServer({"/feed": file_reply(reader.rss("Blog", [("poison", "")]))}) as server:
        url = server.url("/feed")
        feed_id = services.subscriptions.subscribe(Actor(1), url).subscription.feed_id
        assert rows.add(feed_id, HUB, url, token="token", secret="secret", now=clock.now())
        pushed = rows.find_current([feed_id])[feed_id]
        interval = websubs._interval
        rows.record_push(pushed.id, clock.now(), interval, interval)
        redis_client.flushall()  # the reader's own pull would crash them first
        services.jobs.enqueue(Job(Task.WEBSUB_PULL, {"feed_id": feed_id}, Queue.PULL_SYSTEM))

        def feed() -> Feed:
            return services.gateways.feeds.get(feed_id)

        with manager.running(dataclasses.replace(settings, fetch_allow=(server.origin,))):
            eventually(lambda: feed().error == "crashed", message="the third attempt notes it first")
            eventually(
                lambda: rows.find_current([feed_id])[feed_id].pull_at is None, message="no pull is owed"
            )
    assert len(server.seen("/feed")) <= 3
    rows.record_push(pushed.id, clock.now(), interval, interval)
    assert websubs.begin_pull(feed_id, clock.now()) is None, "a further push does not crash them again"
    assert rows.find_current([feed_id])[feed_id].pull_at is None
