"""A signal that a signal handler may set to wake a waiting thread."""

from __future__ import annotations

import queue


class WakeupSignal:
    """Set by any thread or signal handler, awaited by one thread.

    Not a ``threading.Event``: its ``set()`` takes a lock that the interrupted ``wait()`` or ``clear()`` of
    the same thread may hold, a deadlock. ``SimpleQueue`` is reentrant.
    """

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def notify(self) -> None:
        """End the current wait, or the next one."""
        if self._rings.empty():  # one is enough, however long no thread waits
            self._rings.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait for a signal, at most this long; return whether there was one. Each signal ends one wait."""
        try:
            self._rings.get(timeout=seconds)
        except queue.Empty:
            return False
        return True
