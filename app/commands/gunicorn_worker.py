"""A gunicorn worker that gives threads only to complete requests, and waits for slow ones without a thread.

gunicorn's own threaded worker hands a connection to a thread as soon as it is accepted, and the thread
reads the request. So sixteen clients that send half a line each block a server of sixteen threads. Here the
event loop looks at the received bytes (MSG_PEEK leaves them in place). It passes the connection on when the
head and a body of usual size are complete. SO_RCVLOWAT makes the kernel wake the loop for new bytes
only, so waiting costs nothing. Long and chunked bodies, which the loop can't wait for, get at most a
quarter of the threads (security.md W17).
"""

from __future__ import annotations

import contextlib
import math
import re
import select
import socket
import sys
import time
from concurrent.futures import Future
from functools import partial
from http import HTTPStatus
from selectors import EVENT_READ
from typing import Any

from gunicorn import util
from gunicorn.arbiter import Arbiter
from gunicorn.http import wsgi
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import TConn, ThreadWorker

from app.commands.handover import Handover
from app.runtime.malloc import Trimmer

#: Longest head; gunicorn's own limits per line and field apply within it.
HEAD_BYTES = 32 << 10
#: Largest body that the loop waits for. A thread reads longer ones (uploads), within a limit.
BODY_BYTES = 64 << 10
#: Seconds from the start of the wait until a request must be complete.
ARRIVE_SECONDS = 15.0
#: Seconds in a thread after which no more of a request is read …
READ_SECONDS = 15.0
#: … and after which the connection is cut, for clients that read their response byte by byte.
ANSWER_SECONDS = 60.0
#: Seconds during which bytes that a client sends after its response are read and dropped.
LINGER_SECONDS = 2.0

#: One thread in this many may get a request that hasn't arrived completely.
PARTIAL_SHARE = 4

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_HANG_UP = getattr(select, "POLLRDHUP", select.POLLHUP)


class PatientWorker(ThreadWorker):
    """One event loop that waits for requests, and a pool of threads that answer them.

    All methods but ``handle`` and ``handle_request`` run in the loop's thread, so their tables need no lock.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._arriving: dict[TConn, float] = {}
        self._answering: dict[TConn, float] = {}
        self._leaving: dict[TConn, float] = {}
        #: Connections whose thread may have to wait for bytes, and connections that wait for such a thread.
        self._partial: set[TConn] = set()
        self._queued: dict[TConn, float] = {}
        self._handover: Handover | None = None
        self._trimmer = Trimmer()

    def init_process(self) -> None:
        """Initialize the worker, in its own process."""
        path = getattr(self.app, "handover", None)
        util.write_error = _write_error  # gunicorn's own error page repeats the client's input
        wsgi.Response.default_headers = _build_default_headers  # type: ignore[method-assign, assignment]
        try:
            self._handover = Handover(path) if path else None
            super().init_process()
        except Exception:
            self.log.exception("Exception in worker process")
            sys.exit(1 if self.booted else Arbiter.WORKER_BOOT_ERROR)

    def enqueue_req(self, conn: TConn) -> None:
        """Accept a connection on which a request is expected."""
        self._look(conn, time.monotonic() + ARRIVE_SECONDS)

    def handle(self, conn: TConn) -> Any:
        """Answer a request; runs in a thread, and changes only this connection's entry."""
        self._answering[conn] = time.monotonic()
        return super().handle(conn)

    def handle_request(self, req: Any, conn: TConn) -> Any:
        """Run the application; runs in a thread."""
        if conn in self._partial:
            req.force_close()  # otherwise gunicorn would wait for the rest of this request first
        return super().handle_request(req, conn)

    def finish_request(self, conn: TConn, fs: Future[Any]) -> None:
        """Process a connection that its thread has finished with."""
        self._answering.pop(conn, None)
        self._partial.discard(conn)
        self._start_queued()
        if fs.cancelled() or fs.exception() is not None or not fs.result():
            self._leave(conn)
        else:
            super().finish_request(conn, fs)

    def murder_pending(self) -> None:
        """Close connections that are too slow, and trim memory; gunicorn calls this once a second or more."""
        super().murder_pending()
        self._trimmer.trim_after(self.nr)
        now = time.monotonic()
        for conn, deadline in list(self._arriving.items()):
            # A stopping worker answers complete requests, and waits for no others.
            if now >= deadline or not self.alive:
                self._forget(conn, self._arriving)
                self._drop(conn)
        for conn, deadline in list(self._queued.items()):
            if now >= deadline or not self.alive:
                del self._queued[conn]
                self._drop(conn)
        for conn, deadline in list(self._leaving.items()):
            if now >= deadline:
                self._forget(conn, self._leaving)
                self._drop(conn)
        for conn, since in self._answering.items():
            if now - since >= ANSWER_SECONDS:
                _shut(conn, socket.SHUT_RDWR)
            elif now - since >= READ_SECONDS:
                _shut(conn, socket.SHUT_RD)

    def _look(self, conn: TConn, deadline: float) -> None:
        try:
            fresh = _peek(conn.sock)
        except OSError:
            self._drop(conn)
            return
        seen = _buffered(conn) + (fresh or b"")
        if is_complete(seen):
            if self._handover is not None and self._handover.hand_over(conn.sock, seen, _buffered(conn)):
                self._drop(conn)  # closes only our end: the controller has its own
            else:
                self._answer(conn, seen)
        elif fresh == b"":
            self._drop(conn)  # closed by the client
        elif len(seen) >= HEAD_BYTES and b"\r\n\r\n" not in seen:
            self._refuse(conn)
        elif fresh and _is_half_closed(conn.sock):
            self._drop(conn)  # nothing will follow, and the kernel would wake the loop for it forever
        else:
            self._wait(conn, len(fresh or b""), deadline)

    def _wait(self, conn: TConn, seen: int, deadline: float) -> None:
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, seen + 1)
        self._arriving[conn] = deadline
        self.poller.register(conn.sock, EVENT_READ, partial(self._on_more, conn))

    def _on_more(self, conn: TConn, _: Any) -> None:
        self._look(conn, self._forget(conn, self._arriving))

    def _forget(self, conn: TConn, table: dict[TConn, float]) -> float:
        self.poller.unregister(conn.sock)
        return table.pop(conn)

    def _answer(self, conn: TConn, seen: bytes) -> None:
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        conn.data_ready = True
        if is_surely_complete(seen):
            self._start(conn)
        else:
            self._queued[conn] = time.monotonic() + ARRIVE_SECONDS
            self._start_queued()

    def _start_queued(self) -> None:
        while self._queued and len(self._partial) < max(1, self.cfg.threads // PARTIAL_SHARE):
            conn = next(iter(self._queued))
            del self._queued[conn]
            self._partial.add(conn)
            self._start(conn)

    def _start(self, conn: TConn) -> None:
        self._answering[conn] = math.inf  # the request may first wait for a thread
        super().enqueue_req(conn)

    def _refuse(self, conn: TConn) -> None:
        with contextlib.suppress(OSError):  # a client that doesn't read loses the response
            conn.sock.send(build_refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
        self._leave(conn)

    def _leave(self, conn: TConn) -> None:
        """Close, but read further bytes for a moment. Otherwise a reset could overtake our response (RFC
        9112 section 9.6). gunicorn does this inside the loop, where any client can block it for 2 s."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(conn)
            return
        conn.sock.setblocking(False)
        self._leaving[conn] = time.monotonic() + LINGER_SECONDS
        self.poller.register(conn.sock, EVENT_READ, partial(self._on_rest, conn))

    def _on_rest(self, conn: TConn, _: Any) -> None:
        try:
            rest = conn.sock.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            rest = b""
        if not rest:
            self._forget(conn, self._leaving)
            self._drop(conn)

    def _drop(self, conn: TConn) -> None:
        self.nr_conns -= 1
        conn.close()


def build_refusal(status: int) -> bytes:
    """Return the response to requests that the application never sees, without their data (V03)."""
    phrase = HTTPStatus(status).phrase
    lines = (
        f"HTTP/1.1 {status:d} {phrase}",
        "Connection: close",
        "Content-Type: text/plain",
        f"Content-Length: {len(phrase) + 1}",
        "X-Content-Type-Options: nosniff",
        "Content-Security-Policy: default-src 'none'",
        "",
        f"{phrase}\n",
    )
    return "\r\n".join(lines).encode()


_build_all_headers = wsgi.Response.default_headers


def _build_default_headers(response: wsgi.Response) -> list[str]:
    # Nobody needs to know which server answers, least of all someone who looks for one with a known hole.
    return [line for line in _build_all_headers(response) if not line.startswith("Server:")]


def _write_error(sock: socket.socket, status_int: int, reason: str, mesg: str) -> None:
    util.write_nonblock(sock, build_refusal(status_int))


def is_complete(received: bytes) -> bool:
    """Return whether a thread can process this without waiting, or must process it anyway.

    This only decides how much to wait for. gunicorn's parser checks the syntax (for example, it refuses
    a head with two lengths).
    """
    head, end, body = received.partition(b"\r\n\r\n")
    if not end:
        return b"\n\n" in received  # wrong line ends: the parser refuses them
    wanted = _body_length(head)
    return wanted > BODY_BYTES or len(body) >= wanted


def is_surely_complete(received: bytes) -> bool:
    """Return whether a thread certainly won't have to wait: false for chunked bodies, and for a head
    whose end the parser may not recognize."""
    head, end, body = received.partition(b"\r\n\r\n")
    return bool(end) and len(body) >= _body_length(head) and not _CHUNKED.search(head)


def _body_length(head: bytes) -> int:
    length = _LENGTH.search(head + b"\r\n")
    return int(length[1]) if length else 0


def _buffered(conn: TConn) -> bytes:
    """Return the part of the next request that gunicorn has already read."""
    return bytes(conn.parser.unreader.buf.getvalue()) if isinstance(conn.parser, RequestParser) else b""


def _peek(sock: socket.socket) -> bytes | None:
    """Return the received bytes, b"" at the end of the stream, None if nothing has arrived."""
    sock.setblocking(False)
    try:
        return sock.recv(HEAD_BYTES + BODY_BYTES, socket.MSG_PEEK)
    except BlockingIOError:
        return None


def _is_half_closed(sock: socket.socket) -> bool:
    """Return whether the client has closed its side; bytes it sent before may still be unread."""
    poll = select.poll()
    poll.register(sock, _HANG_UP)
    return bool(poll.poll(0))


def _shut(conn: TConn, how: int) -> None:
    with contextlib.suppress(OSError):  # it may already be closed
        conn.sock.shutdown(how)
