"""Logs at rest (R07): no line per turn, per operation or per poll without news."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
from pymongo.database import Database

from app import clock, embedded
from app.bootstrap.services import Services
from app.embedded import mongodb
from app.mappers.mongo.store import Session
from app.models.reading.entry import EntryKey
from workers.updater import updater as updater_module
from workers.updater.updater import Updater, UpdaterStats, queue_due_work

#: What the logs of a system at rest may grow by in all, in bytes.
PER_HOUR = 100_000


def test_R07_turns_of_the_updater_without_work_log_nothing(
    services: Services, redis_client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    seconds = iter(range(1_000_000))
    updater = Updater(
        services.settings, redis_client, services.pull, services.jobs, timer=lambda: float(next(seconds))
    )
    caplog.set_level(logging.INFO)
    updater.queue_due_feeds()
    queue_due_work(services)
    caplog.clear()
    for _ in range(50):
        assert isinstance(updater.queue_due_feeds(), UpdaterStats)
        queue_due_work(services)
        services.pull.find_due(clock.now(), 100)
    assert [record.message for record in caplog.records] == []
    # Beside that there is one line per interval, with its fields below 400 bytes.
    assert clock.HOUR / updater_module._REPORT_EVERY * 400 <= PER_HOUR / 4


def test_R07_the_embedded_mongodb_logs_no_line_per_operation(
    servers: embedded.EmbeddedServers, db: Database[Any]
) -> None:
    log = next(server.log_file for server in servers.servers if isinstance(server, embedded.MongoDB))
    db["many"].insert_one({"_id": 0})
    before = _count_lines(log)
    for number in range(300):
        db["many"].update_one({"_id": 0}, {"$set": {"n": number}})
        db["many"].find_one({"_id": 0})
    grown = _count_lines(log) - before
    # A slow operation may be one of a busy machine, and other lines are those of connections.
    grown.pop("Slow query", None)
    assert sum(grown.values()) <= 10, grown
    assert mongodb.SLOW_MS >= 2000


@pytest.mark.parametrize("change", ["subscribe", "star", "tag"])
def test_R07_a_transaction_that_is_repeated_after_conflicts_logs_one_line_at_most(
    services: Services,
    servers: embedded.EmbeddedServers,
    db: Database[Any],
    change: str,
    eventually: Callable[..., Any],
) -> None:
    """Another transaction holds the document, as that of a killed process does for some seconds."""
    log = next(server.log_file for server in servers.servers if isinstance(server, embedded.MongoDB))
    feed = services.gateways.feeds.get_or_create("https://a.example/", now=clock.now())
    entry, marks = EntryKey(7, feed.id, 1, 0), services.mappers.marks
    db.marks.insert_one({"user_id": 1, "entry_id": entry.id, "feed_id": feed.id, "liked_at": clock.now()})
    held = db.feeds if change == "subscribe" else db.marks
    runs: list[int] = []

    def work(session: Session) -> object:
        runs.append(1)
        if change == "subscribe":
            return services.mappers.feeds.change_subscriber_count(feed.id, 1, session)
        if change == "star":
            return marks.star(1, entry, clock.now(), session)
        return marks.set_tags(1, entry, [5], clock.now(), session)

    before = _count_lines(log)
    with ThreadPoolExecutor() as threads, db.client.start_session() as holder:
        holder.start_transaction()
        held.update_one({}, {"$set": {"held": True}}, session=holder)
        done = threads.submit(services.store.run_in_transaction, work)
        eventually(lambda: len(runs) >= 5, message="it is repeated")
        holder.abort_transaction()
        assert done.result(60)
    conflicts = {name: n for name, n in (_count_lines(log) - before).items() if "Plan executor" in name}
    assert sum(conflicts.values()) <= 1, conflicts
    assert db.feeds.find_one()["subscribers"] == (1 if change == "subscribe" else 0)  # type: ignore[index]
    mark = db.marks.find_one() or {}
    assert ("starred_at" in mark, mark.get("tags")) == (change == "star", [5] if change == "tag" else None)


def _count_lines(log: Path) -> Counter[str]:
    return Counter(json.loads(line)["msg"] for line in log.read_text("utf-8", "replace").splitlines() if line)
