"""Whether the stores answer: asked once a second at most, however many want to know.

Strangers may ask too, so an answer must cost next to nothing, most of all while a store is away.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from app.errors import StoreError

#: How long an answer holds, seconds.
KEPT = 1.0


class Readiness:
    """Asks the stores of a process.

    Args:
        checks: name of a part → raises StoreError when it does not answer.
    """

    def __init__(
        self, checks: Mapping[str, Callable[[], None]], timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._checks, self._timer = checks, timer
        self._asking = threading.Lock()
        self._known: tuple[float, list[str]] | None = None

    def find_missing(self) -> list[str]:
        """Return the names of the parts that do not answer; while somebody asks already, as it was before."""
        known = self._known
        if known and (self._timer() - known[0] < KEPT or not self._asking.acquire(blocking=False)):
            return known[1]
        if known is None:
            self._asking.acquire()
        try:
            if self._known is known:
                self._known = (self._timer(), self._ask())
            assert self._known is not None  # noqa: S101 — set now, or by whom this one waited for
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
