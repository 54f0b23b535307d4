"""Pulls within the budgets of hosts: real server, fetcher, MongoDB and Redis."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.models.accounts.actor import Actor
from app.models.feeds.feed import Feed, FeedPoll
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.feeds.hosts import parse_host
from app.services.feeds.host_limits import HostLimits
from app.services.feeds.pull_batch import PullResult
from tests.support.rawserver import RawServer, Reply, file_reply

ITEM = b"<item><guid>g1</guid><title>One</title></item>"
RSS = b"<rss version='2.0'><channel><title>Blog</title>%s</channel></rss>" % ITEM


@pytest.fixture
def server() -> Iterator[RawServer]:
    with RawServer(hosts=("127.0.0.1", "127.0.0.2"), default=file_reply(RSS)) as running:
        yield running


@pytest.fixture
def settings(settings: Settings, server: RawServer) -> Settings:
    return dataclasses.replace(
        settings,
        fetch_allow=("127.0.0.0/8",),
        fetch_ports=(server.port,),
        fetch_host_rate=0.01,
        fetch_host_burst=2,
        fetch_host_rates=("127.0.0.1=0.01",),
    )


class Puller:
    """Follows feeds of the server and pulls them."""

    def __init__(self, services: Services, settings: Settings, server: RawServer) -> None:
        self._services, self._settings, self._server = services, settings, server

    def follow(self, count: int, host: str = "127.0.0.1") -> list[int]:
        addresses = [self._server.url(f"/{n}", host) for n in range(count)]
        subscribe = self._services.subscriptions.subscribe
        return [subscribe(Actor(1), address).subscription.feed_id for address in addresses]

    def feed(self, feed_id: int) -> Feed:
        return self._services.gateways.feeds.get(feed_id)

    def waits(self, feed_ids: Sequence[int]) -> list[float]:
        """Seconds until each feed is due."""
        now, found = clock.now(), [self.feed(i).next_check_at for i in feed_ids]
        return [(when - now).total_seconds() for when in found if when is not None]

    def pull(self, feed_ids: Sequence[int], **options: Any) -> PullResult:
        async def run() -> PullResult:
            with bootstrap.build_fetcher(self._settings) as fetcher:
                return await self._services.pull.pull(feed_ids, fetcher, **options)

        return asyncio.run(run())


@pytest.fixture
def puller(services: Services, settings: Settings, server: RawServer) -> Puller:
    return Puller(services, settings, server)


def test_feeds_above_the_budget_are_put_off_one_after_the_other(puller: Puller, server: RawServer) -> None:
    ids = puller.follow(6)
    before = [puller.feed(i) for i in ids]
    result = puller.pull(ids, only_due=True)
    assert (result.feeds, result.put_off, result.skipped) == (2, 4, 0)
    assert server.served == 2
    pulled = {i for i in ids if puller.feed(i).checked_at}
    assert len(pulled) == 2
    late = sorted(set(ids) - pulled)
    # Nothing of them changed but their time, and they come back a token apart.
    for feed_id, old in zip(ids, before, strict=True):
        if feed_id in late:
            assert dataclasses.replace(puller.feed(feed_id), next_check_at=old.next_check_at) == old
    # … measured a moment later.
    assert sorted(puller.waits(late)) == [pytest.approx(100 * n, abs=30) for n in (1, 2, 3, 4)]


def test_a_feed_without_a_token_is_asked_when_its_time_has_come(
    puller: Puller, server: RawServer, redis_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = puller.follow(3)
    puller.pull(ids, only_due=True)
    (late,) = [i for i in ids if not puller.feed(i).checked_at]
    later = clock.now() + dt.timedelta(seconds=120)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert puller.pull([late], only_due=True).put_off == 1  # Redis has its own clock: no token yet
    redis_client.flushall()
    much_later = later + dt.timedelta(seconds=240)
    monkeypatch.setattr(clock, "now", lambda: much_later)
    assert puller.pull([late], only_due=True).feeds == 1


def test_people_go_first_and_keep_an_earlier_time(puller: Puller) -> None:
    ids = puller.follow(5)
    # A person's pull may run ahead of the rate by a second burst.
    assert puller.pull(ids[:4]).feeds == 4
    before = puller.feed(ids[0]).next_check_at
    result = puller.pull(ids)
    assert (result.feeds, result.put_off) == (0, 5)
    # In an hour it is due anyway; a refresh that found no token does not move that away.
    assert before is not None
    moved = puller.feed(ids[0]).next_check_at
    assert moved is not None
    assert moved <= before


LONG_AGO = dt.timedelta(hours=2)


def _answered(db: Any, feed_ids: Sequence[int], ago: dt.timedelta = LONG_AGO) -> None:
    """Let feeds have answered some time ago."""
    db.feeds.update_many({"_id": {"$in": list(feed_ids)}}, {"$set": {"checked_at": clock.now() - ago}})


def _limit(
    puller: Puller, server: RawServer, redis_client: Any, feed_ids: Sequence[int], reply: Reply
) -> None:
    """Pull feeds whose host limits requests, and forget that they took tokens."""
    for number in range(len(feed_ids)):
        server.set(f"/{number}", reply)
    for feed_id in feed_ids:
        redis_client.delete("eventr:rate:127.0.0.1")
        assert puller.pull([feed_id], only_due=True).errors == 1


@pytest.mark.parametrize(
    ("status", "headers", "own", "rest"),
    [
        (429, ("Retry-After: 900",), 900, 900),
        (503, ("Retry-After: 600",), 600, 600),
        (429, (), 60, 60),
        # Three feeds do not speak for a day of all the others (V08).
        (429, ("Retry-After: 99999999",), 86_400, 900),
    ],
)
def test_a_host_that_wants_rest_for_several_feeds_gets_it_for_all(
    puller: Puller,
    server: RawServer,
    db: Any,
    redis_client: Any,
    status: int,
    headers: tuple[str, ...],
    own: int,
    rest: int,
) -> None:
    ids = puller.follow(8)
    _answered(db, ids)
    limited, lively, others = ids[:3], ids[3], ids[4:]
    elsewhere = puller.follow(1, "127.0.0.2")
    fields = tuple((name, value) for name, _, value in (line.partition(": ") for line in headers))
    _limit(puller, server, redis_client, limited, Reply(status=status, headers=fields))
    _answered(db, [lively], dt.timedelta(minutes=5))
    redis_client.delete("eventr:rate:127.0.0.1")
    served = server.served
    result = puller.pull([lively, *others, *elsewhere], only_due=True)
    # A feed that has just answered goes on.
    assert (result.feeds, result.put_off) == (2, 4)
    assert server.served == served + 2
    assert puller.feed(lively).error is None
    waits = sorted(puller.waits(others))
    assert rest - 30 <= waits[0] <= rest + 1
    assert puller.waits(limited[:1])[0] >= own - 30
    assert all(b - a == pytest.approx(100, abs=3) for a, b in itertools.pairwise(waits))
    # It was not their fault.
    assert {puller.feed(i).error for i in others} == {None}
    # A person's request passes once.
    assert [puller.pull([i]).feeds for i in others[:2]] == [1, 0]


@pytest.mark.parametrize("case", ["one feed", "never a feed"])
def test_a_host_does_not_rest_for_what_one_person_subscribes_to(
    puller: Puller, server: RawServer, db: Any, redis_client: Any, case: str
) -> None:
    wanting = puller.follow(1 if case == "one feed" else 4)
    if case != "never a feed":
        _answered(db, wanting)
    reply = Reply(status=429, headers=(("Retry-After", "900"),))
    _limit(puller, server, redis_client, wanting, reply)
    assert server.served
    assert not redis_client.exists("eventr:stop:127.0.0.1")


@pytest.mark.parametrize(
    ("path", "stopped"), [("https://own.example/%d", True), ("https://a.example/%d", False)]
)
def test_a_redirect_from_elsewhere_stops_no_host(
    services: Services, redis_client: Any, path: str, stopped: bool
) -> None:
    limits = HostLimits(services.gateways.feeds, services.budget)
    for number in range(4):
        poll = FeedPoll(number, path % number, 0, checked_ms=1)
        end = f"https://own.example/{number}"
        limits.record_backoff(poll, Fetched(FetchRequest(poll.url), 429, end, retry_after=900))
    assert redis_client.exists("eventr:stop:own.example") == stopped


@pytest.mark.parametrize(
    ("status", "wish", "seconds"),
    [(429, "7200", 7200), (503, "3600", 3600), (429, "99999999", 86_400)],
)
def test_nothing_shortens_the_wish_of_a_feeds_own_server(
    puller: Puller, server: RawServer, services: Services, status: int, wish: str, seconds: int
) -> None:
    (feed_id,) = puller.follow(1)
    server.set("/0", Reply(status=status, headers=(("Retry-After", wish),)))
    puller.pull([feed_id])
    served = server.served
    for _ in range(2):
        # "Check now", an app's refresh and a new subscriber all make the feed due.
        services.gateways.feeds.force_due([feed_id], clock.now())
        assert puller.pull([feed_id]).put_off == 1
        services.gateways.feeds.force_due([feed_id], clock.now())
        assert puller.pull([feed_id], only_due=True).put_off == 1
        assert puller.waits([feed_id]) == [pytest.approx(seconds, abs=60)]
    assert server.served == served
    assert services.subscriptions.list_rest_ends(Actor(1)) == [puller.feed(feed_id).retry_at]


def test_no_shorter_rest_of_the_host_and_no_new_reader_shorten_a_wish(
    puller: Puller, server: RawServer, services: Services
) -> None:
    (feed_id,) = puller.follow(1)
    server.set("/0", Reply(status=429, headers=(("Retry-After", "7200"),)))
    puller.pull([feed_id])
    served, url = server.served, puller.feed(feed_id).url
    for number in range(3):
        services.budget.pause_host(parse_host(url), 60, f"{url}{number}")
    services.subscriptions.subscribe(Actor(2), url)
    for options in ({}, {"urgent": True}, {"only_due": True}):
        services.gateways.feeds.force_due([feed_id], clock.now())
        assert puller.pull([feed_id], **options).put_off == 1
        assert puller.waits([feed_id]) == [pytest.approx(7200, abs=60)]
    assert server.served == served


def test_a_wish_that_has_passed_is_forgotten(puller: Puller, server: RawServer, db: Any) -> None:
    (feed_id,) = puller.follow(1)
    server.set("/0", Reply(status=429, headers=(("Retry-After", "7200"),)))
    puller.pull([feed_id])
    db.feeds.update_one({"_id": feed_id}, {"$set": {"retry_at": clock.now()}})
    server.set("/0", file_reply(RSS))
    assert puller.pull([feed_id]).new == 1
    assert puller.feed(feed_id).retry_at is None


def test_a_503_without_a_wish_stops_nobody(puller: Puller, server: RawServer) -> None:
    first, second = puller.follow(2)
    server.set("/0", Reply(status=503))
    puller.pull([first], only_due=True)
    assert puller.pull([second], only_due=True).feeds == 1


def test_a_person_and_the_updater_at_the_same_moment_store_once(
    puller: Puller, server: RawServer, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both asked before either stored: the claim lets one write, the other's answer changes nothing."""
    (feed_id,) = puller.follow(1)
    both = threading.Barrier(2, timeout=30)

    results: list[PullResult] = []

    def run(call: Callable[[], PullResult]) -> threading.Thread:
        thread = threading.Thread(target=lambda: results.append(call()))
        thread.start()
        return thread

    feeds = services.gateways.feeds
    look = feeds.find_polls

    def look_together(ids: Sequence[int]) -> list[FeedPoll]:
        found = look(ids)
        both.wait()
        return found

    monkeypatch.setattr(feeds, "find_polls", look_together)
    for thread in [
        run(lambda: puller.pull([feed_id], only_due=True)),
        run(lambda: puller.pull([feed_id])),
    ]:
        thread.join(60)
    assert server.served == 2
    assert sum(result.new for result in results) == 1
    assert len(results) == 2
    feed = puller.feed(feed_id)
    assert (feed.first_seq, feed.last_seq, feed.claim_token) == (1, 1, None)
    assert services.gateways.feeds.get(feed_id).error is None
