"""Telling people: what is written to the stream, and that it never stops what it tells of."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import redis
from bson.int64 import Int64

from app.adapters.redis.events import QUIET, RedisEvents
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import AuthRequiredError, StoreError
from app.models.jobs import redis_keys
from app.models.notifications.events import EventPass
from app.models.reading.stream import StreamRef
from controller.audience import parse_place, unpack_ids
from tests.support.reader import add_user, follow

KEY = "pK3v9sXq7Lw2Zr8Tn5Yb1Hd6Jf4Gm0Ca"


def _told(client: redis.Redis) -> list[tuple[str, int | None, Any]]:
    rows: list[Any] = client.xrange(redis_keys.PEOPLE)  # type: ignore[assignment]
    client.delete(redis_keys.PEOPLE)
    return [
        (
            row[b"kind"].decode(),
            int(row[b"user"]) if b"user" in row else None,
            json.loads(row[b"data"]) if b"data" in row else None,
        )
        for _, row in rows
    ]


def test_what_services_change_is_told(services: Services, db: Any, redis_client: redis.Redis) -> None:
    ann = add_user(services)
    (feed_id,) = follow(services, ann, ["feeds/rss/zerokspot.com-71d236.xml"])
    subscribed, pulled = _told(redis_client)
    assert subscribed == ("follows", ann.user_id, {"added": [feed_id], "removed": []})
    assert pulled[:2] == ("new", None)
    assert list(pulled[2]) == [str(feed_id)]
    assert pulled[2][str(feed_id)] == services.gateways.feeds.get(feed_id).last_seq

    counts = ("counts", ann.user_id, None)
    entry = db.entries.find_one({"feed_id": feed_id})["_id"]
    services.reading.mark(ann, [entry], True)
    services.reading.set_starred(ann, entry, True)
    marked = services.reading.mark_all(ann, StreamRef.parse("all"))
    assert marked.undo is not None
    services.reading.undo_mass_mark(ann, marked.undo)
    assert _told(redis_client) == [counts] * 4
    services.subscriptions.unsubscribe(ann, feed_id)
    assert _told(redis_client) == [("follows", ann.user_id, {"added": [], "removed": [feed_id]})]


def test_ids_as_the_store_gives_them_are_told(settings: Settings, redis_client: redis.Redis) -> None:
    events = RedisEvents(settings)
    events.notify_counts(Int64(1_795_200_210_308_000))
    events.notify_new_entries({Int64(7): 2})
    events.notify_follows(Int64(5), added=[Int64(6)])
    assert events.issue_pass(Int64(5), [Int64(6)], events.get_position())
    events.close()
    assert [user for _, user, _ in _told(redis_client)] == [1_795_200_210_308_000, None, 5]


def test_a_pull_without_news_tells_nothing(services: Services, redis_client: redis.Redis) -> None:
    ann = add_user(services)
    follow(services, ann, ["feeds/rss/zerokspot.com-71d236.xml"])
    _told(redis_client)
    follow(services, ann, ["feeds/rss/zerokspot.com-71d236.xml"])
    assert [kind for kind, _, _ in _told(redis_client)] == ["follows"]


def test_the_stream_is_bounded_and_forgets(settings: Settings, redis_client: redis.Redis) -> None:
    events = RedisEvents(settings)
    for number in range(redis_keys.PEOPLE_KEPT + 500):
        events.notify_counts(number)
    events.close()
    assert redis_client.xlen(redis_keys.PEOPLE) <= redis_keys.PEOPLE_KEPT + 200  # whole nodes are cut off
    assert 0 < redis_client.ttl(redis_keys.PEOPLE) <= redis_keys.PEOPLE_SECONDS


def test_without_redis_events_are_dropped_and_nothing_else(
    services: Services, settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    away = RedisEvents(dataclasses.replace(settings, redis_url=f"unix://{tmp_path}/none.sock"))
    for _ in range(3):
        away.notify_counts(1)
        away.notify_new_entries({1: 2})
    # One try, then quiet: a click must not wait for Redis again and again.
    assert [r.message for r in caplog.records].count("event_dropped") == 1
    assert QUIET > 1
    with pytest.raises(StoreError):
        away.get_position()
    with pytest.raises(StoreError):
        away.issue_pass(1, [], "0-0")
    away.close()


def test_what_follows_a_position_lies_behind_it(settings: Settings, redis_client: redis.Redis) -> None:
    """Also in a stream that is empty, and within the same millisecond."""
    events = RedisEvents(settings)
    for _ in range(300):
        redis_client.delete(redis_keys.PEOPLE)
        at = events.get_position()
        events.notify_counts(1)
        rows: Any = redis_client.xrange(redis_keys.PEOPLE)
        assert parse_place(rows[0][0].decode()) > parse_place(at)
    events.close()


def test_a_report_of_progress_is_small(settings: Settings, redis_client: redis.Redis) -> None:
    events = RedisEvents(settings)
    events.notify_progress(7, 99, {"done": 3, "total": 10})
    with pytest.raises(ValueError, match="few numbers"):
        events.notify_progress(7, 99, {"text": "x" * 5000})
    events.close()
    assert _told(redis_client) == [("import", 7, {"done": 3, "total": 10, "id": 99})]


def test_a_pass_names_the_user_and_where_his_feeds_were_read(
    services: Services, redis_client: redis.Redis
) -> None:
    ann = add_user(services)
    follow(services, ann, ["feeds/rss/zerokspot.com-71d236.xml"])
    kept = services.gateways.sessions
    session = kept.find_session(kept.open_session(ann.user_id, agent="", address=""))
    assert session is not None
    text = services.event_passes.create_pass(ann, session[0])
    found = EventPass.read(services.settings.secret_key, text, 60)
    rows: Any = redis_client.xrevrange(redis_keys.PEOPLE, count=1)
    assert found == EventPass(ann.user_id, rows[0][0].decode())
    raw: Any = redis_client.get(redis_keys.make_follows_key(ann.user_id))
    assert list(unpack_ids(raw)) == services.gateways.subscriptions.find_feed_ids(ann.user_id)
    assert 60 <= redis_client.ttl(redis_keys.make_follows_key(ann.user_id)) <= 180


@pytest.mark.parametrize("forged", ["", "x", "WzEsIjAtMCJd.aaaa.bbbb", "ü", "a" * 5000])
def test_a_forged_pass_lets_nobody_in(forged: str) -> None:
    with pytest.raises(AuthRequiredError):
        EventPass.read(KEY, forged, 60)


def test_a_pass_of_another_key_or_time_lets_nobody_in() -> None:
    text = EventPass(17, "1-0").sign(KEY)
    assert EventPass.read(KEY, text, 60) == EventPass(17, "1-0")
    with pytest.raises(AuthRequiredError):
        EventPass.read(KEY[::-1], text, 60)
    with pytest.raises(AuthRequiredError):
        EventPass.read(KEY, text, -1)
