"""Which media stores a process passes over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

#: Failures in a row after which a store is passed over.
FAILURES: Final = 3
#: First and longest time for which it is passed over, seconds; each failed attempt doubles it.
PAUSE_MIN, PAUSE_MAX = 30.0, 300.0


class StoreHealth:
    """Counts a store's failures in a row. After a pause, one attempt decides whether the store is back."""

    def __init__(self, timer: Callable[[], float] = time.monotonic) -> None:
        self._timer = timer
        self._lock = threading.Lock()
        self._pause = PAUSE_MIN
        self._until: float | None = None
        #: Failures in a row, and what the last one was.
        self.failures = 0
        self.error = ""

    @property
    def is_away(self) -> bool:
        """Whether the store is passed over right now."""
        return self._until is not None and self._timer() < self._until

    def begin_attempt(self) -> bool:
        """Return whether to use the store now; at the end of a pause, only one caller may try."""
        with self._lock:
            if self._until is None:
                return True
            if self._timer() < self._until:
                return False
            self._until = self._timer() + self._pause
            return True

    def record_success(self) -> bool:
        """Record that the store works; return whether it was passed over before."""
        with self._lock:
            was_away = self._until is not None
            self.failures, self.error, self._until, self._pause = 0, "", None, PAUSE_MIN
            return was_away

    def record_failure(self, error: str) -> bool:
        """Record a failure; return whether the store is passed over from now on, and wasn't before."""
        with self._lock:
            self.failures += 1
            self.error = error
            if self.failures < FAILURES:
                return False
            was_away = self._until is not None
            if was_away:
                self._pause = min(2 * self._pause, PAUSE_MAX)
            self._until = self._timer() + self._pause
            return not was_away
