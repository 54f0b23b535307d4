"""The checks see what they are for: each is shown a store in which its promise is broken."""

from __future__ import annotations

import datetime as dt
from typing import Any

import psutil
import pytest
import redis
from bson.int64 import Int64

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from app.models.reading.stream import StreamRef
from tests.faults import checks
from tests.support.reader import pull

URL = "http://feed.example/feed"
ITEMS = b"".join(b"<item><guid>%d</guid><title>Entry %d</title></item>" % (n, n) for n in range(4))
RSS = b"<rss version='2.0'><channel><title>Feed</title>" + ITEMS + b"</channel></rss>"
ANN = Actor(1)


@pytest.fixture
def feed_id(services: Services) -> int:
    """A feed with four entries and a reader."""
    feed_id = services.subscriptions.subscribe(ANN, URL).subscription.feed_id
    pull(services, [feed_id], {URL: RSS})
    return feed_id


def _of_store(db: Any) -> list[str]:
    return checks.doubled(db) + checks.miscounted(db) + checks.claimed(db, clock.now())


def test_a_sound_store_passes(services: Services, db: Any, feed_id: int) -> None:
    assert services.gateways.feeds.get(feed_id).last_seq == 4
    assert _of_store(db) + checks.unsubscribed(db, [(ANN.user_id, URL)]) == []


def test_R01_lost_entries_and_subscriptions_are_seen(db: Any, feed_id: int) -> None:
    told = frozenset(bytes(e["guid_hash"]) for e in db.entries.find({"feed_id": feed_id}))
    assert checks.lost(db, {URL: told}) == []
    db.feeds.update_one({"_id": feed_id}, {"$inc": {"last_seq": Int64(-1)}})
    assert checks.lost(db, {URL: told}) == [f"R01: {URL} misses 1 of 4 entries"], "it is not shown yet"
    db.feeds.update_one({"_id": feed_id}, {"$inc": {"last_seq": Int64(1)}})
    db.entries.delete_one({"feed_id": feed_id, "seq": 3})
    assert checks.lost(db, {URL: told}) == [f"R01: {URL} misses 1 of 4 entries"]
    db.subscriptions.delete_many({})
    assert len(checks.unsubscribed(db, [(ANN.user_id, URL)])) == 1


def test_R02_doubles_are_seen(db: Any, feed_id: int) -> None:
    for index in [name for name in db.entries.index_information() if name != "_id_"]:
        db.entries.drop_index(index)
    one = db.entries.find_one({"feed_id": feed_id})
    db.entries.insert_one({**one, "_id": Int64(17)})
    assert len(checks.doubled(db)) == 2


@pytest.mark.parametrize(
    "change",
    [{"$inc": {"last_seq": Int64(1)}}, {"$inc": {"first_seq": Int64(1)}}, {"$inc": {"subscribers": 1}}],
)
def test_R03_wrong_counts_are_seen(db: Any, feed_id: int, change: dict[str, Any]) -> None:
    db.feeds.update_one({"_id": feed_id}, change)
    assert len(checks.miscounted(db)) == 1


def test_R03_what_a_dead_writer_left_is_seen_until_nobody_reads_the_feed(db: Any, feed_id: int) -> None:
    assert checks.unsettled(db) == []
    entry = db.entries.find_one({"feed_id": feed_id})
    db.entries.insert_one({**entry, "_id": Int64(17), "seq": Int64(6), "guid_hash": b"0123456789abcdef"})
    assert len(checks.miscounted(db)) == 1
    db.feeds.update_one({"_id": feed_id}, {"$set": {"claim_token": "dead"}})
    assert (len(checks.unsettled(db)), len(checks.miscounted(db))) == (1, 1)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"torn": True}, "$unset": {"claim_token": ""}})
    assert (len(checks.unsettled(db)), len(checks.miscounted(db))) == (1, 1)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"error": "crashed"}})
    assert checks.unsettled(db) + checks.miscounted(db) == [], "it rests"
    db.feeds.update_one({"_id": feed_id}, {"$set": {"subscribers": 0, "error": None}})
    db.subscriptions.delete_many({})
    assert checks.unsettled(db) + checks.miscounted(db) == []
    db.entries.delete_one({"feed_id": feed_id, "seq": 2})
    assert len(checks.miscounted(db)) == 1, "but what was shown is"


def test_R03_a_star_too_many_is_seen(services: Services, db: Any, feed_id: int) -> None:
    entry = db.entries.find_one({"feed_id": feed_id})["_id"]
    services.reading.set_starred(ANN, entry, True)
    assert checks.miscounted(db) == []
    db.entries.update_one({"_id": entry}, {"$inc": {"stars": 1}})
    assert len(checks.miscounted(db)) == 1
    db.entries.update_one({"_id": entry}, {"$unset": {"stars": ""}})
    assert len(checks.miscounted(db)) == 1


def test_R03_unread_entries_are_counted_one_by_one(services: Services, db: Any, feed_id: int) -> None:
    assert checks.unread(db, ANN.user_id) == 4
    services.reading.mark_all(ANN, StreamRef.parse("all"))
    first, second = [e["_id"] for e in db.entries.find({"feed_id": feed_id}).limit(2)]
    services.reading.mark(ANN, [first, second], False)
    services.reading.mark(ANN, [second], True)
    assert checks.unread(db, ANN.user_id) == services.reading.get_tree(ANN).unread == 1


def test_R03_a_mark_beyond_the_end_is_seen(db: Any, feed_id: int) -> None:
    db.subscriptions.update_one({"feed_id": feed_id}, {"$set": {"words.0": Int64(1 << 40)}})
    assert len(checks.miscounted(db)) == 1


def _event(client: redis.Redis, kind: str, attempt: int, job: str = "a") -> None:
    client.xadd(redis_keys.EVENTS, {"kind": kind, "id": job, "task": "t", "attempt": attempt})


@pytest.mark.parametrize(
    ("kinds", "wrong"),
    [
        ("started finished started failed", 0),
        ("started retry started returned started finished", 0),
        ("finished started finished", 0),  # its beginning was cut off
        ("started finished finished", 1),
        ("started started", 1),
    ],
)
def test_R04_double_beginnings_and_ends_are_seen(redis_client: redis.Redis, kinds: str, wrong: int) -> None:
    attempt = 0
    for kind in kinds.split():
        attempt += kind == "started"
        _event(redis_client, kind, attempt)
    assert len(checks.events(redis_client)) == wrong


def test_R04_an_end_by_another_attempt_is_seen(redis_client: redis.Redis) -> None:
    _event(redis_client, "started", 2)
    _event(redis_client, "finished", 1)
    assert len(checks.events(redis_client)) == 1


def test_R04_what_is_left_is_seen(services: Services, redis_client: redis.Redis) -> None:
    services.jobs.enqueue(Job(Task.ECHO, {"left": 1}, Queue.PULL))
    redis_client.rpush(redis_keys.make_inflight_key("gone"), "x")
    assert len(checks.stuck_jobs(redis_client)) == 3


def test_locks_of_the_dead_are_seen(db: Any, redis_client: redis.Redis, feed_id: int) -> None:
    assert checks.locks(redis_client, lambda _: False) == []
    redis_client.hset(redis_keys.WORKERS, "w", "host:1:1")
    redis_client.zadd(redis_keys.MANAGERS, {"host:2:2": 1})
    redis_client.set(redis_keys.UPDATER_LEASE, "token")
    assert len(checks.locks(redis_client, lambda _: False)) == 3
    later = clock.now() + dt.timedelta(seconds=60)
    db.feeds.update_one({"_id": feed_id}, {"$set": {"claim_token": "t", "claimed_until": later}})
    assert len(checks.claimed(db, clock.now())) == 1


def test_a_process_without_its_parents_is_seen() -> None:
    me = psutil.Process()
    assert checks.orphans([me], [me]) == []
    assert len(checks.orphans([me], [])) == 1


def test_R05_a_forgotten_feed_is_seen(db: Any, feed_id: int) -> None:
    assert checks.stuck_feeds(db, 3600, clock.now()) == []
    assert len(checks.stuck_feeds(db, 1, clock.now() + dt.timedelta(days=2))) == 1
    db.feeds.update_one({"_id": feed_id}, {"$set": {"next_check_at": None}})
    assert len(checks.stuck_feeds(db, 3600, clock.now())) == 1
