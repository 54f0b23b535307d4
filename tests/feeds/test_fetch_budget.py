"""The budget of fetched bytes, per user and in all."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.errors import RateLimitedError
from app.models.accounts.actor import Actor
from app.services.feeds.pull_batch import PullResult
from app.services.fetch_budget import FEW, get_seconds_left
from tests.support.rawserver import RawServer, Reply, Request
from tests.support.world import World

NOON = dt.datetime(2026, 5, 4, 12, tzinfo=dt.UTC)
MORNING = NOON + dt.timedelta(hours=13)
MB = 1 << 20
RSS = b"<rss version='2.0'><channel><title>T</title><item><title>%d</title></item></channel></rss>"


class Site:
    """A server on loopback with feeds of 600 KB, and services with a small budget."""

    def __init__(self, services: Services, server: RawServer) -> None:
        self.services, self.server, self._number = services, server, 0

    def follow(self, path: str, actor: Actor) -> int:
        self.change(path)
        return self.services.subscriptions.subscribe(actor, self.server.url(path)).subscription.feed_id

    def change(self, path: str) -> None:
        self._number += 1
        self.server.set(path, Reply(body=RSS % self._number + b" " * 600_000))

    def pull(self, feed_id: int) -> PullResult:
        async def run() -> PullResult:
            with bootstrap.build_fetcher(self.services.settings) as fetcher:
                return await self.services.pull.pull([feed_id], fetcher)

        return asyncio.run(run())


@pytest.fixture
def site(services: Services, request: pytest.FixtureRequest) -> Iterator[Site]:
    limits: dict[str, Any] = getattr(request, "param", {"fetch_bytes_per_user": MB})
    with RawServer({}) as server, clock.set_source(lambda: NOON):
        small = dataclasses.replace(services.settings, fetch_allow=(server.origin,), **limits)
        with contextlib.closing(bootstrap.build(small)) as built:
            yield Site(built, server)


def test_feeds_of_a_user_who_has_spent_the_budget_rest_until_midnight(
    site: Site, alice: Actor, bob: Actor
) -> None:
    feed_id = site.follow("/a", alice)
    for _ in range(2):
        assert site.pull(feed_id).feeds == 1
        site.change("/a")
    result = site.pull(feed_id)
    assert (result.feeds, result.put_off) == (0, 1)
    due = site.services.gateways.feeds.get(feed_id).next_check_at
    assert due is not None
    assert NOON < due <= NOON + dt.timedelta(hours=12)
    with pytest.raises(RateLimitedError) as refused:
        site.services.subscriptions.refresh(alice)
    assert "720 minutes" in refused.value.message
    with pytest.raises(RateLimitedError):
        site.services.discovery.discover(alice, "https://new.example.org/", wait=0)

    site.follow("/a", bob)
    assert site.pull(feed_id).feeds == 1, "a reader with a budget has come"
    with clock.set_source(lambda: MORNING):
        site.change("/a")
        assert site.pull(feed_id).feeds == 1, "a new day"
        site.services.subscriptions.refresh(alice)


def test_readers_share_the_bytes_of_a_feed(site: Site, alice: Actor, bob: Actor) -> None:
    feed_id = site.follow("/a", alice)
    site.follow("/a", bob)
    for _ in range(3):
        assert site.pull(feed_id).feeds == 1
        site.change("/a")
    site.services.subscriptions.refresh(alice)
    assert site.pull(feed_id).feeds == 1
    with pytest.raises(RateLimitedError):
        site.services.subscriptions.refresh(bob)


def test_a_feed_with_many_readers_costs_nobody(site: Site) -> None:
    readers = [Actor(1_700_000_000_000_100 + n) for n in range(FEW + 1)]
    [feed_id] = {site.follow("/a", reader) for reader in readers}
    for _ in range(FEW * 2 + 4):
        assert site.pull(feed_id).feeds == 1
        site.change("/a")
    site.services.subscriptions.refresh(readers[0])


@pytest.mark.parametrize("site", [{"fetch_bytes_per_day": MB}], indirect=True)
def test_a_server_that_has_spent_its_budget_fetches_nothing_until_midnight(site: Site, alice: Actor) -> None:
    feed_id = site.follow("/a", alice)
    assert [feed.id for feed in site.services.pull.find_due(NOON, 5)] == [feed_id]
    for _ in range(2):
        site.pull(feed_id)
        site.change("/a")
    later = NOON + dt.timedelta(hours=11)
    with clock.set_source(lambda: later):
        assert site.services.pull.find_due(later, 5) == []
        assert site.pull(feed_id).put_off == 1
        with pytest.raises(RateLimitedError) as refused:
            site.services.subscriptions.refresh(alice)
        assert "60 minutes" in refused.value.message
    with clock.set_source(lambda: MORNING):
        assert [feed.id for feed in site.services.pull.find_due(MORNING, 5)] == [feed_id]
        assert site.pull(feed_id).feeds == 1


def test_discoveries_count_for_the_user_who_starts_them(services: Services, alice: Actor, bob: Actor) -> None:
    own = dataclasses.replace(services.settings, fetch_bytes_per_user=MB)
    page = Reply(body=b"<p>x" + b" " * (MB + 1))
    with RawServer({"/": page}) as server, contextlib.closing(bootstrap.build(own)) as built:
        world = World(server)
        world.add("big.example", "93.184.215.20")

        async def work(key: int) -> None:
            with world.fetcher() as fetcher:
                await built.discovery.run(key, fetcher, lambda **_: None)

        found = built.discovery.discover(alice, "http://big.example/", wait=0)
        asyncio.run(work(found.key))
        with pytest.raises(RateLimitedError):
            built.discovery.discover(alice, "http://other.example/", wait=0)
        assert built.discovery.discover(bob, "http://other.example/", wait=0).wait


@pytest.mark.parametrize(
    ("now", "seconds"),
    [
        (NOON, 12 * 3600),
        (dt.datetime(2026, 5, 4, tzinfo=dt.UTC), 24 * 3600),
        (dt.datetime(2026, 12, 31, 23, 59, 59, 500_000, tzinfo=dt.UTC), 1),
    ],
)
def test_the_day_ends_at_midnight(now: dt.datetime, seconds: int) -> None:
    assert get_seconds_left(now) == seconds


@pytest.mark.parametrize("kind", ["spelling", "move", "validators"])
@pytest.mark.parametrize("site", [{"fetch_bytes_per_user": MB}], indirect=True)
def test_what_a_pull_fetches_besides_the_feeds_costs_too(site: Site, alice: Actor, kind: str) -> None:
    """Other spellings of an address, addresses that a feed moves to, and tests of validators."""
    feed_id = site.follow("/a", alice)
    gateway, db = site.services.gateways.feeds, site.services.store.database
    if kind == "spelling":
        site.server.set("/a", Reply(status=404))
        site.server.set("/b", Reply(body=b"<p>No feed" + b" " * (2 * MB)))
        db.feeds.update_one({"_id": feed_id}, {"$set": {"other_url": site.server.url("/b")}})
        site.pull(feed_id)
    elif kind == "move":
        head = b"<rss version='2.0' xmlns:i='http://www.itunes.com/dtds/podcast-1.0.dtd'><channel>"
        moved = b"<i:new-feed-url>%s</i:new-feed-url>" % site.server.url("/b").encode()
        for number in range(3):
            body = head + b"<title>T</title>" + moved + b"<item><title>%d</title></item></channel></rss>"
            site.server.set("/a", Reply(body=body % number))
            site.server.set("/b", Reply(body=RSS % 1 + b" " * (2 * MB)))
            site.pull(feed_id)
    else:
        db.feeds.update_one(
            {"_id": feed_id}, {"$set": {"validators": {"etag": '"1"', "last_modified": None}}}
        )
        db.feeds.update_one({"_id": feed_id}, {"$set": {"distrusted_at": NOON}})
        site.server.set("/a", _answer_long_to_a_condition)
        site.pull(feed_id)
    assert gateway.get(feed_id)
    with pytest.raises(RateLimitedError):
        site.services.subscriptions.refresh(alice)


def _answer_long_to_a_condition(request: Request) -> Reply:
    return Reply(body=RSS % 1 + b" " * (2 * MB if "if-none-match" in request.headers else 10))
