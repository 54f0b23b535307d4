"""What arrives late reaches every app, whatever its date: feeds are polled at different moments."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import random
from typing import Any

import hypothesis
import pytest
from flask import Flask
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from app import clock
from app.bootstrap.services import Services
from app.config import Settings
from app.mappers.mongo import ids
from app.models.accounts.actor import Actor
from app.models.subscriptions.subscription import Subscription
from app.web.api import fever
from tests.clients import models
from tests.clients.models import Model
from tests.support.database import World
from tests.support.reader import add_user
from tests.sync.conftest import API, READING, Connect, Reader, password_of
from tests.sync.rest.conftest import Program, token_for

HOUR, MINUTE = dt.timedelta(hours=1), dt.timedelta(minutes=1)
#: Seconds for which apps don't get an entry: another process may still store one with a smaller id.
HOLD_BACK = 5.0
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

    def store_late(self, feed: int, first: int) -> None:
        """Let an entry arrive now whose id was reserved earlier."""
        last, ids._last = ids._last, first - 1
        now, self.now = self.now, dt.datetime.fromtimestamp(first // 1000 / 1e3, dt.UTC)
        try:
            self.publish(feed, 1)
        finally:
            ids._last, self.now = last, now

    @property
    def entries(self) -> set[int]:
        return {i for feed in self.feeds for i in self.find_ids(feed)}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, sync_hold_back=HOLD_BACK)


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


def test_the_newest_time_of_counts_covers_what_the_lists_show_and_no_more(
    feeds: Feeds, connect: Connect
) -> None:
    """An app marks all as read with it: by a date it would miss late entries, or mark withheld ones."""
    reader, (one, two, _) = connect(feeds.ann), feeds.feeds
    feeds.now += HOUR
    feeds.publish(one, 1)
    feeds.now += HOUR
    feeds.publish(two, 9000)
    feeds.now += SETTLED
    shown = reader.ids()
    feeds.publish(one, 1)  # withheld for now
    counts = reader.json("unread-count")["unreadcounts"]
    newest = {count["id"]: int(count["newestItemTimestampUsec"]) for count in counts}
    assert newest[READING] == newest[f"feed/{two}"] == shown[0]
    assert newest[f"feed/{one}"] == max(i for i in feeds.find_ids(one) if i in shown)
    reader.do("mark-all-as-read", s=READING, ts=str(newest[READING]))
    feeds.now += SETTLED
    unread = reader.ids(xt="user/-/state/com.google/read")
    assert set(unread) == feeds.entries - set(shown)
    assert len(unread) == 1


def test_what_arrives_later_comes_first_whatever_its_date(feeds: Feeds, connect: Connect) -> None:
    reader, (one, two, _) = connect(feeds.ann), feeds.feeds
    before = sorted(feeds.entries, reverse=True)
    feeds.now += HOUR
    feeds.publish(one, 1)
    feeds.now += HOUR
    feeds.publish(two, 9000)
    feeds.now += SETTLED
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


#: For each new entry: milliseconds since the last reservation of an id, milliseconds until the entry is
#: stored, and what then happens: an app syncs, or nothing.
_WRITES = st.lists(
    st.tuples(st.integers(0, 7000), st.integers(0, 4900), st.booleans()), min_size=2, max_size=6
)


@pytest.mark.parametrize("order", ["newest", "oldest", "contents", "since", "fever"])
@given(writes=_WRITES)
@example(writes=[(1000, 4000, False), (1000, 0, True)])
@hypothesis.settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_an_entry_that_is_stored_after_a_newer_one_reaches_apps(
    feeds: Feeds, services: Services, app: Flask, connect: Connect, order: str, writes: list[Any]
) -> None:
    """Ids are reserved before transactions end, so a smaller one may become visible later."""
    feeds.now += HOUR
    one = _App(order, connect(feeds.ann), _connect_fever(services, app, feeds.ann))
    one.sync()
    assert set(one.known) == feeds.entries
    waiting: list[tuple[dt.datetime, int, bool]] = []
    for gap, delay, is_sync in writes:
        feeds.now += dt.timedelta(milliseconds=gap)
        waiting.append((feeds.now + dt.timedelta(milliseconds=delay), ids.reserve_ids(), is_sync))
    for at, first, is_sync in sorted(waiting):
        feeds.now = at
        feeds.store_late(feeds.random.choice(feeds.feeds), first)
        if is_sync:
            one.sync()
    feeds.now += SETTLED
    one.sync()
    assert sorted(one.known) == sorted(feeds.entries), "all, and each once"


class _App:
    """An app that finds new entries in one of the usual ways.

    Attributes:
        known: the ids that it got, each as often as it added it.
    """

    def __init__(self, order: str, reader: Reader, fever: models.Api) -> None:
        self.order, self.reader, self.fever = order, reader, fever
        self.known: list[int] = []

    def sync(self) -> None:
        if self.order == "fever":
            while got := self._ask_fever():
                self.known += got
        elif self.order == "oldest":
            self._page({"r": "o", **({"c": max(self.known)} if self.known else {})})
        elif self.order == "since":
            self._page({"ot": max(self.known, default=1_000_000) // 1_000_000})
        else:
            self._page({})

    def _ask_fever(self) -> list[int]:
        found = self.fever("", items="", since_id=max(self.known, default=0))
        return [int(item["id"]) for item in found["items"]]

    def _page(self, query: dict[str, Any]) -> None:
        """Add what is new; without a time, stop at the first id that is known."""
        before = set(self.known)
        while True:
            got, end = self._read(query)
            self.known += [i for i in got if i not in before]
            if end is None or ("ot" not in query and not before.isdisjoint(got)):
                return
            query = {**query, "c": end}

    def _read(self, query: dict[str, Any]) -> tuple[list[int], str | None]:
        if self.order == "contents":
            found = self.reader.json("stream/contents", n=3, **query)
            return [models.read_number(item) for item in found["items"]], found.get("continuation")
        found = self.reader.json("stream/items/ids", s=READING, n=3, **query)
        return [int(ref["id"]) for ref in found["itemRefs"]], found.get("continuation")


def test_fever_asked_twice_within_a_minute_gets_each_entry_once(
    feeds: Feeds, services: Services, app: Flask
) -> None:
    """One writer reserves an id, another one stores a larger id first, and the app asks in between."""
    ask, (one, two, _) = _connect_fever(services, app, feeds.ann), feeds.feeds
    feeds.now += HOUR
    since = max(feeds.entries)
    first = ids.reserve_ids()
    feeds.now += dt.timedelta(seconds=1)
    feeds.publish(one, 1)
    feeds.now += dt.timedelta(seconds=2)
    assert ask("", items="", since_id=since)["items"] == []
    feeds.store_late(two, first)
    feeds.now += SETTLED
    got = [int(item["id"]) for item in ask("", items="", since_id=since)["items"]]
    assert got == sorted(i for i in feeds.entries if i > since)
    assert len(got) == 2
    assert services.sync.load_items(feeds.ann, got[:1])[0].entry.feed_id == two, "with the smaller id"
    assert ask("", items="", since_id=got[-1])["items"] == []


def test_cursors_of_the_rest_api_lose_nothing_that_is_stored_late(
    feeds: Feeds, services: Services, app: Flask
) -> None:
    """They go through a snapshot by the numbers of each feed, so they need no hold-back."""
    mine, (one, two, _) = Program(app, token_for(services, feeds.ann)), feeds.feeds
    feeds.now += HOUR
    first = ids.reserve_ids()
    feeds.now += dt.timedelta(seconds=1)
    feeds.publish(one, 1)
    shown = feeds.entries

    def read_page(cursor: str) -> tuple[list[int], str | None]:
        query = {"limit": "4", **({"cursor": cursor} if cursor else {})}
        answer = mine.get("/streams/all/entries", query_string=query)
        assert answer.status_code == 200, answer.text
        page = answer.get_json()
        return [int(item["id"]) for item in page["items"]], page["next"]

    found, cursor = read_page("")
    feeds.store_late(two, first)  # by another writer, with a smaller id than the ones on the page
    while cursor:
        more, cursor = read_page(cursor)
        found += more
    assert sorted(found) == sorted(shown), "as of the first page, each once"
    again, cursor = read_page("")
    while cursor:
        more, cursor = read_page(cursor)
        again += more
    assert sorted(again) == sorted(feeds.entries)
    (late,) = set(again) - set(shown)
    assert late < max(shown)


def test_a_withheld_entry_is_not_hidden_by_an_etag(feeds: Feeds, connect: Connect) -> None:
    reader, feed = connect(feeds.ann), feeds.feeds[0]
    stream = f"stream/contents/feed/{feed}"
    feeds.now += HOUR
    feeds.publish(feed, 1)
    answer = reader.get(stream)
    assert len(answer.get_json()["items"]) == 3
    feeds.now += SETTLED
    known = {**reader.headers, "If-None-Match": answer.headers["ETag"]}
    answer = reader.client.get(f"{API}/{stream}", headers=known)
    assert answer.status_code == 200
    assert len(answer.get_json()["items"]) == 4
