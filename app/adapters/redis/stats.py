"""Counters and queue lengths in Redis, read for the hourly report."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis

from app import clock
from app.config import Settings
from app.errors import StoreError
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Queue
from app.models.operations.hourly_report import ReportFigures
from app.models.operations.hourly_stats import HOUR_MS
from app.runtime import redis_connections as connections
from app.runtime.lazy import lazy

_REPORTED_SECONDS = 2 * 86400


class RedisStats:
    """Connects at first use. All methods raise StoreError if Redis isn't responding."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @lazy
    def _client(self) -> redis.Redis:
        return connections.connect(self._settings.redis_url)

    def read_figures(self, hour: int) -> ReportFigures:
        """Return the figures of an hour; queues and updater are current."""
        with _store():
            with self._client.pipeline(transaction=False) as pipe:
                pipe.hgetall(redis_keys.make_hour_key(hour))
                pipe.hgetall(redis_keys.UPDATER_STATS)
                pipe.zcard(redis_keys.DEAD)
                for queue in Queue:
                    pipe.llen(redis_keys.make_queue_key(queue))
                    pipe.lindex(redis_keys.make_queue_key(queue), 0)
                counters, updater, dead, *rows = pipe.execute()
            heads = self._since(rows[1::2])
        now = clock.now()
        end = dt.datetime.fromtimestamp((hour + 1) * HOUR_MS / 1000, dt.UTC)
        waited = [max(0.0, now.timestamp() - since / 1000) if since else 0.0 for since in heads]
        return ReportFigures(
            hour=hour,
            until=min(now, end),
            counters={name.decode(): int(value) for name, value in counters.items()},
            waiting=dict(zip(map(str, Queue), zip(rows[::2], waited, strict=True), strict=True)),
            dead=dead,
            updater={name.decode(): value.decode() for name, value in updater.items()},
        )

    def get_reported_hour(self) -> int:
        """Return the hour whose report was sent last, 0 if unknown."""
        with _store():
            return int(self._client.get(redis_keys.REPORTED) or 0)

    def set_reported_hour(self, hour: int) -> None:
        """Record that the report of an hour was sent."""
        with _store():
            self._client.set(redis_keys.REPORTED, hour, ex=_REPORTED_SECONDS)

    def close(self) -> None:
        """Close the connection if there is one."""
        if (client := self.__dict__.get("_client")) is not None:
            client.close()

    def _since(self, heads: Sequence[bytes | None]) -> list[int]:
        with self._client.pipeline(transaction=False) as pipe:
            for head in heads:
                pipe.hget(redis_keys.make_job_key(head.decode() if head else ""), "since")
            values: list[Any] = pipe.execute()
        return [int(value) if value else 0 for value in values]


@contextmanager
def _store() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as e:
        raise StoreError from e
