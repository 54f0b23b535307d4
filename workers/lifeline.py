"""The worker's line to its manager: messages up, new orders down, an end when the manager ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
from multiprocessing.connection import Connection

from app.models.jobs.workers import Message, WorkerSpec, decode_orders, encode_message

_PACKET = 1 << 16
#: Exit code of a worker whose manager is gone.
ORPHANED = 75


class ManagerChannel:
    """Sends messages to the manager; without a manager (None) they go nowhere."""

    def __init__(self, line: socket.socket | None) -> None:
        self._line = line

    def send(self, message: Message) -> None:
        """Send at once or not at all: a frozen manager must not stop its workers."""
        if self._line is not None:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                self._line.send(encode_message(message), socket.MSG_DONTWAIT)

    def get_fd(self) -> int | None:
        """Becomes readable when there are orders; None without a manager."""
        return None if self._line is None else self._line.fileno()

    def receive(self) -> WorkerSpec | None:
        """Return the newest orders that have come since the last call, if any; never blocks."""
        newest = None
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while self._line is not None and (packet := self._line.recv(_PACKET, socket.MSG_DONTWAIT)):
                newest = decode_orders(packet)
        return newest


def exit_with_parent(pipe: Connection) -> None:
    """End this process when the other end of the pipe closes. Nothing is ever sent on it.

    A thread does it everywhere. On Linux the kernel does it as well, by SIGIO, whose default is to end
    the process: that works even while C code holds the interpreter. See fcntl(2), F_SETOWN.
    """
    threading.Thread(target=_await_end, args=(pipe,), daemon=True, name="lifeline").start()
    fcntl.fcntl(pipe.fileno(), fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(pipe.fileno(), fcntl.F_GETFL)
    fcntl.fcntl(pipe.fileno(), fcntl.F_SETFL, flags | os.O_ASYNC)
    # The kernel tells of an end from now on; one that came before is seen here.
    if pipe.poll():
        os._exit(ORPHANED)


def _await_end(pipe: Connection) -> None:
    pipe.poll(None)
    os._exit(ORPHANED)
