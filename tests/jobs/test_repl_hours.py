"""Figures by hour: counted once whoever counts, kept over restarts, and right."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import json
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import redis

from app import clock
from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.errors import StoreError
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from app.models.operations import hourly_stats
from app.models.operations.hourly_stats import HOUR_MS, HOURS_KEPT, MINUTE_MS
from queue_manager import statistics
from queue_manager.control import listen
from queue_manager.statistics import Statistics, cancel_task, parse_entries
from tests.jobs import repl, support

Eventually = Callable[..., Any]
NOW_MS = int(clock.now().timestamp() * 1000)


def _row(**fields: object) -> dict[bytes, bytes]:
    return {name.encode(): str(value).encode() for name, value in fields.items()}


@pytest.mark.parametrize(
    ("row", "result", "counted"),
    [
        (_row(kind="finished", task="feeds.discover"), None, {"end:finished:feeds.discover": 1}),
        (
            _row(kind="failed", task="feeds.pull", error="timeout"),
            None,
            {"end:failed:feeds.pull": 1, "error:timeout": 1},
        ),
        (
            _row(kind="finished", task="t", ms=100),
            None,
            {"end:finished:t": 1, "run:t:27": 1, "run_ms:t": 100},
        ),
        # Of a job that an older version took, nobody knows when.
        (_row(kind="finished", task="t", ms=""), None, {"end:finished:t": 1}),
        (
            _row(kind="retry", task="t", error="store_unavailable"),
            None,
            {"end:retry:t": 1, "error:store_unavailable": 1},
        ),
        (_row(kind="suspect", task="t", error="crashed"), None, {"end:suspect:t": 1, "error:crashed": 1}),
        (_row(kind="progress", task="t"), None, {}),
        (
            _row(kind="finished", task="feeds.pull"),
            {"feeds": 50, "not_modified": 40, "unchanged": 45, "new": 7, "errors": 0, "skipped": 3},
            {
                "end:finished:feeds.pull": 1,
                "pull:feeds": 50,
                "pull:not_modified": 40,
                "pull:unchanged": 45,
                "pull:new": 7,
            },
        ),
        # A pull that a push brought about is a pull.
        (
            _row(kind="finished", task="websub.pull"),
            {"feeds": 1, "errors": 1, "words": {"timeout": 1, "http_404": 0, "x": "y"}},
            {"end:finished:websub.pull": 1, "pull:feeds": 1, "pull:errors": 1, "feed_error:timeout": 1},
        ),
        (
            _row(kind="finished", task="feeds.pull"),
            {"feeds": 2, "words": ["timeout"]},
            {"end:finished:feeds.pull": 1, "pull:feeds": 2},
        ),
        (
            _row(kind="finished", task="feeds.pull"),
            {"feeds": "many", "new": -1},
            {"end:finished:feeds.pull": 1},
        ),
        (
            _row(kind="started", queue="feed-pull", attempt=1, since=900),
            None,
            {"wait:user:27": 1, "wait_ms:user": 100},
        ),
        (_row(kind="started", queue="feed-pull-sys", attempt=1, since=1000), None, {"wait:system:0": 1}),
        # Later starts waited for other reasons; a clock that was set back makes no negative wait.
        (_row(kind="started", queue="feed-pull", attempt=2, since=900), None, {}),
        (_row(kind="started", queue="feed-pull", attempt=1, since=""), None, {}),
        (_row(kind="started", queue="feed-pull", attempt=1, since=5000), None, {"wait:user:0": 1}),
    ],
)
def test_what_an_event_adds(row: dict[bytes, bytes], result: Any, counted: dict[str, int]) -> None:
    assert hourly_stats.sum_by_hour([(1000, row, result)]) == ({0: counted} if counted else {})


@pytest.mark.parametrize("part", [0.5, 0.95])
def test_quantiles_are_right_within_nine_percent(part: float) -> None:
    rng = random.Random(5)
    waits = sorted(rng.lognormvariate(5, 2) + 2 for _ in range(4000))
    buckets: dict[int, int] = {}
    for wait in waits:
        buckets[hourly_stats.find_bucket(wait)] = buckets.get(hourly_stats.find_bucket(wait), 0) + 1
    found = hourly_stats.compute_quantile(buckets, part)
    assert found is not None
    assert found * 1000 == pytest.approx(waits[int(part * 4000) - 1], rel=0.0905)


def test_buckets_add_up_to_powers_of_two() -> None:
    times = [0, 1, 2, 3, 4, 5, 8, 9, 1000, 1024, 1025]
    buckets = Counter(hourly_stats.find_bucket(ms) for ms in times)
    found = hourly_stats.count_within(buckets, range(1, 12))
    assert found == [(2**n / 1000, sum(1 for ms in times if ms <= 2**n)) for n in range(1, 12)]


def test_quantiles_of_few_jobs() -> None:
    assert hourly_stats.compute_quantile({}, 0.5) is None
    assert hourly_stats.compute_quantile({0: 1}, 0.95) == hourly_stats.compute_quantile({0: 1}, 0.5)
    assert hourly_stats.compute_quantile({0: 19, 40: 1}, 0.95) == hourly_stats.compute_quantile({0: 1}, 0.5)
    assert hourly_stats.compute_quantile({0: 18, 40: 2}, 0.95) == hourly_stats.compute_quantile({40: 1}, 0.5)
    assert hourly_stats.find_bucket(1e12) == hourly_stats.find_bucket(1e11)


def test_a_sum_of_hours_adds_up_and_takes_the_highest_peak() -> None:
    one = {"end:finished:t": 3, "memory:a": 9 << 20, "wait:user:4": 1}
    two = {"end:finished:t": 4, "end:failed:u": 1, "memory:a": 5 << 20, "memory:b": 11 << 20, "error:x:y": 1}
    found = hourly_stats.summarise_hour(hourly_stats.sum_hours([one, two]))
    assert found["jobs"] == {"t": 7, "u": 1}
    assert (found["failed"], found["errors"], found["memory_peak_mb"]) == (1, {"x:y": 1}, 11.0)
    assert hourly_stats.summarise_hour({"feed_error:timeout": 2, "pull:errors": 3})["feed_error_words"] == {
        "timeout": 2
    }
    assert found["wait_p50_s"] == found["wait_p95_s"] is not None
    assert found["system_wait_p50_s"] is None


def _publish(client: redis.Redis, rows: Sequence[tuple[int, dict[bytes, bytes]]]) -> None:
    """Put events into the stream at these times, ms; the stream takes rising ones only."""
    for number, (ms, row) in enumerate(rows):
        client.xadd(redis_keys.EVENTS, row, id=f"{ms}-{number + 1}")  # type: ignore[arg-type]


async def _counting(settings: Settings, done: Callable[[], bool], *, count: int = 1) -> None:
    """Let so many managers count until it is done."""
    parts = [Statistics(settings, f"host:{n}:1", lambda: 0) for n in range(count)]
    tasks = [asyncio.create_task(part.count_forever()) for part in parts]
    try:
        async with asyncio.timeout(60):
            while not await asyncio.to_thread(done):
                await asyncio.sleep(0.02)
    finally:
        for task in tasks:
            await cancel_task(task)
        for part in parts:
            await part.close()


def _hours(settings: Settings, most: int = HOURS_KEPT) -> dict[str, Any]:
    async def read() -> dict[str, Any]:
        statistics = Statistics(settings, "host:9:1", lambda: 0)
        try:
            return await statistics.list_hours(most)
        finally:
            await statistics.close()

    return asyncio.run(read())


def _by_minute(client: redis.Redis, ms: int) -> dict[str, int]:
    row: Any = client.hgetall(redis_keys.make_minutes_key(ms // HOUR_MS))
    return {key.decode(): int(value) for key, value in row.items()}


def test_what_charts_show_is_counted_by_the_minute() -> None:
    pulled = {"feeds": 7, "not_modified": 4, "new": 2, "words": {"gone": 1}}
    events = [
        (HOUR_MS + 61_000, _row(kind="finished", task="feeds.pull", queue="feed-pull", ms=900), pulled),
        (HOUR_MS + 62_000, _row(kind="failed", task="t", queue="import", ms=""), None),
        (HOUR_MS + 62_000, _row(kind="started", task="t", queue="import"), None),
        (2 * HOUR_MS, _row(kind="retry", task="t", queue="of others", ms=5), None),
    ]
    assert hourly_stats.sum_by_minute(events) == {
        1: {
            "01:jobs": 2,
            "01:failed": 1,
            "01:run_ms": 900,
            "01:feeds": 7,
            "01:not_modified": 4,
            "01:new": 2,
            "01:ended-feed-pull": 1,
            "01:ended-import": 1,
        },
        2: {"00:jobs": 1, "00:failed": 1, "00:run_ms": 5},
    }


def _is_counted(client: redis.Redis) -> bool:
    """Whether nothing is left to read nor to acknowledge."""
    groups: Any = client.xinfo_groups(redis_keys.EVENTS) if client.exists(redis_keys.EVENTS) else []
    newest: Any = client.xrevrange(redis_keys.EVENTS, count=1)
    return bool(groups) and groups[0]["last-delivered-id"] == newest[0][0] and not groups[0]["pending"]


def test_several_managers_count_each_event_once(settings: Settings, redis_client: redis.Redis) -> None:
    rows = [(NOW_MS, _row(kind="finished", task="t")) for _ in range(5000)]
    _publish(redis_client, rows)
    asyncio.run(_counting(settings, lambda: _is_counted(redis_client), count=3))
    assert _hours(settings)["total"]["jobs"] == {"t": 5000}
    assert _by_minute(redis_client, NOW_MS) == {f"{NOW_MS % HOUR_MS // MINUTE_MS:02}:jobs": 5000}
    # And the next start counts only what is new.
    redis_client.xadd(redis_keys.EVENTS, _row(kind="finished", task="t"))  # type: ignore[arg-type]
    asyncio.run(_counting(settings, lambda: _is_counted(redis_client)))
    assert _hours(settings)["total"]["jobs"] == {"t": 5001}
    assert redis_client.hgetall(redis_keys.TOTALS) == {b"end:finished:t": b"5001"}


def test_events_belong_to_the_hour_in_which_they_happened(
    settings: Settings, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "_now_ms", lambda: NOW_MS)  # else an hour may end meanwhile
    ages = (HOURS_KEPT + 3, HOURS_KEPT - 1, 2, 2, 0)
    rows = [(NOW_MS - age * HOUR_MS, _row(kind="finished", task=f"t{age}")) for age in ages]
    _publish(redis_client, rows)
    asyncio.run(_counting(settings, lambda: _is_counted(redis_client)))
    found = _hours(settings)["hours"]
    assert [hour["jobs"] for hour in found] == [{"t0": 1}, {"t2": 2}, {f"t{HOURS_KEPT - 1}": 1}]
    assert found[0]["hour"] > found[1]["hour"] > found[2]["hour"]
    assert len(_hours(settings, 1)["hours"]) == 1
    stored = list(redis_client.scan_iter(redis_keys.STATS + "*"))
    assert len(stored) == 3
    assert all(0 < redis_client.ttl(key) <= (HOURS_KEPT + 1) * 3600 for key in stored)


@pytest.mark.parametrize("left", [30, 15])
def test_what_a_dead_manager_read_is_counted_by_another(
    settings: Settings, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """All of it, or what is still in the stream: what has left it stops no counting."""
    _publish(redis_client, [(NOW_MS, _row(kind="finished", task="t")) for _ in range(30)])
    redis_client.xgroup_create(redis_keys.EVENTS, "statistics", "0")
    # It read, and died before it counted.
    redis_client.xreadgroup("statistics", "statistics", {redis_keys.EVENTS: ">"}, count=20)
    redis_client.xtrim(redis_keys.EVENTS, maxlen=left, approximate=False)
    monkeypatch.setattr("queue_manager.statistics._ABANDONED_MS", 1)
    asyncio.run(_counting(settings, lambda: _is_counted(redis_client), count=2))
    assert _hours(settings)["total"]["jobs"] == {"t": left}


def test_of_a_page_that_another_manager_counted_in_part_only_the_rest_is_counted(
    settings: Settings, redis_client: redis.Redis
) -> None:
    """It was frozen between reading and counting for longer than a minute."""
    _publish(redis_client, [(NOW_MS, _row(kind="finished", task=f"t{n % 2}")) for n in range(30)])
    redis_client.xgroup_create(redis_keys.EVENTS, "statistics", "0")
    page: Any = redis_client.xreadgroup("statistics", "statistics", {redis_keys.EVENTS: ">"})
    rows = parse_entries(page)
    redis_client.xack(redis_keys.EVENTS, "statistics", *(stream_id for stream_id, _ in rows[:11]))

    async def thaw() -> None:
        statistics = Statistics(settings, "host:1:1", lambda: 0)
        await statistics._add(rows)
        await statistics._add(rows)  # nothing is left of it
        await statistics.close()

    asyncio.run(thaw())
    assert _hours(settings)["total"]["jobs"] == {"t0": 9, "t1": 10}
    assert _by_minute(redis_client, NOW_MS) == {f"{NOW_MS % HOUR_MS // MINUTE_MS:02}:jobs": 19}
    assert redis_client.hgetall(redis_keys.TOTALS) == {b"end:finished:t0": b"9", b"end:finished:t1": b"10"}


def test_counting_goes_on_after_redis_was_emptied(settings: Settings, redis_client: redis.Redis) -> None:
    def is_counted() -> bool:
        if not emptied:
            _publish(redis_client, [(NOW_MS, _row(kind="finished", task="before"))])
            emptied.append(redis_client.flushall())
            redis_client.xadd(redis_keys.EVENTS, _row(kind="finished", task="after"))  # type: ignore[arg-type]
        return _is_counted(redis_client)

    emptied: list[Any] = []
    asyncio.run(_counting(settings, is_counted))
    assert _hours(settings)["total"]["jobs"] == {"after": 1}


def test_pulls_are_counted_by_what_they_return(settings: Settings, redis_client: redis.Redis) -> None:
    value = base64.b64encode(json.dumps({"feeds": 9, "not_modified": 5, "new": 2}).encode())
    redis_client.xadd(redis_keys.make_results_key("one"), {"type": 1, "return_value": value})
    redis_client.xadd(redis_keys.make_results_key("odd"), {"type": 1, "return_value": b"no base64!"})
    redis_client.xadd(
        redis_keys.make_results_key("long"), {"type": 1, "return_value": base64.b64encode(b"[" * 9000)}
    )
    for job_id in ("one", "odd", "long", "expired"):
        row = _row(kind="finished", task=Task.PULL_SYSTEM, id=job_id)
        redis_client.xadd(redis_keys.EVENTS, row)  # type: ignore[arg-type]
    asyncio.run(_counting(settings, lambda: _is_counted(redis_client)))
    total = _hours(settings)["total"]
    assert (total["feeds"], total["not_modified"], total["new"]) == (9, 5, 2)
    assert total["jobs"] == {"feeds.pull_system": 4}


def test_of_pulls_that_ran_twice_each_run_counts(settings: Settings, redis_client: redis.Redis) -> None:
    for feeds in (3, 4):
        value = base64.b64encode(json.dumps({"feeds": feeds}).encode())
        redis_client.xadd(redis_keys.make_results_key("same"), {"type": 1, "return_value": value})
        row = _row(kind="finished", task=Task.PULL, id="same") | {b"value": value}
        redis_client.xadd(redis_keys.EVENTS, row)  # type: ignore[arg-type]
    asyncio.run(_counting(settings, lambda: _is_counted(redis_client)))
    assert _hours(settings)["total"]["feeds"] == 7


def test_hours_without_redis_are_one_error(settings: Settings) -> None:
    with pytest.raises(StoreError):
        _hours(dataclasses.replace(settings, redis_url=f"unix://{settings.home}/nobody.sock"))


def test_figures_of_a_running_manager_survive_its_death(
    settings: Settings, jobs: RedisJobs, redis_client: redis.Redis, eventually: Eventually
) -> None:
    good = [Job(Task.ECHO, {"key": key}, Queue.PULL) for key in range(25)]
    bad = [Job(Task.CRASH, {"how": "feed", "key": key}, Queue.PULL) for key in range(3)]
    tickets = jobs.enqueue_many([*good, *bad])
    with support.running("queue_manager.main", settings, "first") as first:
        assert len(list(jobs.await_many(tickets, 60))) == 28
        first.stop(signal.SIGKILL)
    with support.running("queue_manager.main", settings, "second") as second:
        eventually(lambda: listen.list_running(settings) == [second.pid])

        def total() -> Any:
            found = repl.ask(settings, "stats")["total"]
            counted = sum(found["jobs"].values()) == 28 and found["memory_peak_mb"]
            return found if counted else None

        found = eventually(total)
        assert found["jobs"] == {"selftest.crash": 3, "selftest.echo": 25}
        assert (found["failed"], found["errors"]) == (3, {"not_a_feed": 3})
        assert 0 < found["wait_p50_s"] <= found["wait_p95_s"] < 60
        assert found["memory_peak_mb"] > 10
        text = repl.run(settings, "-c", "stats 2").stdout
    assert "selftest.echo      25\n" in text
    assert "not_a_feed      3\n" in text
    with contextlib.suppress(ProcessLookupError):
        assert not support.is_alive(first.pid)
