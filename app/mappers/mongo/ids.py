"""Ids: whole microseconds since the epoch, 53 bits, so that JavaScript represents them exactly.

They rise with time without a counter server. Two processes may reserve the same microsecond: then the unique
index on ``_id`` refuses the second document, and its process gets a new id. No index is unique over several
stores. So where people live in cells, ids of their documents end in a slot that their process has leased.
"""

from __future__ import annotations

import threading
import time

from app import clock
from app.models.operations.cells import SLOT_BITS, SLOTS

#: No id is higher.
HIGHEST = (1 << 53) - 1

_lock = threading.Lock()
_last = 0


def reserve_slot_ids(slot: int, count: int = 1) -> range:
    """Return ``count`` ids that no process with another slot reserves, above all that this process reserved.

    They are :data:`SLOTS` µs apart, so many of them run ahead of the clock by a millisecond each.
    """
    global _last
    with _lock:
        above = (max(_last, _read_micros() - 1) >> SLOT_BITS) + 1
        first = above << SLOT_BITS | slot
        _last = first + (count - 1) * SLOTS
        return range(first, _last + 1, SLOTS)


def reserve_ids(count: int = 1) -> int:
    """Return the first of ``count`` consecutive ids, above all ids that this process reserved before."""
    global _last
    with _lock:
        first = max(_last + 1, _read_micros())
        _last = first + count - 1
        return first


def _read_micros() -> int:
    # clock.now() has millisecond precision; without microseconds, two processes that start a batch in the
    # same millisecond would always collide.
    return int(clock.now().timestamp() * 1000) * 1000 + time.time_ns() // 1000 % 1000
