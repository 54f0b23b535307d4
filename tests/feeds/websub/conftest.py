"""A reader, a feed with a hub, and a moment that stands still."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import hmac
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from app import clock, create_app
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.models.accounts.actor import Actor
from app.models.feeds.feed import Feed
from app.models.feeds.websub import HubSubscription
from tests.support import reader

ALICE = Actor(1_700_000_000_000_001)
URL = "https://blog.example/feed"
HUB = "https://hub.example/"
START = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


class Now:
    """The clock of a test."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> dt.datetime:
        return self.at

    def go(self, **span: float) -> dt.datetime:
        """Let time pass."""
        self.at += dt.timedelta(**span)
        return self.at


@pytest.fixture
def now() -> Iterator[Now]:
    moment = Now()
    with clock.set_source(moment):
        yield moment


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Hubs can reach this server."""
    return dataclasses.replace(settings, base_url="http://localhost", websub="on")


def feed_body(*titles: str, hub: str | None = HUB, topic: str = URL) -> bytes:
    """Return an RSS feed with these entries that names a hub."""
    link = '<atom:link xmlns:atom="http://www.w3.org/2005/Atom" rel="{}" href="{}"/>'
    links = link.format("hub", hub) + link.format("self", topic) if hub else ""
    body = reader.rss("Blog", [(title, title) for title in titles]).decode()
    return body.replace("<channel>", f"<channel>{links}").encode()


class Reader:
    """Somebody who follows a feed with a hub, and the hub's side of the conversation."""

    def __init__(self, services: Services, app: Flask, now: Now) -> None:
        self.services, self.now = services, now
        self.client: FlaskClient = app.test_client()
        self.feed_id = services.subscriptions.subscribe(ALICE, URL).subscription.feed_id

    @property
    def feed(self) -> Feed:
        return self.services.gateways.feeds.get(self.feed_id)

    @property
    def row(self) -> HubSubscription:
        return self.services.mappers.websubs.find_current([self.feed_id])[self.feed_id]

    def poll(self, *titles: str, **links: Any) -> None:
        """Pull the feed, which holds these entries now."""
        reader.pull(self.services, [self.feed_id], {URL: feed_body(*titles, **links)})

    def ask(self) -> None:
        """Begin what is due at the hub; the request itself is answered by :meth:`confirm`."""
        assert self.services.gateways.websubs.begin_request(self.row.id, self.now()) is not None

    def confirm(self, **changed: str) -> TestResponse:
        """Ask at the callback as the hub does."""
        token = changed.pop("token", self.row.token)
        query = {
            "hub.mode": "subscribe",
            "hub.topic": self.row.topic,
            "hub.challenge": "the-challenge",
            "hub.lease_seconds": "864000",
        }
        query |= {name.replace("_", ".", 1): value for name, value in changed.items()}
        return self.client.get(f"/websub/{token}", query_string=query)

    def subscribed(self) -> Reader:
        """Let the feed be pulled and its hub confirm."""
        self.poll("one")
        self.ask()
        assert self.confirm().status_code == 200
        return self

    def sign(self, body: bytes, method: str = "sha256", secret: str | None = None) -> str:
        """Return the header of a push with this body."""
        made = hmac.new((secret or self.row.secret).encode(), body, method).hexdigest()
        return f"{method}={made}"

    def push(self, body: bytes = b"<feed/>", *, secret: str | None = None, **headers: str) -> int:
        """Push as the hub does; return the status of the answer."""
        sent = {k.replace("_", "-"): v for k, v in headers.items()}
        sent["X-Hub-Signature"] = self.sign(body, secret=secret)
        answer = self.client.post(f"/websub/{self.row.token}", data=body, headers=sent)
        return answer.status_code

    def pull_pushed(self, *titles: str, **links: Any) -> dict[str, int]:
        """Run the pull that pushes wait for; the feed holds these entries now."""
        canned = reader.Canned({URL: feed_body(*titles, **links)})
        return asyncio.run(self.services.websub.pull(self.feed_id, canned, token=self.now().isoformat()))

    def prove(self) -> Reader:
        """Let three pushes be first to tell of entries."""
        for number in range(3):
            self.now.go(minutes=10)
            assert self.push() == 202
            assert self.pull_pushed(*(f"proof {n}" for n in range(number + 1)))["new"] == 1
        return self


@pytest.fixture
def app(services: Services) -> Flask:
    return create_app(services.settings, services)


@pytest.fixture
def alice(services: Services, app: Flask, now: Now) -> Reader:
    return Reader(services, app, now)


@pytest.fixture
def switched_off(services: Services) -> Iterator[Services]:
    """The same stores with WebSub switched off."""
    with contextlib.closing(bootstrap.build(dataclasses.replace(services.settings, websub="off"))) as built:
        yield built
