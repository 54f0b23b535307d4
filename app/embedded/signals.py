"""A wait that every signal ends, the death of a child included."""

from __future__ import annotations

import contextlib
import select
import signal
import socket
from collections.abc import Iterator


class SignalWaiter:
    """Waits in the main thread; a signal that arrives before the wait ends it too, so none is missed."""

    def __init__(self, pipe: socket.socket) -> None:
        self._pipe = pipe

    def wait(self, timeout: float) -> bool:
        """Wait for a signal, at most ``timeout`` seconds; return whether there was one."""
        arrived, _, _ = select.select([self._pipe], [], [], timeout)
        if not arrived:
            return False
        with contextlib.suppress(BlockingIOError):
            while self._pipe.recv(4096):
                pass
        return True


@contextlib.contextmanager
def watch_signals() -> Iterator[SignalWaiter]:
    """Yield a waiter for the signals that have a handler, and for the deaths of children.

    The interpreter writes a byte for each signal, before the handler runs. On a full pipe a byte is lost, but
    then the next wait ends anyway.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        descriptor = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        # The default action for SIGCHLD is to ignore it, without a byte.
        handler = signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            yield SignalWaiter(ours)
        finally:
            signal.signal(signal.SIGCHLD, handler)
            signal.set_wakeup_fd(descriptor)
