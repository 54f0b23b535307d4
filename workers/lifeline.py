"""The worker's connection to its manager: messages, new orders, and the end with its manager."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
from multiprocessing.connection import Connection

from app.models.jobs.workers import Message, WorkerSpec, decode_orders, encode_message

_PACKET = 1 << 16
#: Exit code of a worker whose manager has ended.
ORPHANED = 75


class ManagerChannel:
    """Sends messages to the manager and receives orders; without a manager (None) messages are dropped."""

    def __init__(self, line: socket.socket | None) -> None:
        self._line = line

    def send(self, message: Message) -> None:
        """Send at once or not at all: a frozen manager must not block its workers."""
        if self._line is not None:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                self._line.send(encode_message(message), socket.MSG_DONTWAIT)

    def get_fd(self) -> int | None:
        """Return a descriptor that becomes readable when orders arrive; None without a manager."""
        return None if self._line is None else self._line.fileno()

    def receive(self) -> WorkerSpec | None:
        """Return the newest orders since the last call, if any; never blocks."""
        newest = None
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while self._line is not None and (packet := self._line.recv(_PACKET, socket.MSG_DONTWAIT)):
                newest = decode_orders(packet)
        return newest


def exit_with_parent(pipe: Connection) -> None:
    """End this process when the other end of the pipe closes. Nothing is ever sent on it.

    On all systems a thread does this. On Linux the kernel does it too, by SIGIO, whose default action ends
    the process even while C code holds the interpreter. See fcntl(2), F_SETOWN.
    """
    threading.Thread(target=_await_end, args=(pipe,), daemon=True, name="lifeline").start()
    fcntl.fcntl(pipe.fileno(), fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(pipe.fileno(), fcntl.F_GETFL)
    fcntl.fcntl(pipe.fileno(), fcntl.F_SETFL, flags | os.O_ASYNC)
    # From now on the kernel signals an end; this check catches an earlier one.
    if pipe.poll():
        os._exit(ORPHANED)


def _await_end(pipe: Connection) -> None:
    pipe.poll(None)
    os._exit(ORPHANED)
