"""Readiness of the stores: checked at most once a second, however many requests come in.

Anyone may send such requests, so an answer must cost next to nothing, above all while a store is down.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from app.errors import StoreError

#: How long an answer is cached, seconds.
KEPT = 1.0


class Readiness:
    """Checks the stores of a process.

    Args:
        checks: for each part's name, a function that raises StoreError if the part does not answer.
    """

    def __init__(
        self, checks: Mapping[str, Callable[[], None]], timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._checks, self._timer = checks, timer
        self._asking = threading.Lock()
        self._known: tuple[float, list[str]] | None = None

    def find_missing(self) -> list[str]:
        """Return the names of the parts that do not answer.

        While another thread runs the checks, return the previous answer.
        """
        known = self._known
        if known and (self._timer() - known[0] < KEPT or not self._asking.acquire(blocking=False)):
            return known[1]
        if known is None:
            self._asking.acquire()
        try:
            if self._known is known:
                self._known = (self._timer(), self._ask())
            assert self._known is not None  # noqa: S101 — set here, or by the thread that held the lock
            return self._known[1]
        finally:
            self._asking.release()

    def _ask(self) -> list[str]:
        return [name for name, check in self._checks.items() if _is_silent(check)]


def _is_silent(check: Callable[[], None]) -> bool:
    try:
        check()
    except StoreError:
        return True
    return False
