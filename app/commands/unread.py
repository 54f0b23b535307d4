"""Responses that wait for their client to read them, without a thread.

A client that doesn't read fills its connection's buffers, and a plain ``sendall`` then blocks a thread for as
long as the client likes. :class:`Outbox` stands in for the socket and never blocks: it keeps what the kernel
doesn't accept. :class:`UnreadTable` decides who has waited too long or takes too much memory (security.md
W17).
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import select
import socket
import struct
import termios
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from gunicorn.http.wsgi import Response
from gunicorn.workers.gthread import TConn

from controller.http_request import find_client_address

#: A client that reads confirms at least this many bytes per EVENTR_WEB_UNREAD_SECONDS, or all there is.
PROGRESS_BYTES = 16 << 10
#: Unsent bytes that the kernel keeps for a connection; its own limit is 4 MB.
UNSENT_BYTES = 128 << 10
#: Pieces that one system call sends.
_PIECES = 16
#: Time between two looks at what a client has read, milliseconds.
_CHECK_MS = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class UnreadLimits:
    """Limits for unread responses of one web process.

    Attributes:
        seconds: time without progress after which a client is disconnected.
        per_address: unread responses per IP address, or IPv6 /64 network; 0: no limit.
        bytes_each: largest part of a response that waits without a thread.
        bytes_all: total of all unread responses.
        threads: threads that may wait because their response is larger than ``bytes_each``.
        clients: unread responses of all clients.
    """

    seconds: float
    per_address: int
    bytes_each: int
    bytes_all: int
    threads: int
    clients: int


class Outbox:
    """The part of a response that the kernel hasn't accepted yet; gunicorn writes to it as to a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._parts: deque[memoryview] = deque()
        #: Bytes that wait here, and bytes that the kernel has accepted.
        self.size = 0
        self.accepted = 0

    def sendall(self, data: bytes) -> None:
        """Append bytes; :meth:`flush` sends them."""
        if data:
            self._parts.append(memoryview(data))
            self.size += len(data)

    def send(self, data: bytes) -> int:
        """Append bytes and send what the kernel accepts."""
        self.sendall(data)
        self.flush()
        return len(data)

    def fileno(self) -> int:
        """Return the connection's descriptor."""
        return self._sock.fileno()

    def flush(self) -> bool:
        """Send what the kernel accepts, and return whether nothing waits anymore.

        Raises:
            OSError: the connection is broken.
        """
        while self._parts:
            try:
                sent = self._sock.sendmsg(list(self._parts)[:_PIECES], [], socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            self.size -= sent
            self.accepted += sent
            while sent:
                part = self._parts[0]
                if sent < len(part):
                    self._parts[0], sent = part[sent:], 0
                else:
                    sent -= len(self._parts.popleft())
        return True

    def count_confirmed(self) -> int:
        """Return how many bytes the client's system has confirmed."""
        with contextlib.suppress(OSError):
            unconfirmed = fcntl.ioctl(self._sock, termios.TIOCOUTQ, b"\0" * 4)
            return self.accepted - int(struct.unpack("i", unconfirmed)[0])
        return self.accepted


class Progress:
    """Whether a client reads its response."""

    def __init__(self, outbox: Outbox, seconds: float) -> None:
        self._outbox, self._seconds = outbox, seconds
        self._mark = outbox.count_confirmed()
        self._since = time.monotonic()

    def is_renewed(self) -> bool:
        """Return whether the client has read enough since the last time; now becomes the last time."""
        confirmed = self._outbox.count_confirmed()
        if confirmed - self._mark < PROGRESS_BYTES:
            return False
        self._mark, self._since = confirmed, time.monotonic()
        return True

    def is_late(self) -> bool:
        """Return whether the client has read too little for too long."""
        return time.monotonic() - self._since >= self._seconds and not self.is_renewed()


class Answer:
    """A response on its way: its generator stops while the client doesn't read.

    Args:
        pieces: what the application returned.
    """

    def __init__(self, outbox: Outbox, response: Response, pieces: Any) -> None:
        self.outbox, self.response = outbox, response
        self._pieces = pieces
        self._iterator: Iterator[bytes] | None = iter(pieces)
        self.progress: Progress | None = None
        self.network = ""
        #: Too large to wait without a thread, and the client doesn't read.
        self.is_lost = False

    @property
    def is_written(self) -> bool:
        """Whether all of it has been written to the outbox."""
        return self._iterator is None

    def write(self) -> None:
        """Write the response, up to the first piece that the client's window has no room for.

        Raises:
            OSError: the connection is broken.
            Exception: the application's generator failed.
        """
        for piece in self._iterator or ():
            self.response.write(piece)
            if not self.outbox.flush() and not self._is_whole():
                return
        if self._iterator is not None:
            self.response.close()
            self.close()
        self.outbox.flush()

    def close(self) -> None:
        """End the generator."""
        self._iterator = None
        pieces, self._pieces = self._pieces, None
        if hasattr(pieces, "close"):
            pieces.close()

    def _is_whole(self) -> bool:
        # The generator of such a response has nothing more to say, so it needs no second turn in a thread.
        length = self.response.response_length
        return length is not None and self.response.sent >= length

    def wait_for_room(self, limits: UnreadLimits) -> bool:
        """Wait in this thread until the rest fits into the limit; return False if the client doesn't read.

        Raises:
            OSError: the connection is broken.
        """
        progress = Progress(self.outbox, limits.seconds)
        poll = select.poll()
        poll.register(self.outbox, select.POLLOUT)
        while self.outbox.size > limits.bytes_each:
            if progress.is_late():
                return False
            poll.poll(_CHECK_MS)
            self.outbox.flush()
        return True


class UnreadTable:
    """The connections whose response waits for the client, the longest without progress first.

    Only the event loop uses it, so it needs no lock.

    Args:
        cut: disconnects a client.
    """

    def __init__(self, limits: UnreadLimits, cut: Callable[[TConn], None]) -> None:
        self._limits, self._cut = limits, cut
        self._rows: dict[TConn, Answer] = {}
        self._next_check = 0.0

    def __contains__(self, conn: object) -> bool:
        return conn in self._rows

    def add(self, conn: TConn, answer: Answer) -> None:
        """Add a connection; those that have waited longest make room for it where a limit is reached."""
        if answer.progress is None:
            answer.progress = Progress(answer.outbox, self._limits.seconds)
            answer.network = find_network(conn)
        self._rows[conn] = answer
        if self._limits.per_address:
            same = [row for row, other in self._rows.items() if other.network == answer.network]
            for row in same[: max(0, len(same) - self._limits.per_address)]:
                self._cut(row)
        while len(self._rows) > self._limits.clients:
            self._cut(next(iter(self._rows)))
        self._limit_bytes()

    def remove(self, conn: TConn) -> Answer:
        """Remove a connection, and return its response."""
        return self._rows.pop(conn)

    def check(self) -> None:
        """Disconnect clients that don't read; call this every second or more often."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + min(_CHECK_MS / 1000, self._limits.seconds / 2)
        for conn, answer in list(self._rows.items()):
            if answer.progress is None:
                continue
            if answer.progress.is_renewed():
                self._rows[conn] = self._rows.pop(conn)
            elif answer.progress.is_late():
                self._cut(conn)

    def _limit_bytes(self) -> None:
        total = sum(answer.outbox.size for answer in self._rows.values())
        while total > self._limits.bytes_all and len(self._rows) > 1:
            oldest = next(iter(self._rows))
            total -= self._rows[oldest].outbox.size
            self._cut(oldest)


def find_network(conn: TConn, forwarded: tuple[str, ...] = (), proxies: int = 0) -> str:
    """Return the client's IP address, or its IPv6 /64 network; empty for a unix socket.

    Args:
        forwarded: addresses in ``X-Forwarded-For``.
        proxies: number of trusted proxies.
    """
    # A unix socket has no address, so all its clients count as one.
    host = str(conn.client[0]) if isinstance(conn.client, tuple) else ""
    return find_client_address(host, forwarded, proxies)
