"""The fetch log in a feed: the last 20 fetches in order, counts by hour and day, and the old log's move."""

from __future__ import annotations

import dataclasses
import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from bson import BSON

from app import clock
from app.bootstrap.services import Services
from app.errors import StoreError
from app.mappers.feeds import fetch_log
from app.mappers.mongo.migrations import m0004_move_fetch_log
from app.mappers.mongo.migrations.migrator import Migrator
from app.models.feeds.feed import FeedFields, FeedUpdate, FetchRecord, UnchangedPoll
from app.models.feeds.fetch_log import KEPT, FetchCounts
from app.models.operations.feed_list import SLOW_MOST, FeedFilter, FeedOrder, FeedQuery
from tests.support.fetches import record_fetches

NOW = dt.datetime(2026, 11, 28, 12, 30, tzinfo=dt.UTC)
MINUTE, HOUR, DAY = dt.timedelta(minutes=1), dt.timedelta(hours=1), dt.timedelta(days=1)


@pytest.fixture
def feed_id(services: Services) -> int:
    return services.gateways.feeds.get_or_create("https://feeds.example/0", now=NOW).id


def _poll(services: Services, feed_id: int, at: dt.datetime, ms: int = 5) -> None:
    poll = UnchangedPoll(FetchRecord(feed_id, at, 304, ms, 0), at + HOUR)
    services.gateways.feeds.record_unchanged([poll], at)


def _hour(at: dt.datetime) -> int:
    return int(at.timestamp()) // 3600


def test_two_workers_at_once_keep_the_last_fetches_in_order(
    services: Services, db: Any, feed_id: int
) -> None:
    """One stores polls without news, the other one claims the feed and stores errors."""
    gateway = services.gateways.feeds

    def store_error(at: dt.datetime) -> None:
        record = FetchRecord(feed_id, at, 503, 7, 90, error="http_503")
        while not gateway.claim([feed_id], f"t{at}", at, 60):
            pass
        update = FeedUpdate(feed_id, f"t{at}", at, fields=FeedFields(error="$refused"), record=record)
        assert gateway.store_updates([update], at)[0].stored

    def store_quiet(at: dt.datetime) -> None:
        while at not in {fetch.at for fetch in gateway.find_fetch_log(feed_id).fetches}:
            _poll(services, feed_id, at)  # without effect while the other worker holds the feed

    times = [NOW + n * dt.timedelta(seconds=1) for n in range(60)]
    with ThreadPoolExecutor(2) as pool:
        works = (store_error if n % 2 else store_quiet for n in range(len(times)))
        list(pool.map(lambda work, at: work(at), works, times))
    doc = db.feeds.find_one({"_id": feed_id})
    log = gateway.find_fetch_log(feed_id)
    assert doc["error"] == "$refused"
    assert [f.at for f in log.fetches] == sorted((f.at for f in log.fetches), reverse=True)
    assert len(log.fetches) == KEPT
    # Both write at about the same pace: what is kept are the last ones.
    assert min(f.at for f in log.fetches) >= times[-KEPT - 6]
    assert log.hours[_hour(NOW)] == FetchCounts(60, 30)
    assert doc["log"]["n"] == 60
    assert len(BSON.encode({"log": doc["log"]})) < 1500


@pytest.mark.parametrize(
    "record",
    [
        FetchRecord(1, NOW, 304, 5, 0),
        FetchRecord(1, NOW + dt.timedelta(milliseconds=7), 304, 5, 120),
        FetchRecord(1, NOW, 200, 6, 900, 2),
        FetchRecord(1, NOW, 200, 6, 0),
        FetchRecord(1, NOW, 0, 0, 0, 0, "timeout"),
    ],
)
def test_a_fetch_is_read_as_it_was_stored(services: Services, feed_id: int, record: FetchRecord) -> None:
    record = record._replace(feed_id=feed_id)
    record_fetches(services, [record])
    assert services.gateways.feeds.find_fetch_log(feed_id).fetches == (record,)


def test_counts_end_with_their_hour_and_their_day(services: Services, db: Any, feed_id: int) -> None:
    for at in (NOW - 14 * DAY, NOW - DAY, NOW - DAY, NOW):
        _poll(services, feed_id, at)
    record_fetches(
        services, [FetchRecord(feed_id, NOW, 200, 9, 80, 3), FetchRecord(feed_id, NOW, 404, 9, 80, 0, "x")]
    )
    log = services.gateways.feeds.find_fetch_log(feed_id)
    today = int(NOW.timestamp()) // 86400
    assert log.days == {today: FetchCounts(3, 1, 3), today - 1: FetchCounts(2)}
    assert log.hours == {_hour(NOW): FetchCounts(3, 1, 3)}
    # A clock that is set back replaces what was counted for the future.
    _poll(services, feed_id, NOW - 14 * DAY)
    assert today - 14 in services.gateways.feeds.find_fetch_log(feed_id).days


def test_lists_and_polls_do_not_read_the_log(services: Services, db: Any, feed_id: int) -> None:
    """Any reader of whole feeds would fail: the log is unreadable here."""
    _poll(services, feed_id, NOW)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"log": {"0": "x" * 1000}}})
    db.command({"profile": 2})
    gateway = services.gateways.feeds
    try:
        gateway.get(feed_id)
        gateway.find_by_url("https://feeds.example/0")
        gateway.find_cards([feed_id])
        gateway.find_polls([feed_id])
        gateway.get_or_create_many(["https://feeds.example/0"], now=NOW, due=NOW)
        assert gateway.claim([feed_id], "t", NOW, 60)
    finally:
        db.command({"profile": 0})
    reads = list(db["system.profile"].find({"op": "query", "ns": f"{db.name}.feeds"}))
    assert len(reads) >= 5
    assert max(read["responseLength"] for read in reads) < 1000


def test_slow_feeds_are_listed_by_their_longest_fetch(services: Services, feed_id: int) -> None:
    other = services.gateways.feeds.get_or_create("https://feeds.example/1", now=NOW).id
    lists = services.gateways.feed_lists
    _poll(services, other, NOW - 2 * DAY, 60_000)
    _poll(services, feed_id, NOW - 2 * HOUR, 9000)
    _poll(services, feed_id, NOW - HOUR, 7000)
    _poll(services, feed_id, NOW, 20)
    rows = lists.list_feeds(FeedQuery(order=FeedOrder.SLOWEST), NOW, 10).rows
    assert [(row.id, row.slowest) for row in rows] == [(feed_id, 9000)]


def test_slow_feeds_are_filtered_before_the_slowest_are_taken(
    services: Services, db: Any, feed_id: int
) -> None:
    urls = [f"https://slower.example/{number}" for number in range(1001)]
    services.gateways.feeds.get_or_create_many(urls, now=NOW, due=NOW)
    slower = {"$set": {"slow_at": NOW - HOUR, "slow_ms": 60_000}}
    db.feeds.update_many({"_id": {"$ne": feed_id}}, slower)
    _poll(services, feed_id, NOW - 2 * HOUR, 9000)
    lists = services.gateways.feed_lists
    lists.pause(feed_id)
    by_order = FeedQuery(order=FeedOrder.SLOWEST)
    for query in (
        dataclasses.replace(by_order, filter=FeedFilter.PAUSED),
        dataclasses.replace(by_order, text="feeds.example"),
        dataclasses.replace(by_order, text=str(feed_id)),
    ):
        assert [(row.id, row.slowest) for row in lists.list_feeds(query, NOW, 10).rows] == [(feed_id, 9000)]
    db.feeds.update_one({"_id": feed_id}, {"$set": {"error": "timeout"}})
    failing = dataclasses.replace(by_order, filter=FeedFilter.ERRORS, word="timeout")
    assert [row.id for row in lists.list_feeds(failing, NOW, 10).rows] == [feed_id]
    assert len(lists.list_feeds(by_order, NOW, 10).rows) == SLOW_MOST


def _old_line(feed_id: int, at: dt.datetime, **fields: Any) -> dict[str, Any]:
    return {"at": at, "of": [{"f": feed_id, "at": at, "s": 304, "ms": 5, **fields}]}


def test_the_old_log_moves_into_the_feeds_and_survives_a_kill(
    services: Services, db: Any, feed_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ages = [dt.timedelta(minutes=50 * n) for n in range(60)] + [20 * DAY]
    lines = [_old_line(feed_id, NOW - age, s=200, n=1, b=70) for age in ages]
    lines += [_old_line(feed_id, NOW - 3 * DAY, s=0, ms=9000, e="timeout"), _old_line(77, NOW)]
    lines[0]["of"].append({"f": feed_id + 1, "at": NOW, "s": 304, "ms": 6000, "e": None})
    db.fetches.insert_many(lines)
    db.feeds.insert_one({"_id": feed_id + 1, "url_key": "second"})
    db.schema.update_one({}, {"$set": {"version": 3}}, upsert=True)
    real, calls = m0004_move_fetch_log._move, 0

    def move(*args: Any) -> None:
        nonlocal calls
        calls += 1
        real(*args)
        if calls == 3:
            raise StoreError

    monkeypatch.setattr(m0004_move_fetch_log, "_move", move)
    with clock.set_source(lambda: NOW):
        with pytest.raises(StoreError):
            Migrator(services.store, "9.9").run()
        Migrator(services.store, "9.9").run()
        Migrator(services.store, "9.9").run()

    assert "fetches" not in db.list_collection_names()
    log = services.gateways.feeds.find_fetch_log(feed_id)
    assert [f.at for f in log.fetches] == [NOW - age for age in ages[:KEPT]]
    assert log.fetches[0] == FetchRecord(feed_id, NOW, 200, 5, 70, 1)
    today = int(NOW.timestamp()) // 86400
    in_days = {
        today - back: sum((NOW - age).date() == (NOW - back * DAY).date() for age in ages)
        for back in range(3)
    }
    assert {day: c.new for day, c in log.days.items() if c.new} == in_days
    assert log.days[today - 3] == FetchCounts(1, 1, 0)
    assert sum(c.fetches for c in log.hours.values()) == len([age for age in ages if age < 23.5 * HOUR])
    assert services.gateways.feeds.find_fetch_log(feed_id + 1).fetches[0].ms == 6000
    assert db.feeds.find_one({"_id": feed_id + 1})["slow_at"] == NOW
    # The next fetch replaces the oldest.
    _poll(services, feed_id, NOW + HOUR)
    after = services.gateways.feeds.find_fetch_log(feed_id).fetches
    assert [f.at for f in after] == [NOW + HOUR, *(NOW - age for age in ages[: KEPT - 1])]
    assert fetch_log.FIELD in db.feeds.find_one({"_id": feed_id})
