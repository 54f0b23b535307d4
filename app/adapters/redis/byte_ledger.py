"""Bytes fetched per day, counted in Redis: of this system, and of each user."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app import clock, logs
from app.models.feeds.spent_bytes import SpentBytes
from app.models.jobs import redis_keys
from app.runtime import redis_connections as connections
from app.runtime.lazy import lazy

log = logs.get(__name__)

#: Seconds. A pull must not wait long for permission to start.
_PATIENCE: Final = 2.0
#: The field of the system's own count.
_ALL: Final = "all"
#: Seconds that a day's counts, and the payer of a search, are kept.
_DAY_KEPT, _PAYER_KEPT = 2 * clock.DAY, clock.HOUR


class RedisByteLedger:
    """:class:`app.ports.ByteLedger` on Redis. Connects at first use; safe to share between threads.

    Args:
        user_limit: bytes per user and day; 0: no limit.
    """

    def __init__(self, url: str, user_limit: int) -> None:
        self._url, self._user_limit = url, user_limit

    @lazy
    def _client(self) -> redis.Redis:
        # No retries: bytes would be counted twice.
        return connections.connect(
            self._url,
            socket_timeout=_PATIENCE,
            socket_connect_timeout=_PATIENCE,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )

    def get_spent(self, day: dt.date) -> SpentBytes:
        """Return what was spent on a day; see :class:`app.ports.ByteLedger`."""
        try:
            with self._client.pipeline(transaction=False) as pipe:
                pipe.hget(_counts(day), _ALL)
                pipe.smembers(_over(day))
                total, over = pipe.execute()
        except redis.RedisError as e:
            log.warning("bytes_without_redis", error=type(e).__name__)
            return SpentBytes()
        return SpentBytes(int(total or 0), frozenset(map(int, over)))

    def add(self, day: dt.date, total: int, users: Mapping[int, int]) -> None:
        """Count fetched bytes; see :class:`app.ports.ByteLedger`."""
        names = list(users)
        try:
            with self._client.pipeline(transaction=False) as pipe:
                for user_id in names:
                    pipe.hincrby(_counts(day), str(user_id), int(users[user_id]))
                pipe.hincrby(_counts(day), _ALL, total)
                pipe.expire(_counts(day), _DAY_KEPT)
                sums: list[Any] = pipe.execute()
            over = [
                str(int(user_id)) for user_id, spent in zip(names, sums, strict=False) if self._is_over(spent)
            ]
            if over:
                with self._client.pipeline(transaction=False) as pipe:
                    pipe.sadd(_over(day), *over)
                    pipe.expire(_over(day), _DAY_KEPT)
                    pipe.execute()
        except redis.RedisError as e:
            log.warning("bytes_without_redis", error=type(e).__name__)

    def _is_over(self, spent: int) -> bool:
        return 0 < self._user_limit <= spent

    def set_payer(self, search: int, user_id: int) -> None:
        """Remember who started a search; see :class:`app.ports.ByteLedger`."""
        try:
            self._client.set(f"{redis_keys.BYTES_PAYER}{search}", str(user_id), ex=_PAYER_KEPT)
        except redis.RedisError as e:
            log.warning("bytes_without_redis", error=type(e).__name__)

    def find_payer(self, search: int) -> int | None:
        """Return who started a search; see :class:`app.ports.ByteLedger`."""
        try:
            found: Any = self._client.get(f"{redis_keys.BYTES_PAYER}{search}")
        except redis.RedisError as e:
            log.warning("bytes_without_redis", error=type(e).__name__)
            return None
        return int(found) if found else None


def _counts(day: dt.date) -> str:
    return f"{redis_keys.BYTES}{day.isoformat()}"


def _over(day: dt.date) -> str:
    return f"{redis_keys.BYTES}{day.isoformat()}:over"
