"""Returning free memory to the system.

glibc keeps freed memory for its next use, in an arena per thread. After a burst of work, many pages of an
arena are free, but only those at its end return without being asked for. So a process keeps the most that it
ever needed.
"""

from __future__ import annotations

import ctypes
import time

#: Shortest time between two trims, in seconds. A trim takes 5 to 10 ms of CPU for 60 MB.
TRIM_EVERY = 30.0


class Trimmer:
    """Trims the arenas of this process after work, at most once in ``every`` seconds; for one thread."""

    def __init__(self, every: float = TRIM_EVERY) -> None:
        self._every = every
        self._done = 0
        self._at = time.monotonic()

    def trim_after(self, done: int) -> bool:
        """Trim if work was done since the last trim and if that is long enough ago; return whether.

        Args:
            done: A count of the work so far.
        """
        if done == self._done or (now := time.monotonic()) - self._at < self._every:
            return False
        self._done, self._at = done, now
        trim_free_memory()
        return True


def trim_free_memory() -> None:
    """Return all pages of free memory to the system; nothing happens with another C library than glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
