"""Ids: whole microseconds since the epoch, 53 bits, so that JavaScript represents them exactly.

They rise with time without a counter server. Two processes may reserve the same microsecond: then the unique
index on ``_id`` refuses the second document, and its process gets a new id.
"""

from __future__ import annotations

import threading
import time

from app import clock

#: No id is higher.
HIGHEST = (1 << 53) - 1

_lock = threading.Lock()
_last = 0


def reserve_ids(count: int = 1) -> int:
    """Return the first of ``count`` consecutive ids, above all ids that this process reserved before."""
    global _last
    with _lock:
        # clock.now() has millisecond precision; without microseconds, two processes that start a batch in the
        # same millisecond would always collide.
        now = int(clock.now().timestamp() * 1000) * 1000 + time.time_ns() // 1000 % 1000
        first = max(_last + 1, now)
        _last = first + count - 1
        return first
