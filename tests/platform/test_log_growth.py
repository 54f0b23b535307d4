"""Logs at rest (R07): no line per turn, per operation or per poll without news."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis
from pymongo.database import Database

from app import clock, embedded
from app.bootstrap.services import Services
from app.embedded import mongodb
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


def _count_lines(log: Path) -> Counter[str]:
    return Counter(json.loads(line)["msg"] for line in log.read_text("utf-8", "replace").splitlines() if line)
