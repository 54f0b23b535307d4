"""Every time that an app got marks what it stands for when the app sends it back."""

from __future__ import annotations

import datetime as dt
import email.utils
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from tests.support.reader import add_user, pull
from tests.sync.conftest import READ, READING, Reader, password_of

URL, OTHER = "https://feeds.example/dated", "https://feeds.example/other"
#: An old entry, and four of the same year.
DATES = [dt.datetime(2025, month, 20, 14, 0, 1, tzinfo=dt.UTC) for month in (1, 3, 5, 7, 9)]


def dated(*dates: dt.datetime) -> bytes:
    items = "".join(
        f"<item><guid>{when:%F %T}</guid><title>{when:%F %T}</title>"
        f"<pubDate>{email.utils.format_datetime(when)}</pubDate></item>"
        for when in dates
    )
    return f"<rss version='2.0'><channel><title>Dated</title>{items}</channel></rss>".encode()


@pytest.fixture
def ann(services: Services) -> Actor:
    """A user with five entries of past months that have just arrived."""
    actor = add_user(services, "ann")
    feed = services.subscriptions.subscribe(actor, URL).subscription.feed_id
    pull(services, [feed], {URL: dated(*DATES)})
    return actor


@pytest.fixture
def feed(ann: Actor, services: Services) -> int:
    return services.sync.list_feeds(ann)[0].card.id


@pytest.fixture
def ask(services: Services, ann: Actor, app: Flask) -> Callable[..., Any]:
    key = hashlib.md5(f"ann:{password_of(services, ann, fever=True)}".encode()).hexdigest()
    client = app.test_client()
    return lambda query: client.post(f"/fever/?api&{query}", data={"api_key": key}).get_json()


def newest(reader: Reader, name: str) -> int:
    return max(int(item[name]) for item in reader.json("stream/contents")["items"])


TIMES: dict[str, Callable[[Reader], int]] = {
    "newestItemTimestampUsec": lambda r: int(
        r.json("unread-count")["unreadcounts"][0]["newestItemTimestampUsec"]
    ),
    "the same in nanoseconds": lambda r: (
        int(r.json("unread-count")["unreadcounts"][0]["newestItemTimestampUsec"]) * 1000
    ),
    "timestampUsec": lambda r: newest(r, "timestampUsec"),
    "crawlTimeMsec": lambda r: newest(r, "crawlTimeMsec"),
    "published": lambda r: newest(r, "published"),
    "published in microseconds": lambda r: newest(r, "published") * 1_000_000,
    "seconds of arrival": lambda r: newest(r, "timestampUsec") // 1_000_000,
    "updated of the stream": lambda r: r.json("stream/contents")["updated"],
}


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("of_feed", [True, False])
def test_newest_times_mark_all(reader: Reader, feed: int, name: str, of_feed: bool) -> None:
    reader.do("mark-all-as-read", s=f"feed/{feed}" if of_feed else READING, ts=str(TIMES[name](reader)))
    assert reader.ids(xt=READ) == []


def test_the_date_of_an_older_entry_marks_those_dated_until_then(reader: Reader) -> None:
    dates = {item["published"]: item for item in reader.json("stream/contents")["items"]}
    reader.do("mark-all-as-read", s=READING, ts=str(sorted(dates)[2]))
    left = reader.json("stream/contents", xt=READ)["items"]
    assert sorted(item["published"] for item in left) == sorted(dates)[3:]
    reader.do("mark-all-as-read", s=READING, ts=str(sorted(dates)[3] - 2))
    assert len(reader.ids(xt=READ)) == 2, "no entry has this date, and none had arrived by then"


def test_the_time_of_a_sync_leaves_what_arrived_later(
    reader: Reader, services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if a later arrival is dated exactly then: the app hasn't seen it."""
    synced = clock.now().replace(microsecond=0)
    monkeypatch.setattr(clock, "now", lambda: synced + dt.timedelta(hours=1))
    other = services.subscriptions.subscribe(ann, OTHER).subscription.feed_id
    pull(services, [other], {OTHER: dated(synced, synced + dt.timedelta(minutes=5))})
    late = reader.ids(f"feed/{other}")
    reader.do("mark-all-as-read", s=READING, ts=str(int(synced.timestamp())))
    assert set(late) <= set(reader.ids(xt=READ))


@pytest.mark.parametrize("what", ["feed", "group"])
@pytest.mark.parametrize("more", [0, 1])
def test_fever_understands_the_dates_that_it_sends(ask: Callable[..., Any], what: str, more: int) -> None:
    """Fluent Reader sends the second after the newest date."""
    ident = ask("feeds")["feeds"][0]["id"] if what == "feed" else 0
    before = max(item["created_on_time"] for item in ask("items")["items"]) + more
    assert ask(f"mark={what}&as=read&id={ident}&before={before}")["unread_item_ids"] == ""


def test_fever_counts_the_second_of_its_last_refresh(ask: Callable[..., Any]) -> None:
    last = max(map(int, ask("unread_item_ids")["unread_item_ids"].split(",")))
    assert ask(f"mark=group&as=read&id=0&before={last // 1_000_000}")["unread_item_ids"] == ""
