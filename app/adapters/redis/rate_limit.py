"""Rate limits for attempts: counted in Redis, or in this process while Redis is away (W06).

Up to ``limit`` attempts pass in a window. After them a gate closes for 15 s, 30 s, 60 s … up to the
window's length, with one attempt between two closings. So guessing becomes slow, but no one is locked
out permanently.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any, cast

import redis

from app import logs
from app.models.accounts.token import Attempt
from app.models.jobs import redis_keys

log = logs.get(__name__)

FIRST_DELAY = 15

_TRY = """
local wait = redis.call('TTL', KEYS[2])
if wait > 0 then return {wait, 0, 0} end
local tries = redis.call('INCR', KEYS[1])
if tries == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end
local over = tries - tonumber(ARGV[1])
if over >= 0 then
  local delay = math.min(tonumber(ARGV[2]), tonumber(ARGV[3]) * 2 ^ math.min(over, 16))
  redis.call('SET', KEYS[2], 1, 'EX', delay)
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return {0, tries, redis.call('TTL', KEYS[1])}
"""

_REFUND = """
local tries = tonumber(redis.call('GET', KEYS[1]) or '0')
if tries < 1 then return end
redis.call('DECR', KEYS[1])
if tries <= tonumber(ARGV[1]) then redis.call('DEL', KEYS[2]) end
"""


class MemoryLimiter:
    """The limit within one process; a :class:`app.services.access.Limiter`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tries: dict[str, tuple[int, float, float]] = {}  # key → attempts, window's end, gate's end

    def count_try(self, key: str, limit: int, window: int) -> int:
        return self.count_request(key, limit, window).wait

    def count_request(self, key: str, limit: int, window: int) -> Attempt:
        now = time.monotonic()
        with self._lock:
            tries, end, gate = self._tries.get(key, (0, 0.0, 0.0))
            if gate > now:
                return Attempt(int(gate - now) + 1)
            tries, end = (tries + 1, end) if end > now else (1, now + window)
            over = tries - limit
            if over >= 0:
                gate, end = now + min(window, FIRST_DELAY * 2 ** min(over, 16)), now + window
            self._drop_old(now)
            self._tries[key] = (tries, end, gate)
        return Attempt(0, max(0, limit - tries), math.ceil(end - now))

    def _drop_old(self, now: float) -> None:
        if len(self._tries) > 10_000:
            self._tries = {k: v for k, v in self._tries.items() if v[1] > now}

    def reset(self, key: str) -> None:
        with self._lock:
            self._tries.pop(key, None)

    def refund(self, key: str, limit: int) -> None:
        with self._lock:
            tries, end, gate = self._tries.get(key, (0, 0.0, 0.0))
            if tries:
                self._tries[key] = tries - 1, end, 0.0 if tries <= limit else gate


class RedisLimiter:
    """The limit across all web processes: one atomic script per attempt."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client
        self._script = client.register_script(_TRY)
        self._refund = client.register_script(_REFUND)
        self._fallback = MemoryLimiter()

    def count_try(self, key: str, limit: int, window: int) -> int:
        return self.count_request(key, limit, window).wait

    def count_request(self, key: str, limit: int, window: int) -> Attempt:
        try:
            found = self._script(keys=_names(key), args=[limit, window, FIRST_DELAY])
        except redis.RedisError as e:
            log.warning("limiter_without_redis", error=type(e).__name__)
            return self._fallback.count_request(key, limit, window)
        wait, tries, seconds = map(int, cast(Any, found))
        return Attempt(wait, max(0, limit - tries), seconds) if not wait else Attempt(wait)

    def reset(self, key: str) -> None:
        self._fallback.reset(key)
        try:
            self._redis.delete(*_names(key))
        except redis.RedisError as e:
            log.warning("limiter_without_redis", error=type(e).__name__)

    def refund(self, key: str, limit: int) -> None:
        self._fallback.refund(key, limit)
        try:
            self._refund(keys=_names(key), args=[limit])
        except redis.RedisError as e:
            log.warning("limiter_without_redis", error=type(e).__name__)

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()


def _names(who: str) -> list[str]:
    return [redis_keys.TRIES + who, f"{redis_keys.TRIES}{who}:gate"]
