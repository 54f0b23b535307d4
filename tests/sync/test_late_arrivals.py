"""What arrives late reaches every app, whatever its date: feeds are polled at different moments."""

from __future__ import annotations

import datetime as dt
import hashlib
import random
from typing import Any

import pytest
from flask import Flask

from app import clock
from app.bootstrap.services import Services
from app.mappers.mongo import ids
from app.models.accounts.actor import Actor
from app.models.subscriptions.subscription import Subscription
from app.web.api import fever
from tests.clients import models
from tests.clients.models import Model
from tests.support.database import World
from tests.support.reader import add_user
from tests.sync.conftest import READING, Connect, password_of

HOUR, MINUTE = dt.timedelta(hours=1), dt.timedelta(minutes=1)
#: After this time, Fever apps get an entry too: another process may still store one with a smaller id.
SETTLED = dt.timedelta(seconds=10)


class Feeds:
    """Feeds of one reader whose entries arrive as the test says, and a clock that only the test moves."""

    def __init__(self, services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
        # Above all ids that other tests have reserved.
        self.now = max(clock.now(), dt.datetime.fromtimestamp(ids._last / 1e6, dt.UTC)) + HOUR
        monkeypatch.setattr(clock, "now", lambda: self.now)
        self.services, self.world, self.random = services, World(services), random.Random(5)
        self.ann = add_user(services, "ann")
        self.feeds = [self.add_feed() for _ in range(3)]

    def add_feed(self) -> int:
        feed = self.world.feed()
        self.publish(feed, 30, 20, 10)
        self.services.gateways.subscriptions.add(
            Subscription(0, self.ann.user_id, feed), self.services.gateways.feeds.get(feed), self.now
        )
        self.services.reading.mark(self.ann, self.find_ids(feed), False)
        return feed

    def find_ids(self, feed: int) -> list[int]:
        found = self.services.store.database["entries"].find({"feed_id": feed}, {"_id": 1})
        return [doc["_id"] for doc in found]

    def publish(self, feed: int, *ages: int) -> None:
        """Let entries arrive now that are so many minutes old."""
        self.world.publish(feed, [self.now - age * MINUTE for age in ages])

    def publish_any(self) -> None:
        r = self.random
        self.publish(r.choice(self.feeds), *(r.choice((1, 50, 5000)) for _ in range(r.randrange(1, 5))))

    @property
    def entries(self) -> set[int]:
        return {i for feed in self.feeds for i in self.find_ids(feed)}


@pytest.fixture
def feeds(services: Services, monkeypatch: pytest.MonkeyPatch) -> Feeds:
    return Feeds(services, monkeypatch)


def _connect_fever(services: Services, app: Flask, ann: Actor) -> models.Api:
    key = hashlib.md5(f"ann:{password_of(services, ann, fever=True)}".encode()).hexdigest()
    client = app.test_client()

    def ask(path: str, /, **query: Any) -> dict[str, Any]:
        answer = client.post("/fever/", query_string={"api": "", path: "", **query}, data={"api_key": key})
        found: dict[str, Any] = answer.get_json()
        assert found["auth"] == 1
        return found

    return ask


def test_no_app_loses_an_entry_that_arrives_late(
    feeds: Feeds, services: Services, app: Flask, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fever, "PAGE", models.PAGE)
    reader = connect(feeds.ann)
    ask_fever = _connect_fever(services, app, feeds.ann)
    left = 0

    def page_turned() -> None:
        nonlocal left
        if left:
            left -= 1
            feeds.publish_any()

    apps: list[Model] = [kind(reader.json, page_turned) for kind in models.READER]
    apps += [kind(ask_fever, page_turned) for kind in models.FEVER]
    for step in range(4):
        for each in apps:
            left = step % 2  # in every other step, something arrives while the app goes from page to page
            before = feeds.entries
            feeds.now += SETTLED
            each.sync()
            assert before <= each.known, (type(each).__name__, step)
            assert each.known <= feeds.entries
        feeds.now += HOUR
        feeds.publish_any()
        feeds.publish_any()


def test_what_arrives_later_comes_first_whatever_its_date(feeds: Feeds, connect: Connect) -> None:
    reader, (one, two, _) = connect(feeds.ann), feeds.feeds
    before = sorted(feeds.entries, reverse=True)
    feeds.now += HOUR
    feeds.publish(one, 1)
    feeds.now += HOUR
    feeds.publish(two, 9000)
    new = sorted(feeds.entries - set(before), reverse=True)
    assert reader.ids() == [*new, *before]
    assert reader.ids(r="o") == [*new, *before][::-1]
    assert reader.ids(xt="user/-/state/com.google/read") == [*new, *before]
    assert reader.ids(ot=1) == [*new, *before]
    items = reader.json("stream/contents", n=1000)["items"]
    assert [int(item["timestampUsec"]) for item in items] == [*new, *before]
    assert [int(item["crawlTimeMsec"]) for item in items] == [i // 1000 for i in (*new, *before)]
    assert [models.read_number(item) for item in reader.items(*before, *new)] == [*new, *before]
    refs = reader.json("stream/items/ids", s=READING, n=99, includeAllDirectStreamIds="true")["itemRefs"]
    assert [(int(ref["id"]), int(ref["timestampUsec"])) for ref in refs] == [(i, i) for i in (*new, *before)]
