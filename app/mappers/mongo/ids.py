"""Ids: whole microseconds since the epoch, 53 bits, so that JavaScript keeps them exact.

They rise with time without a counter server. Two processes may take the same microsecond: the unique
index on ``_id`` tells, and whoever came second takes a fresh id.
"""

from __future__ import annotations

import threading
import time

from app import clock

_lock = threading.Lock()
_last = 0


def reserve_ids(count: int = 1) -> int:
    """Return the first of ``count`` ids in a row, above all that this process took before."""
    global _last
    with _lock:
        # The clock of this code ends at milliseconds; without a finer part two processes that start
        # a batch in the same one would collide for sure.
        now = int(clock.now().timestamp() * 1000) * 1000 + time.time_ns() // 1000 % 1000
        first = max(_last + 1, now)
        _last = first + count - 1
        return first
