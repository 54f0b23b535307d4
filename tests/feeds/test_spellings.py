"""Spellings of one address: the first person to enter it doesn't decide for all later subscribers."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import InvalidError
from app.feeds.urls import hash_url
from app.gateways.feeds.digest import Digester
from app.models.accounts.actor import Actor
from app.models.feeds.feed import Feed
from app.models.feeds.fetched import Fetched, FetchRequest
from tests.support.rawserver import RawServer, file_reply

ALICE, BOB = Actor(1), Actor(2)
FEED = b"<rss version='2.0'><channel><title>Blog</title><item><guid>1</guid></item></channel></rss>"
HTTP, HTTPS = "http://blog.example/feed", "https://blog.example/feed"
GONE, NEW = {"error": "http_404", "checked_at": clock.now()}, dict[str, Any]()
FAILING, WELL = {"error": "http_404"}, {"checked_at": clock.now()}


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with RawServer({"/feed/": file_reply(FEED), "/page": file_reply(b"<html><body>Hello")}) as server:
        yield server


def _pull(services: Services, settings: Settings, server: RawServer, feed_id: int) -> Feed:
    async def run() -> None:
        with bootstrap.build_fetcher(dataclasses.replace(settings, fetch_allow=(server.origin,))) as fetcher:
            await services.pull.pull([feed_id], fetcher)

    asyncio.run(run())
    return services.gateways.feeds.get(feed_id)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://blog.example:443/feed", HTTPS),
        ("https://blog.example:80/feed", HTTP),
        ("http://blog.example:443/feed", HTTP),
        ("https://blog.example:80/feed", HTTPS),
    ],
)
def test_port_of_the_other_scheme_is_another_address(one: str, other: str) -> None:
    assert hash_url(one) != hash_url(other)
    assert hash_url("http://blog.example:80/feed") == hash_url("https://blog.example:443/feed")


@pytest.mark.parametrize(
    ("stored", "state", "entered", "tried"),
    [
        (HTTP, WELL, HTTPS, True),
        (HTTP, NEW, HTTPS, True),
        (HTTPS, FAILING, HTTP, True),
        (HTTPS, GONE, HTTP, False),
        (HTTPS, WELL, HTTP, False),
        (HTTPS, GONE, HTTPS + "/", True),
        (HTTPS, WELL, HTTPS + "/", False),
        (HTTPS, GONE, HTTPS + "#top", False),
        (HTTPS, {"error": "http_429"}, HTTPS + "/", False),
    ],
)
def test_spelling_is_tried_if_the_stored_one_fails_or_is_plain_http(
    services: Services, db: Any, stored: str, state: dict[str, Any], entered: str, tried: bool
) -> None:
    gateway, now = services.gateways.feeds, clock.now()
    feed = gateway.get_or_create(stored, now=now)
    db.feeds.update_one({"_id": feed.id}, {"$set": state})
    ways = (
        lambda: gateway.get_or_create(entered, now=now).id,
        lambda: gateway.get_or_create_many([entered], now=now, due=now)[0].id,
    )
    for enter in ways:
        db.feeds.update_one({"_id": feed.id}, {"$unset": {"other_url": ""}})
        assert enter() == feed.id
        assert gateway.get(feed.id).other_url == (entered if tried else None)
        assert gateway.get(feed.id).url == stored


def test_second_spelling_that_parses_replaces_one_that_fails(
    services: Services, settings: Settings, server: RawServer
) -> None:
    wrong, right = server.url("/feed"), server.url("/feed/")
    feed = services.gateways.feeds.get(services.subscriptions.subscribe(ALICE, wrong).subscription.feed_id)
    assert _pull(services, settings, server, feed.id).error == "http_404"

    assert services.subscriptions.subscribe(BOB, right).subscription.feed_id == feed.id
    after = _pull(services, settings, server, feed.id)

    assert (after.url, after.error, after.last_seq, after.other_url) == (right, None, 1, None)


def test_second_spelling_that_is_no_feed_is_forgotten(
    services: Services, settings: Settings, server: RawServer
) -> None:
    feed_id = services.subscriptions.subscribe(ALICE, server.url("/page/")).subscription.feed_id
    _pull(services, settings, server, feed_id)
    services.subscriptions.subscribe(BOB, server.url("/page"))

    after = _pull(services, settings, server, feed_id)

    assert (after.url, after.error, after.other_url) == (server.url("/page/"), "http_404", None)


def test_change_of_address_to_another_spelling_is_a_retry(
    services: Services, settings: Settings, server: RawServer
) -> None:
    feed_id = services.subscriptions.subscribe(ALICE, server.url("/feed")).subscription.feed_id
    _pull(services, settings, server, feed_id)

    with pytest.raises(InvalidError):
        services.subscriptions.change_address(ALICE, feed_id, server.url("/feed"))
    done = services.subscriptions.change_address(ALICE, feed_id, server.url("/feed/"))

    assert (done.feed_id, done.undo) == (feed_id, "")
    assert _pull(services, settings, server, feed_id).url == server.url("/feed/")


@pytest.mark.parametrize(("end", "better"), [(HTTPS, True), (HTTP, False)])
def test_https_that_leads_back_to_http_is_not_better(settings: Settings, end: str, better: bool) -> None:
    fetched = Fetched(FetchRequest(HTTPS), 200, end, body=FEED)
    assert Digester(settings).is_better_spelling(HTTP, fetched) is better


def test_spelling_to_try_keeps_a_quiet_poll_from_being_a_rest(services: Services, settings: Settings) -> None:
    gateway, now = services.gateways.feeds, clock.now()
    feed = gateway.get_or_create(HTTP, now=now)
    gateway.get_or_create(HTTPS, now=now)
    (poll,) = gateway.find_polls([feed.id])
    quiet = Fetched(FetchRequest(HTTP), 304, HTTP, unchanged=True, validators=poll.validators)
    assert Digester(settings).calculate_rest(poll, quiet, now) is None
