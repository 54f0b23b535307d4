"""Uploads that the event loop receives, without a thread.

A thread judges the head of an upload before a byte of its body is read: the application runs with an empty
body, and accepts or refuses. The loop then writes what arrives to a file without a name, and a thread gets
one slice at a time (:mod:`app.models.media.spooled`). While it commits the slice, the loop reads nothing, so
a fast client waits for the disk. A connection that breaks commits what has arrived. Forms with a file, and
long bodies of programs and hubs, are received in the same way, but the application gets them as a whole or
not at all.

:class:`SpoolTable` decides who is received, and who is too slow or has to wait (security.md W17).
"""

from __future__ import annotations

import dataclasses
import errno
import re
import socket
import tempfile
import time
from collections import Counter
from functools import partial
from http import HTTPStatus
from io import FileIO
from pathlib import Path
from selectors import EVENT_READ, BaseSelector
from typing import Any, Protocol

from gunicorn.http.body import Body, LengthReader
from gunicorn.http.message import Request
from gunicorn.workers.gthread import TConn

from app import logs
from app.commands.unread import find_network
from app.models.media.spooled import SpooledBody

log = logs.get(__name__)

#: Most bytes that the loop reads for one client before others get their turn.
CHUNK_BYTES = 1 << 20
#: Bytes after which the kernel wakes the loop. Fewer are read once a second.
WAKE_BYTES = 16 << 10
#: Time between two looks at how fast clients send.
CHECK_SECONDS = 1.0

_UPLOAD = re.compile(rb"(?:PATCH|POST) /(?:api/v1/)?uploads(?:[/?][^ ]*)? HTTP/1\.[01]\r\n")
#: Pages whose forms contain a file. Their guard accepts or refuses: ``app.web.security.sessions``.
_FORM = re.compile(
    rb"POST /(?:imports|packs|files|feeds/[0-9]+/icon/upload|settings/(?:avatar|files|rules/file))"
    rb"(?:[/?][^ ]*)? HTTP/1\.[01]\r\n"
)
#: Requests of programs and hubs. Their APIs accept or refuse: ``app.web.api.long_bodies``.
_DOCUMENT = re.compile(
    rb"(?:POST|PUT|PATCH) /(?:api/v1/|(?:api/greader(?:\.php)?/)?reader/api/0/|websub/)[^ ]* HTTP/1\.[01]\r\n"
)
_MULTIPART = re.compile(rb"\r\ncontent-type:[ \t]*multipart/form-data", re.IGNORECASE)
_FORWARDED = re.compile(rb"\r\nx-forwarded-for:([^\r\n]*)", re.IGNORECASE)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


@dataclasses.dataclass(frozen=True, slots=True)
class SpoolLimits:
    """Limits for uploads that one web process receives.

    Attributes:
        folder: where their files without names are, on the disk on which the application keeps uploads.
        count: uploads at a time; others wait.
        per_address: uploads at a time per IP address, or IPv6 /64 network.
        proxies: trusted proxies in front, whose ``X-Forwarded-For`` says where a client is.
        idle_seconds: time without a byte, or without a turn, after which an upload ends.
        rate: least bytes per second …
        rate_seconds: … over this time.
    """

    folder: Path
    count: int
    per_address: int
    proxies: int
    idle_seconds: float
    rate: float
    rate_seconds: float


class SpoolWorker(Protocol):
    """What the table needs of the worker; all of it is for the loop's thread."""

    @property
    def alive(self) -> bool:
        """Whether the worker isn't stopping."""
        ...

    @property
    def poller(self) -> BaseSelector:
        """What the loop waits for."""
        ...

    def judge_upload(self, conn: TConn) -> None:
        """Let a thread run the application for a head."""
        ...

    def commit_upload(self, conn: TConn) -> None:
        """Let a thread run the application for a slice."""
        ...

    def end_upload(self, conn: TConn, status: HTTPStatus | None) -> None:
        """Send a response and close the connection; None: only close it."""
        ...


class Pace:
    """Whether a client sends fast enough; all times are of the monotonic clock."""

    def __init__(self, limits: SpoolLimits, now: float) -> None:
        self._limits = limits
        self.start_again(now)

    def start_again(self, now: float) -> None:
        """Start again, after a time in which nothing was read."""
        self._last = self._since = now
        self._received = 0

    def add_received(self, count: int, now: float) -> None:
        """Record received bytes."""
        self._last = now
        self._received += count

    def is_too_slow(self, now: float) -> bool:
        """Return whether nothing has come for too long, or too little; call this every second or so."""
        if now - self._last >= self._limits.idle_seconds:
            return True
        if now - self._since < self._limits.rate_seconds:
            return False
        is_late = self._received < self._limits.rate * (now - self._since)
        self._since, self._received = now, 0
        return is_late


class Spool:
    """The body of one upload.

    Args:
        network: the client's address.
        pace: how fast it sends.
        is_whole: whether the application gets all of it at once.
    """

    def __init__(self, network: str, pace: Pace, *, is_whole: bool = False) -> None:
        self.network, self.pace, self.is_whole = network, pace, is_whole
        self.request: Request | None = None
        self.expects_continue = False
        #: Bytes of the body that haven't been received.
        self.remaining = 0
        #: Offset of the current slice in the body, bytes of it in the file, and its most bytes.
        self.start, self.size, self.limit = 0, 0, 0
        #: Whether a thread wants the loop to read (on).
        self.goes_on = False
        #: Whether the connection has broken, or was too slow; then the response for it.
        self.is_broken = False
        self.status: HTTPStatus | None = None
        self.is_watched = False
        #: What the application leaves for its later runs.
        self.notes: dict[str, Any] = {}
        self._file: FileIO | None = None

    def take_body(self, request: Request) -> bool:
        """Take the body away from a parsed request, which then has an empty one.

        Returns:
            False if its length isn't known.
        """
        body: Any = request.body
        if not isinstance(body.reader, LengthReader):
            return False
        self.request, self.remaining = request, body.reader.length
        request.body = Body(LengthReader(request.unreader, 0))
        # The loop sends it, once the application has accepted the head.
        self.expects_continue = bool(getattr(request, "_expected_100_continue", False))
        request._expected_100_continue = False  # type: ignore[attr-defined]
        return True

    def accept(self, limit_bytes: int) -> None:
        """Accept the body; views call this.

        Args:
            limit_bytes: most bytes of a slice.
        """
        if limit_bytes < 1:
            raise ValueError("a slice has at least one byte")
        self.limit = max(limit_bytes, self.remaining) if self.is_whole else limit_bytes

    @property
    def wanted(self) -> int:
        """Bytes that are still missing from this slice."""
        return min(self.remaining, self.limit - self.size)

    @property
    def is_last(self) -> bool:
        """Whether no other slice follows the current one."""
        return self.is_broken or not self.remaining

    def write(self, data: bytes | memoryview, folder: Path) -> None:
        """Append received bytes to the slice.

        Raises:
            OSError: the disk is full or broken.
        """
        if self._file is None:
            self._file = _open_unnamed(folder)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        self.size += len(data)
        self.remaining -= len(data)

    def build_slice(self) -> SpooledBody:
        """Return the slice in the file."""
        return SpooledBody(
            descriptor=self._open.fileno(),
            start=self.start,
            size=self.size,
            is_last=self.is_last,
            is_broken=self.is_broken,
            notes=self.notes,
        )

    def open_whole(self) -> FileIO:
        """Return the file of a whole body, at its beginning."""
        self._open.seek(0)
        return self._open

    def begin_slice(self) -> None:
        """Begin the next slice, at the beginning of the file.

        Raises:
            OSError: the disk is broken.
        """
        self.start, self.size = self.start + self.size, 0
        self._open.seek(0)
        self._open.truncate()

    @property
    def _open(self) -> FileIO:
        if self._file is None:
            raise ValueError("nothing has been written")
        return self._file

    def close(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class SpoolTable:
    """The uploads that a web process receives, and those that wait for their turn.

    Only the event loop uses it, so it needs no lock; a thread uses the :class:`Spool` that it works on.
    """

    def __init__(self, limits: SpoolLimits, worker: SpoolWorker) -> None:
        self._limits, self._worker = limits, worker
        #: Connections that are judged, received or committed.
        self.rows: dict[TConn, Spool] = {}
        self._waiting: dict[TConn, tuple[Spool, float]] = {}
        self._buffer: memoryview | None = None
        self._next_check = 0.0

    def __contains__(self, conn: object) -> bool:
        return conn in self.rows

    def get(self, conn: TConn) -> Spool | None:
        """Return the upload of a connection."""
        return self.rows.get(conn)

    def add(self, conn: TConn, head: bytes) -> None:
        """Add a connection whose head starts an upload; a thread judges it at once, or in its turn."""
        now = time.monotonic()
        network = find_network(conn, _read_forwarded(head), self._limits.proxies)
        spool = Spool(network, Pace(self._limits, now), is_whole=not is_upload(head + b"\r\n"))
        self._waiting[conn] = spool, now + self._limits.idle_seconds
        self._start_waiting()

    def remove(self, conn: TConn) -> None:
        """Remove a connection's upload, if it has one; no thread may be working on it."""
        spool = self.rows.pop(conn, None)
        if spool is not None:
            self._unwatch(conn, spool)
            spool.close()
            self._start_waiting()

    def read(self, conn: TConn) -> None:
        """Read the next slice, after a thread has accepted the head or committed the slice before."""
        spool = self.rows[conn]
        spool.goes_on = False
        if not self._worker.alive:
            self._worker.end_upload(conn, HTTPStatus.SERVICE_UNAVAILABLE)
            return
        try:
            if spool.expects_continue:
                spool.expects_continue = False
                conn.sock.setblocking(False)
                conn.sock.send(_CONTINUE)
            self._write(spool, _take_buffered(conn, spool.wanted))
        except OSError as e:
            self._fail(conn, e)
            return
        if not spool.wanted:
            self._commit(conn, spool)
            return
        spool.pace.start_again(time.monotonic())
        conn.sock.setblocking(False)
        self._set_wake(conn, min(WAKE_BYTES, spool.wanted))
        self._worker.poller.register(conn.sock, EVENT_READ, partial(self._on_body, conn))
        spool.is_watched = True

    def check(self) -> None:
        """End uploads that are too slow; call this every second or more often."""
        now = time.monotonic()
        if now < self._next_check and self._worker.alive:
            return
        self._next_check = now + min(CHECK_SECONDS, self._limits.idle_seconds / 2)
        for conn, spool in list(self.rows.items()):
            # Fewer bytes may have come than wake the loop.
            if not spool.is_watched or not self._receive(conn, spool):
                continue
            if not self._worker.alive:
                self._break(conn, spool, HTTPStatus.SERVICE_UNAVAILABLE)
            elif spool.pace.is_too_slow(now):
                self._break(conn, spool, HTTPStatus.REQUEST_TIMEOUT)
        for conn, (_, deadline) in list(self._waiting.items()):
            if now >= deadline or not self._worker.alive:
                del self._waiting[conn]
                self._worker.end_upload(conn, HTTPStatus.SERVICE_UNAVAILABLE)

    def _start_waiting(self) -> None:
        busy = Counter(spool.network for spool in self.rows.values())
        for conn, (spool, _) in list(self._waiting.items()):
            if len(self.rows) >= self._limits.count:
                return
            if busy[spool.network] >= self._limits.per_address:
                continue
            busy[spool.network] += 1
            del self._waiting[conn]
            self.rows[conn] = spool
            self._worker.judge_upload(conn)

    def _on_body(self, conn: TConn, _: Any) -> None:
        spool = self.rows.get(conn)
        if spool is not None and spool.is_watched:
            self._receive(conn, spool)

    def _receive(self, conn: TConn, spool: Spool) -> bool:
        """Receive what has arrived; return whether the loop still waits for more of this slice."""
        if self._buffer is None:
            self._buffer = memoryview(bytearray(CHUNK_BYTES))
        try:
            count = conn.sock.recv_into(self._buffer, min(CHUNK_BYTES, spool.wanted))
        except BlockingIOError:
            return True
        except OSError:
            count = 0
        if not count:
            self._break(conn, spool, None)
            return False
        try:
            self._write(spool, self._buffer[:count])
        except OSError as e:
            self._fail(conn, e)
            return False
        spool.pace.add_received(count, time.monotonic())
        if not spool.wanted:
            self._commit(conn, spool)
            return False
        if spool.wanted < WAKE_BYTES:
            self._set_wake(conn, spool.wanted)
        return True

    def _write(self, spool: Spool, data: bytes | memoryview) -> None:
        if data:
            spool.write(data, self._limits.folder)

    def _break(self, conn: TConn, spool: Spool, status: HTTPStatus | None) -> None:
        """End an upload whose bytes don't come, and commit those that did, unless all are wanted."""
        spool.is_broken, spool.status = True, status
        if spool.size and not spool.is_whole:
            self._commit(conn, spool)
        else:
            self._worker.end_upload(conn, status)

    def _commit(self, conn: TConn, spool: Spool) -> None:
        self._unwatch(conn, spool)
        self._worker.commit_upload(conn)

    def _fail(self, conn: TConn, error: OSError) -> None:
        if isinstance(error, ConnectionError | BlockingIOError):
            self._worker.end_upload(conn, None)
            return
        log.warning("upload_not_stored", folder=str(self._limits.folder), reason=error.strerror)
        if error.errno in _FULL:
            status = HTTPStatus.INSUFFICIENT_STORAGE
        elif error.errno in _EXHAUSTED:
            status = HTTPStatus.SERVICE_UNAVAILABLE
        else:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
        self._worker.end_upload(conn, status)

    def _unwatch(self, conn: TConn, spool: Spool) -> None:
        if spool.is_watched:
            spool.is_watched = False
            self._worker.poller.unregister(conn.sock)
            self._set_wake(conn, 1)

    def _set_wake(self, conn: TConn, count: int) -> None:
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)


def is_upload(head: bytes) -> bool:
    """Return whether a request's head is that of an upload."""
    return _UPLOAD.match(head) is not None


def is_form(head: bytes) -> bool:
    """Return whether a request's head is that of a form with a file."""
    return _FORM.match(head) is not None and _MULTIPART.search(head) is not None


def is_document(head: bytes) -> bool:
    """Return whether a request's head is one of a program or hub, whose body may be long."""
    return _DOCUMENT.match(head) is not None and not is_upload(head)


def _read_forwarded(head: bytes) -> tuple[str, ...]:
    found = b",".join(_FORWARDED.findall(head)).decode("latin-1").split(",")
    return tuple(part.strip() for part in found if part.strip())


def _open_unnamed(folder: Path) -> FileIO:
    # This has a name for a moment where the file system has no O_TMPFILE.
    try:
        return _open_raw(folder)
    except FileNotFoundError:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _open_raw(folder)


def _open_raw(folder: Path) -> FileIO:
    file: Any = tempfile.TemporaryFile("w+b", buffering=0, dir=folder)  # noqa: SIM115 - Spool.close
    return file  # type: ignore[no-any-return]


def _take_buffered(conn: TConn, limit: int) -> bytes:
    """Return the bytes of the body that the parser has already read; those behind them stay."""
    unreader = conn.parser.unreader  # type: ignore[union-attr]
    data = bytes(unreader.take_buffered())
    if len(data) > limit:
        unreader.unread(data[limit:])
    return data[:limit]
