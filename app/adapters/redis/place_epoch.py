"""The epoch of the directory of people: a number in Redis that rises with each change of ``places``."""

from __future__ import annotations

import threading
import time

import redis

from app.models.jobs import redis_keys
from app.runtime import redis_connections as connections

#: Seconds for which the epoch isn't asked again.
KEPT_SECONDS = 0.25


class RedisPlaceEpoch:
    """Reads the epoch at most every :data:`KEPT_SECONDS`. Without Redis it stays the same."""

    def __init__(self, url: str) -> None:
        self._client: redis.Redis = connections.connect(url, socket_connect_timeout=1, socket_timeout=1)
        self._lock = threading.Lock()
        self._epoch, self._until = 0, 0.0

    def read(self) -> int:
        """Return the epoch, at most a quarter of a second old."""
        now = time.monotonic()
        if now < self._until:
            return self._epoch
        with self._lock:
            if now >= self._until:
                self._until = now + KEPT_SECONDS
                try:
                    self._epoch = int(self._client.get(redis_keys.PLACE_EPOCH) or 0)
                except redis.RedisError:
                    self._until = now + 1
        return self._epoch

    def raise_epoch(self) -> int:
        """Raise the epoch after a change of ``places``, and return it."""
        epoch = int(self._client.incr(redis_keys.PLACE_EPOCH))
        self._epoch, self._until = epoch, time.monotonic() + KEPT_SECONDS
        return epoch
