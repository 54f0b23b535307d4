"""Feeds whose servers answer slowly: the next fetch waits longer, and in a lane of its own."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import pytest
from pymongo.database import Database

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import FetchError
from app.gateways.feeds.digest import Digester
from app.models.feeds.feed import DueFeed, FeedPoll
from app.models.feeds.fetched import Fetched, FetchRequest
from app.services.feeds.pull_batch import PullResult
from app.services.feeds.slow_lane import SlowLane
from tests.feeds.test_digest import NOW, after, answer, digest, feed, item, rss
from tests.feeds.test_pull import Site
from tests.support.rawserver import RawServer, Reply

#: Limits that the slow server below exceeds, and longer ones for slow feeds.
LIMITS = {"fetch_first_byte_timeout": 0.3, "fetch_total_timeout": 0.5}
FEED = rss(item(1))
TIMEOUT = FetchError("timeout", "waited too long for the first byte")


@pytest.fixture
def site(services: Services) -> Iterator[Site]:
    with RawServer({}) as server:
        own = dataclasses.replace(services.settings, fetch_allow=(server.origin,), **LIMITS)
        with contextlib.closing(bootstrap.build(own)) as built:
            yield Site(server, built, own)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=FEED, delay=1.0),
        Reply(body=FEED, drip=(len(FEED) // 4, 0.2)),
        Reply(status=301, headers=(("Location", "/slow"),), delay=0.2),
    ],
    ids=["first byte", "whole fetch", "after a redirect"],
)
def test_a_feed_that_timed_out_is_read_at_the_next_try(site: Site, reply: Reply) -> None:
    site.server.set("/feed", reply)
    site.server.set("/slow", Reply(body=FEED, delay=0.6))
    followed = site.follow("/feed")
    site.pull([followed.id])
    stored = site.feed(followed.id)
    assert (stored.error, stored.slow, stored.last_seq) == ("timeout", True, 0)
    assert [due.slow for due in site.services.pull.find_due(NOW.replace(year=2100), 5)] == [True]

    site.pull([followed.id])
    stored = site.feed(followed.id)
    assert (stored.error, stored.slow, stored.last_seq) == (None, True, 1)

    site.server.set("/feed", Reply(body=rss(item(2), item(1))))
    site.pull([followed.id])
    assert site.feed(followed.id).last_seq == 2


def test_a_new_address_is_not_slow(site: Site) -> None:
    site.server.set("/feed", Reply(body=FEED, delay=0.6))
    followed = site.follow("/feed")
    site.pull([followed.id])
    site.services.gateways.feeds.move(followed.id, site.server.url("/other"))
    assert not site.feed(followed.id).slow


@pytest.mark.parametrize(
    ("seconds", "error", "is_slow"),
    [
        (16.0, None, True),
        (10.0, None, False),
        (20.0, TIMEOUT, True),
        (5.0, FetchError("timeout", "waited too long for the connect"), False),
        (5.0, FetchError("connect_failed"), False),
        (25.0, FetchError("http_503", "HTTP 503"), True),
    ],
)
def test_only_fetches_near_the_limit_are_slow(
    seconds: float, error: FetchError | None, is_slow: bool
) -> None:
    fetched = answer(None if error else FEED, seconds=seconds, error=error)
    assert after(feed(), digest(feed(), fetched)).slow == is_slow
    # A feed that was slow stays so until it answers in half of that time.
    was = feed(slow=True, error="timeout", errors=1)
    assert after(was, digest(was, fetched)).slow
    quick = answer(FEED, seconds=1.0)
    assert not after(was, digest(was, quick)).slow


def test_a_slow_poll_without_news_is_not_written() -> None:
    fetched = answer(None, seconds=17.0, unchanged=True, status=304)
    for slow in (True, False):
        poll = FeedPoll(7, fetched.url, 0, validators=fetched.validators, slow=slow)
        fetched = dataclasses.replace(fetched, validators=poll.validators)
        assert Digester(Settings()).calculate_rest(poll, fetched, NOW) is not None


class Watcher:
    """A fetcher that notes which requests run at once, and ends them when told."""

    def __init__(self) -> None:
        self.running: list[FetchRequest] = []
        self.may_end = asyncio.Event()

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        wanted = list(requests)
        self.running += wanted
        if any(request.slow for request in wanted):
            await self.may_end.wait()
        for request in wanted:
            yield Fetched(request, 304, request.url, unchanged=True, validators=request.validators)


def test_slow_feeds_take_a_tenth_of_a_workers_connections(
    services: Services, db: Database[dict[str, Any]]
) -> None:
    own = dataclasses.replace(services.settings, fetch_connections=30, fetch_slow_percent=10)
    with contextlib.closing(bootstrap.build(own)) as built:
        urls = [f"https://h{number}.example/" for number in range(12)]
        ids = [built.gateways.feeds.get_or_create(url, now=NOW).id for url in urls]
        slow, others = ids[:8], ids[8:]
        db["feeds"].update_many({"_id": {"$in": slow}}, {"$set": {"slow": True}})

        async def run() -> tuple[PullResult, PullResult, PullResult]:
            watcher = Watcher()
            first = asyncio.create_task(built.pull.pull(slow[:4], watcher))
            while len(watcher.running) < 3:
                await asyncio.sleep(0)
            # Other feeds don't wait for them, not even beside slow ones for which there is no room.
            async with asyncio.timeout(60):
                second = await built.pull.pull([*others, *slow[4:]], watcher)
            assert len(watcher.running) == 3 + len(others)
            watcher.may_end.set()
            held = await first
            third = await built.pull.pull(slow[4:6], watcher)
            return held, second, third

        held, second, third = asyncio.run(run())
        assert (held.feeds, held.put_off) == (3, 1)
        assert (second.feeds, second.put_off) == (len(others), 4)
        assert (third.feeds, third.put_off) == (2, 0), "there is room again"
        left = built.gateways.feeds.get(slow[7]).next_check_at
        assert left is not None


def test_a_canceled_pull_leaves_the_lane(services: Services, db: Database[dict[str, Any]]) -> None:
    own = dataclasses.replace(services.settings, fetch_connections=10)
    with contextlib.closing(bootstrap.build(own)) as built:
        [one, two] = [
            built.gateways.feeds.get_or_create(f"https://h{n}.example/", now=NOW).id for n in (1, 2)
        ]
        db["feeds"].update_many({}, {"$set": {"slow": True}})

        async def run() -> PullResult:
            watcher = Watcher()
            task = asyncio.create_task(built.pull.pull([one], watcher))
            while not watcher.running:
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            watcher.may_end.set()
            return await built.pull.pull([two], watcher)

        assert asyncio.run(run()).feeds == 1


def test_slow_feeds_of_one_host_end_within_a_jobs_time() -> None:
    lane = SlowLane(Settings())
    polls = {n: FeedPoll(n, "https://one.example/", 0, slow=True) for n in range(10)}
    admitted, late = lane.admit_polls(polls)
    assert len(admitted) == Settings().fetch_per_host
    assert len(late) == 10 - len(admitted)


def test_slow_feeds_have_batches_of_their_own(services: Services) -> None:
    due = [DueFeed(n, f"h{n}.example", slow=n % 10 == 0) for n in range(300)]
    batches = services.pull.make_batches(due)
    assert sorted(i for batch in batches for i in batch) == list(range(300))
    assert all(len({i % 10 == 0 for i in batch}) == 1 for batch in batches)
    room = SlowLane(services.settings).room
    assert all(len(batch) <= room for batch in batches if batch[0] % 10 == 0)
