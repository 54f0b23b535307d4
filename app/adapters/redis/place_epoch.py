"""The epoch of the directory of people: a number in Redis that rises with each change of ``places``."""

from __future__ import annotations

import threading
import time

import redis

from app.errors import StoreError
from app.models.jobs import redis_keys
from app.runtime import redis_connections as connections

#: Seconds for which the epoch isn't asked again.
KEPT_SECONDS = 0.25


class RedisPlaceEpoch:
    """Reads the epoch at most every :data:`KEPT_SECONDS`. Without Redis it changes each
    second, so that places are read again.
    """

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
                    # Changes go unnoticed now, so places must be read again.
                    self._epoch, self._until = -time.monotonic_ns(), now + 1
        return self._epoch

    def raise_epoch(self) -> int:
        """Raise the epoch after a change of ``places``, and return it.

        Raises:
            StoreError: Redis isn't responding.
        """
        try:
            epoch = int(self._client.incr(redis_keys.PLACE_EPOCH))
        except redis.RedisError as e:
            raise StoreError from e
        self._epoch, self._until = epoch, time.monotonic() + KEPT_SECONDS
        return epoch
