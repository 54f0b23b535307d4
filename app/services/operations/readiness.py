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
_TITLES = {"mongodb": "MongoDB", "redis": "Redis"}


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
        self._known: tuple[float, dict[str, str]] | None = None

    def find_missing(self) -> list[str]:
        """Return the names of the parts that can't be used."""
        return list(self.find_problems())

    def find_problems(self) -> dict[str, str]:
        """Return the parts that can't be used, each with a sentence for operators.

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

    def _ask(self) -> dict[str, str]:
        return {name: text for name, check in self._checks.items() if (text := _find_problem(name, check))}


def _find_problem(name: str, check: Callable[[], None]) -> str:
    try:
        check()
    except StoreError as e:
        if e.sentence != StoreError.default:
            return e.message
        return f"{_TITLES.get(name, name)} isn't responding."
    return ""
