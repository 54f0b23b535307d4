"""The epoch of the directory of people: a number in Redis that rises with each change of ``places``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import redis

from app.errors import StoreError
from app.models.jobs import redis_keys
from app.models.operations.cells import PLACE_SECONDS
from app.runtime import redis_connections as connections

#: Seconds for which a Redis that didn't respond is left alone.
RETRY_SECONDS = 1.0


class RedisPlaceEpoch:
    """Reads the epoch at most every :data:`PLACE_SECONDS`.

    The mover counts on it that nobody trusts an older one. So while Redis doesn't respond, or responds late,
    each answer is a new number, and places are read again.
    """

    def __init__(self, url: str, now: Callable[[], float] = time.monotonic) -> None:
        self._client: redis.Redis = connections.connect(url, socket_connect_timeout=1, socket_timeout=1)
        self._now, self._lock = now, threading.Lock()
        self._epoch, self._until, self._retry_at = 0, 0.0, 0.0

    def read(self) -> int:
        """Return the epoch, at most a quarter of a second old, or a new number."""
        if self._now() < self._until:
            return self._epoch
        if not self._lock.acquire(timeout=PLACE_SECONDS):
            return _make_new()  # another thread waits for Redis
        try:
            now = self._now()
            if now >= self._until:
                self._epoch = self._ask(now)
            return self._epoch
        finally:
            self._lock.release()

    def _ask(self, now: float) -> int:
        if now >= self._retry_at:
            try:
                epoch = int(self._client.get(redis_keys.PLACE_EPOCH) or 0)
            except redis.RedisError:
                self._retry_at = self._now() + RETRY_SECONDS
            else:
                # Its age counts from the question.
                self._until = now + PLACE_SECONDS
                if self._now() < self._until:
                    return epoch
        self._until = self._now() + PLACE_SECONDS
        return _make_new()

    def raise_epoch(self) -> int:
        """Raise the epoch after a change of ``places``, and return it.

        Raises:
            StoreError: Redis isn't responding.
        """
        now = self._now()
        try:
            epoch = int(self._client.incr(redis_keys.PLACE_EPOCH))
        except redis.RedisError as e:
            raise StoreError from e
        self._epoch, self._until = epoch, now + PLACE_SECONDS
        return epoch


def _make_new() -> int:
    return -time.monotonic_ns()
