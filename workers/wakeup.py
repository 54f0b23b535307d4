"""A bell that a signal handler may ring."""

from __future__ import annotations

import queue


class WakeupSignal:
    """Rung by any thread or signal handler, heard by the one thread that waits for it.

    Not a ``threading.Event``: its ``set()`` takes a lock that the interrupted ``wait()`` or ``clear()`` of
    the same thread may hold, and then waits for itself for ever. ``SimpleQueue`` is made for handlers.
    """

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def notify(self) -> None:
        """End the wait, or the next one."""
        if self._rings.empty():  # one is enough, however long nobody listens
            self._rings.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait until it rings, at most so long; returns whether it did. A ring is heard once."""
        try:
            self._rings.get(timeout=seconds)
        except queue.Empty:
            return False
        return True
