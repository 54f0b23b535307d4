"""Discoveries on the real stores: known feed, cache, job, and what a person is told."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from app import clock
from app.bootstrap.services import Services
from app.errors import InvalidError, NotFoundError, RateLimitedError
from app.feeds import schedule
from app.feeds.urls import hash_url
from app.models.accounts.actor import Actor, Role
from app.models.feeds.discovery import Discovered, Discovery, FoundFeed
from app.models.feeds.feed import count_shown_readers
from app.models.jobs.jobs import Job, Queue, State, Task
from app.services.feeds.discovery import DiscoveryService
from tests.jobs import support
from tests.support.rawserver import RawServer, Reply
from tests.support.world import World
from workers import outcome, registry
from workers.job import ClaimedJob

READER = Actor(user_id=1)
ADMIN = Actor(user_id=2, role=Role.ADMIN)
RSS = (
    b"<rss version='2.0'><channel><title>Blog</title><link>http://blog.example/</link>"
    b"<item><title>One</title><link>http://blog.example/1</link></item></channel></rss>"
)


@pytest.fixture
def world() -> Iterator[World]:
    page = Reply(body=b"<link rel=alternate type=application/rss+xml href=/rss>")
    with RawServer({"/": page, "/rss": Reply(body=RSS), "/none": Reply(body=b"<p>x")}) as server:
        world = World(server)
        world.add("blog.example", "93.184.215.20")
        yield world


def work(services: Any, world: World, key: int) -> tuple[dict[str, Any], list[str]]:
    """Do what the worker does."""
    steps: list[str] = []

    async def run() -> dict[str, Any]:
        with world.fetcher() as fetcher:
            done = await services.discovery.run(key, fetcher, lambda step: steps.append(step))
            assert isinstance(done, dict)
            return done

    return asyncio.run(run()), steps


def test_a_search_is_waited_for_then_answered_from_the_cache(services: Any, world: World) -> None:
    asked = services.discovery.discover(READER, "http://blog.example/", wait=0)
    assert asked.to_json() == {"key": asked.key, "wait": True, "step": ""}
    assert work(services, world, asked.key) == (
        {"feeds": 1, "error": None},
        ["Reading the page", "Checking feeds announced by the page"],
    )
    found = services.discovery.discover(Actor(user_id=9), "http://BLOG.example/#x", wait=0)
    assert [(f.url, f.title, f.entries) for f in found.feeds] == [("http://blog.example/rss", "Blog", 1)]
    assert services.discovery.get_progress(READER, asked.key) == found
    assert found.to_json()["feeds"][0]["site_url"] == "http://blog.example/"


def test_W22_H13_what_tells_who_came_from_where_is_neither_fetched_nor_told(
    services: Any, world: World
) -> None:
    typed = "http://blog.example/rss?fbclid=SECRET&utm_campaign=alice"
    asked = services.discovery.discover(READER, typed, wait=0)
    work(services, world, asked.key)
    assert [request.path for request in world.server.requests] == ["/rss"]
    other = services.discovery.discover(ADMIN, "http://blog.example/rss", wait=0)
    assert other.key == asked.key
    assert [f.url for f in other.feeds] == ["http://blog.example/rss"]
    feed_id = services.subscriptions.subscribe(READER, typed).subscription.feed_id
    feed = services.gateways.feeds.get(feed_id)
    assert feed.url == "http://blog.example/rss"
    assert services.gateways.feeds.find_by_url(typed).id == feed_id


def test_S01_searches_per_person_are_limited_but_cached_ones_are_free(services: Services) -> None:
    settings = dataclasses.replace(services.settings, discoveries_per_hour=2)
    g = services.gateways
    limited = DiscoveryService(
        g.discoveries,
        g.feeds,
        g.subscriptions,
        services.jobs,
        limiter=services.limiter,
        fetch_budget=services.fetch_budget,
        settings=settings,
    )
    for _ in range(2):
        for number in range(2):
            assert limited.discover(READER, f"http://blog.example/{number}", wait=0).wait
    with pytest.raises(RateLimitedError):
        limited.discover(READER, "http://blog.example/3", wait=0)
    assert limited.discover(ADMIN, "http://blog.example/3", wait=0).wait, "the limit is per person"
    assert limited.discover(READER, "http://blog.example/3", wait=0).wait, "it runs already"


def test_a_feed_that_exists_keeps_its_address(services: Any) -> None:
    url = "http://blog.example/rss?utm_source=old"
    feed = services.mappers.feeds.add(url, hash_url(url), "", clock.now())
    assert services.subscriptions.subscribe(READER, "http://blog.example/rss").subscription.feed_id == feed.id
    assert services.gateways.feeds.get(feed.id).url == url


def test_asking_twice_is_one_job(services: Any) -> None:
    one = services.discovery.discover(READER, "http://blog.example/", wait=0)
    other = services.discovery.discover(ADMIN, "http://blog.example", wait=0)
    assert one.key == other.key
    assert services.discovery.get_progress(READER, one.key).wait is True


def test_J06_the_job_holds_the_key_and_no_address(services: Any, redis_client: Any) -> None:
    services.discovery.discover(READER, "http://secret-name.example/path", wait=0)
    assert redis_client.llen("rq:queue:discovery") == 1
    held = b"".join(redis_client.dump(key) for key in redis_client.scan_iter())
    assert b"secret-name" not in held


def test_a_worker_that_comes_twice_searches_once(services: Any, world: World) -> None:
    key = services.discovery.discover(READER, "http://blog.example/", wait=0).key
    work(services, world, key)
    served = world.server.served
    assert work(services, world, key) == ({"feeds": 1, "error": None}, [])
    assert world.server.served == served
    assert work(services, world, 12345)[0] == {"feeds": 0, "error": "gone"}


def test_nothing_found_is_a_sentence_and_is_forgotten_soon(services: Any, world: World) -> None:
    asked = services.discovery.discover(READER, "http://blog.example/none", wait=0)
    work(services, world, asked.key)
    found = services.discovery.discover(READER, "http://blog.example/none", wait=0)
    assert (found.error, found.message) == ("no_feed_found", "No feed was found at this address.")
    assert found.to_json() == {"key": asked.key, "error": found.error, "message": found.message}
    later = clock.now() + dt.timedelta(seconds=61)
    with clock.set_source(lambda: later):
        assert services.discovery.discover(READER, "http://blog.example/none", wait=0).wait is True


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (500, "The site has an internal error (HTTP 500). Try again in a minute."),
        (503, "The site has an internal error (HTTP 503). Try again in a minute."),
        (429, "The site is limiting requests (HTTP 429). Try again in a few minutes."),
        (404, "The site has nothing at this address (HTTP 404). Check the spelling."),
    ],
)
def test_a_search_that_failed_promises_nothing_that_nobody_does(
    services: Any, world: World, status: int, says: str
) -> None:
    world.server.set("/ill", Reply(status=status))
    key = services.discovery.discover(READER, "http://blog.example/ill", wait=0).key
    world.server.set("/", Reply(status=status))
    work(services, world, key)
    assert services.discovery.get_progress(READER, key).message == says


def test_an_answer_says_who_reads_a_feed_now_however_old_the_search(services: Any, world: World) -> None:
    key = services.discovery.discover(READER, "http://blog.example/", wait=0).key
    work(services, world, key)
    (found,) = services.discovery.get_progress(READER, key).feeds
    assert (found.feed_id, found.readers, found.mine) == (None, 0, False)
    feed_id = services.subscriptions.subscribe(READER, found.url).subscription.feed_id
    for actor, readers, mine in ((READER, 0, True), (ADMIN, 1, False)):
        (found,) = services.discovery.get_progress(actor, key).feeds
        assert (found.feed_id, found.readers, found.mine) == (feed_id, readers, mine)


@pytest.mark.parametrize(
    ("readers", "admin", "shown"), [(0, False, 0), (4, False, 0), (5, False, 5), (1, True, 1), (4, True, 4)]
)
def test_W22_the_number_of_few_readers_is_for_admins_only(readers: int, admin: bool, shown: int) -> None:
    assert count_shown_readers(readers, admin=admin) == shown


def test_found_feeds_count_two_hours(services: Any, world: World) -> None:
    key = services.discovery.discover(READER, "http://blog.example/", wait=0).key
    work(services, world, key)
    start = clock.now()
    with clock.set_source(lambda: start + dt.timedelta(minutes=119)):
        assert services.discovery.discover(READER, "http://blog.example/", wait=0).feeds
    with clock.set_source(lambda: start + dt.timedelta(minutes=121)):
        assert services.discovery.discover(READER, "http://blog.example/", wait=0).wait
        assert services.discovery.get_progress(READER, key).wait


def test_a_bare_name_and_a_scheme_are_two_searches(services: Any) -> None:
    bare = services.discovery.discover(READER, "blog.example", wait=0)
    https = services.discovery.discover(READER, "https://blog.example/", wait=0)
    assert bare.key != https.key
    # The search must know that it was a bare name, or it could not fall back to http.
    assert services.gateways.discoveries.find(bare.key, clock.now()).address == "blog.example"


def test_what_https_cannot_reach_is_looked_for_by_http(services: Any) -> None:
    gateway = services.gateways.discoveries
    https = gateway.get_or_create("https://blog.example/", clock.now())
    gateway.store_result(https.key, Discovered("https://blog.example/", error="tls_failed"), clock.now())
    assert services.discovery.discover(ADMIN, "https://blog.example", wait=0).error == "tls_failed"
    assert services.discovery.discover(ADMIN, "http://blog.example", wait=0).wait


def test_a_feed_that_is_known_needs_no_search(services: Any, redis_client: Any) -> None:
    feeds = services.gateways.feeds
    feed = feeds.get_or_create("https://blog.example/rss", now=clock.now(), title="Blog")
    assert services.discovery.discover(READER, "blog.example/rss", wait=0).wait, "it has no entries yet"
    services.mappers.feeds._feeds.update_one({"_id": feed.id}, {"$set": {"last_seq": 7, "first_seq": 3}})
    found = services.discovery.discover(READER, "blog.example/rss", wait=0)
    assert [(f.feed_id, f.url, f.entries) for f in found.feeds] == [(feed.id, "https://blog.example/rss", 5)]


def test_a_feed_that_is_known_comes_with_its_rate(services: Any) -> None:
    feed = services.gateways.feeds.get_or_create("https://blog.example/rss", now=clock.now(), title="Blog")
    daily = schedule.seed([clock.now() - dt.timedelta(days=n) for n in range(10)], clock.now())
    stored = {"last_seq": 10, "history": daily.pack()}
    services.mappers.feeds._feeds.update_one({"_id": feed.id}, {"$set": stored})
    (found,) = services.discovery.discover(READER, "blog.example/rss", wait=0).feeds
    assert found.per_week == 7.0


def test_a_feed_in_error_is_looked_for_anew(services: Any, world: World) -> None:
    url = "http://blog.example/rss"
    feed = services.gateways.feeds.get_or_create(url, now=clock.now(), title="Old")
    ill = {"last_seq": 7, "error": "gone", "errors": 1, "next_check_at": None}
    services.mappers.feeds._feeds.update_one({"_id": feed.id}, {"$set": ill})
    asked = services.discovery.discover(READER, url, wait=0)
    assert asked.wait
    work(services, world, asked.key)
    (found,) = services.discovery.discover(READER, url, wait=0).feeds
    assert (found.title, found.feed_id, found.entries) == ("Blog", feed.id, 1)


@pytest.mark.parametrize("word", ["refused", "connect_failed", "timeout"])
def test_S13_only_admins_learn_why_an_address_cannot_be_reached(services: Any, word: str) -> None:
    gateway = services.gateways.discoveries
    row = gateway.get_or_create("http://10.0.0.1/", clock.now())
    gateway.store_result(row.key, Discovered("http://10.0.0.1/", error=word), clock.now())
    told = {services.discovery.get_progress(actor, row.key).error for actor in (READER, ADMIN)}
    assert told == {"unreachable", word}


@pytest.mark.parametrize("address", ["", "   ", "hello", "javascript:alert(1)", "x" * 3000, "me@gmail.com"])
def test_what_is_no_address_is_a_sentence_at_once(services: Any, address: str, redis_client: Any) -> None:
    with pytest.raises(InvalidError):
        services.discovery.discover(READER, address, wait=0)
    assert redis_client.dbsize() == 0


def test_an_unknown_key_is_not_found(services: Any) -> None:
    with pytest.raises(NotFoundError):
        services.discovery.get_progress(READER, 4711)


def test_that_there_is_more_survives_the_store(services: Any) -> None:
    feeds = (FoundFeed("http://a.example/", "a", None, "rss20", 3, None, None),)
    gateway = services.gateways.discoveries
    row = gateway.get_or_create("a.example", clock.now())
    gateway.store_result(row.key, Discovered("a.example", feeds, more=True), clock.now())
    assert services.discovery.get_progress(READER, row.key).more


def test_a_find_survives_the_store_as_it_is(services: Any) -> None:
    when = dt.datetime(2026, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    feeds = (
        FoundFeed("http://a.example/", "Ä", None, "rss20", 3, when, 1.5),
        FoundFeed("http://b.example/", "b", "http://b.example/", "atom10", 0, None, None),
    )
    gateway = services.gateways.discoveries
    row = gateway.get_or_create("a.example", clock.now())
    gateway.store_result(row.key, Discovered("a.example", feeds), clock.now())
    assert gateway.find(row.key, clock.now()).result == Discovered("a.example", feeds)


def test_the_job_is_queued_for_people(services: Any) -> None:
    asked = services.discovery.discover(READER, "http://blog.example/", wait=0)
    ticket = services.jobs.enqueue(Job(Task.DISCOVER, {"key": asked.key}, Queue.DISCOVERY))
    assert ticket.fresh is False
    assert services.jobs.get_status(ticket.id).state is State.QUEUED


def awaited(
    services: Services, ending: Callable[[ClaimedJob], outcome.AttemptOutcome], client: redis.Redis
) -> Discovery:
    """Ask and wait, while a worker takes the job and ends it."""
    box: list[Discovery] = []
    asking = threading.Thread(
        target=lambda: box.append(services.discovery.discover(READER, "http://blog.example/", wait=20))
    )
    registry.load_tasks()
    desk = support.desk(client, services.settings)
    asking.start()
    while not (taken := desk.claim_jobs(1, {}, ())):
        assert asking.is_alive()
    desk.finish([ending(taken[0])])
    asking.join(20)
    return box[0]


def test_who_waits_is_told_as_soon_as_it_is_found(services: Any, world: World, redis_client: Any) -> None:
    def ending(job: ClaimedJob) -> outcome.AttemptOutcome:
        return outcome.finish_job(job, work(services, world, job.args["key"])[0], services.settings)

    found = awaited(services, ending, redis_client)
    assert [f.title for f in found.feeds] == ["Blog"]


def test_a_search_that_failed_on_our_side_is_said_and_tried_anew(services: Any, redis_client: Any) -> None:
    def ending(job: ClaimedJob) -> outcome.AttemptOutcome:
        return outcome.fail_job(job, InvalidError("It broke."), services.settings)

    failed = awaited(services, ending, redis_client)
    assert (failed.wait, failed.error) == (False, "search_failed")
    assert (
        failed.message == "Something went wrong on our side while looking for feeds. Try again in a minute."
    )
    assert services.discovery.discover(READER, "http://blog.example/", wait=0).wait is True


@pytest.mark.parametrize("was_read", [True, False])
@pytest.mark.parametrize(
    "spelling", ["http://blog.example/rss", "blog.example/rss", "https://blog.example/rss#x"]
)
def test_a_feed_whose_site_wants_no_requests_is_found_without_one(
    services: Services, redis_client: redis.Redis, was_read: bool, spelling: str
) -> None:
    feed_id = services.subscriptions.subscribe(READER, "http://blog.example/rss").subscription.feed_id
    until = clock.now().replace(microsecond=0) + dt.timedelta(hours=2)
    state = {"retry_at": until, "error": "http_429", "errors": 1, "last_seq": 7 if was_read else 0}
    services.store.database["feeds"].update_one({"_id": feed_id}, {"$set": state})
    before = redis_client.dbsize()
    for reader in (READER, Actor(user_id=9)):
        found = services.discovery.discover(reader, spelling, wait=0)
        assert not found.wait
        [feed] = found.feeds
        assert (feed.feed_id, feed.rests_until, feed.mine) == (feed_id, until, reader == READER)
        assert FoundFeed.from_json(feed.to_json()) == feed
    assert redis_client.dbsize() == before, "no job was queued"
    with clock.set_source(lambda: until):
        assert services.discovery.discover(READER, spelling, wait=0).wait, "it is searched again afterwards"
