"""The slot of a process: the low bits of its ids, leased in Redis so that no other process has them.

A process uses its slot for half of the lease. So neither a frozen process nor clocks that differ by less than
:data:`LEASE` / 2 give an id twice. The lease is renewed when ids are reserved, without a thread.
"""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
from typing import cast

import redis

from app.errors import StoreError
from app.models.jobs import redis_keys
from app.models.operations.cells import SLOTS
from app.runtime import redis_connections as connections

#: Seconds of a lease, for which a process may use it without renewal, and after which it renews it.
LEASE, USED, RENEWED = 120.0, 60.0, 20.0

_RENEW = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""


class RedisSlot:
    """Leases one slot per process; a process that forks gets another one in the child."""

    def __init__(self, url: str) -> None:
        self._client: redis.Redis = connections.connect(url, socket_connect_timeout=1, socket_timeout=1)
        self._lock = threading.Lock()
        self._pid = self._slot = 0
        self._token = ""
        self._renewed = float("-inf")

    def get_slot(self) -> int:
        """Return the slot of this process.

        Raises:
            StoreError: the lease has expired, and Redis isn't responding or all slots are taken.
        """
        with self._lock:
            if self._pid != os.getpid():
                self._pid, self._renewed = os.getpid(), float("-inf")
            age = _read_clock() - self._renewed
            if age < RENEWED:
                return self._slot
            try:
                if age < LEASE and self._renew():
                    return self._slot
                self._lease()
            except redis.RedisError as e:
                if age < USED:
                    return self._slot
                raise StoreError from e
            return self._slot

    def _renew(self) -> bool:
        began = _read_clock()
        key = f"{redis_keys.SLOT}{self._slot}"
        if not self._client.eval(_RENEW, 1, key, self._token, str(int(LEASE))):
            return False
        self._renewed = began
        return True

    def _lease(self) -> None:
        first = random.randrange(SLOTS)  # noqa: S311
        for n in range(SLOTS):
            slot, token, began = (first + n) % SLOTS, secrets.token_hex(16), _read_clock()
            if cast(bool, self._client.set(f"{redis_keys.SLOT}{slot}", token, nx=True, ex=int(LEASE))):
                self._slot, self._token, self._renewed = slot, token, began
                return
        raise StoreError


def _read_clock() -> float:
    # Goes on while the machine sleeps, which the monotonic clock doesn't.
    return time.clock_gettime(time.CLOCK_BOOTTIME)
