"""A gunicorn worker whose threads only get complete requests, and never wait for slow clients.

gunicorn's own threaded worker hands a connection to a thread as soon as it is accepted, and the thread
reads the request. So sixteen clients that send half a line each block a server of sixteen threads. Here the
event loop looks at the received bytes (MSG_PEEK leaves them in place). It passes the connection on when the
head and a body of usual size are complete. SO_RCVLOWAT makes the kernel wake the loop for new bytes
only, so waiting costs nothing. The loop also receives uploads, and long bodies of programs and hubs
(:mod:`app.commands.spool`). Other long and chunked bodies, which the loop can't wait for, get at most a
quarter of the threads (security.md W17).

Responses have the same problem: a client that doesn't read them blocks a plain ``sendall``. So the loop sends
what the kernel doesn't accept at once (:mod:`app.commands.unread`), and the next request on this connection
waits for that. Requests that arrive ahead of earlier responses get at most a quarter of the threads.
"""

from __future__ import annotations

import contextlib
import errno
import math
import re
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from concurrent.futures import Future
from functools import partial
from http import HTTPStatus
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any

from gunicorn import util
from gunicorn.arbiter import Arbiter
from gunicorn.http import wsgi
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import TConn, ThreadWorker

from app.commands.handover import Handover
from app.commands.spool import Spool, SpoolLimits, SpoolTable, is_document, is_form, is_upload
from app.commands.unread import UNSENT_BYTES, Answer, Outbox, UnreadLimits, UnreadTable
from app.models.media.spooled import NOTES, SPOOLED, WANTED
from app.runtime.malloc import Trimmer

#: Longest head; gunicorn's own limits per line and field apply within it.
HEAD_BYTES = 32 << 10
#: Largest body that the loop waits for. A thread reads longer ones that aren't uploads, within a limit.
BODY_BYTES = 64 << 10
#: Seconds from the start of the wait until a request must be complete.
ARRIVE_SECONDS = 15.0
#: Seconds in a thread after which no more of a request is read …
READ_SECONDS = 15.0
#: … and after which the connection is cut.
ANSWER_SECONDS = 60.0
#: Seconds during which bytes that a client sends after its response are read and dropped.
LINGER_SECONDS = 2.0

#: Descriptors that are freed when none is left.
SPARE = 16
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

#: One thread in this many may get a request that hasn't arrived completely. The same share is for requests
#: that were sent ahead, and for responses that are too large to wait without a thread.
PARTIAL_SHARE = 4
#: One thread in this many may commit uploads, so that slow disks leave threads to readers.
COMMIT_SHARE = 2
#: Seconds after which a client whose upload found no room may try again.
RETRY_SECONDS = 5

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*0*([0-9]{1,18})[0-9]*[ \t]*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_HANG_UP = getattr(select, "POLLRDHUP", select.POLLHUP)


class _Lane:
    """Requests that get only a part of the threads, and those that wait for one of these threads.

    Args:
        limit: how many threads.
        start: hands a connection to a thread.
    """

    def __init__(self, limit: int, start: Callable[[TConn], None]) -> None:
        self.limit, self.start = limit, start
        self.running: set[TConn] = set()
        self.waiting: dict[TConn, float] = {}


class PatientWorker(ThreadWorker):
    """One event loop that waits for requests, and a pool of threads that answer them.

    All methods but ``handle`` and ``handle_request`` run in the loop's thread, so their tables need no lock.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._arriving: dict[TConn, float] = {}
        self._answering: dict[TConn, float] = {}
        self._leaving: dict[TConn, float] = {}
        share = max(1, self.cfg.threads // PARTIAL_SHARE)
        #: Connections whose thread may have to wait for bytes, and connections whose client sends ahead.
        self._partial, self._ahead = _Lane(share, self._start), _Lane(share, self._start)
        #: Connections whose upload is being committed.
        self._commits = _Lane(max(1, self.cfg.threads // COMMIT_SHARE), self._start_commit)
        limits: SpoolLimits = self.app.spool_limits  # type: ignore[attr-defined]
        self._spools = SpoolTable(limits, self)
        self._limits: UnreadLimits = self.app.unread_limits  # type: ignore[attr-defined]
        self._answers: dict[TConn, Answer] = {}
        self._unread = UnreadTable(self._limits, self._cut)
        #: Clients that have sent a request before they could know the response to the one before.
        self._senders_ahead: set[TConn] = set()
        self._waiting_threads = threading.BoundedSemaphore(self._limits.threads)
        self._cut_count = 0
        self._handover: Handover | None = None
        self._trimmer = Trimmer()

    def init_process(self) -> None:
        """Initialize the worker, in its own process."""
        path = getattr(self.app, "handover", None)
        util.write_error = _write_error  # gunicorn's own error page repeats the client's input
        wsgi.Response.default_headers = _build_default_headers  # type: ignore[method-assign, assignment]
        try:
            self._handover = Handover(path) if path else None
            for listener in self.sockets:  # connections inherit it
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            super().init_process()
        except Exception:
            self.log.exception("Exception in worker process")
            sys.exit(1 if self.booted else Arbiter.WORKER_BOOT_ERROR)

    def accept(self, listener: socket.socket) -> None:
        """Accept a client; out of file descriptors, accept fewer from now on."""
        try:
            super().accept(listener)
        except OSError as e:
            if e.errno not in _EXHAUSTED:
                raise
            self._make_room()

    def enqueue_req(self, conn: TConn) -> None:
        """Accept a connection on which a request is expected."""
        self._look(conn, time.monotonic() + ARRIVE_SECONDS)

    def handle(self, conn: TConn) -> Any:
        """Answer a request; runs in a thread, and changes only this connection's entry."""
        self._answering[conn] = time.monotonic()
        return super().handle(conn)

    def handle_request(self, req: Any, conn: TConn) -> Any:
        """Run the application; runs in a thread."""
        if conn in self._partial.running:
            req.force_close()  # otherwise gunicorn would wait for the rest of this request first
        spool = self._spools.get(conn)
        if spool is not None:
            return self._judge(req, conn, spool)
        outbox, response, environ = self._create(req, conn)
        pieces = self.wsgi(environ, response.start_response)  # type: ignore[arg-type]
        self._answers[conn] = Answer(outbox, response, pieces)
        return self._write(conn)

    def _create(self, req: Any, conn: TConn) -> tuple[Outbox, wsgi.Response, MutableMapping[str, Any]]:
        """Return an empty response for a request, and the application's environment."""
        outbox = Outbox(conn.sock)
        sock: Any = outbox  # of a socket, gunicorn only uses what an outbox has
        response, environ = wsgi.create(req, sock, conn.client, conn.server, self.cfg)
        environ["wsgi.multithread"] = True
        environ.pop("wsgi.file_wrapper", None)  # its sendfile would block the thread
        self.nr += 1
        if not self.alive or len(self.keepalived_conns) >= self.max_keepalived:
            response.force_close()
        return outbox, response, environ

    def _judge(self, req: Any, conn: TConn, spool: Spool) -> bool:
        """Let the application accept or refuse an upload; runs in a thread."""
        is_measured = spool.take_body(req)
        outbox, response, environ = self._create(req, conn)
        if is_measured:
            environ[WANTED], environ[NOTES] = spool.accept, spool.notes
        pieces = self.wsgi(environ, response.start_response)  # type: ignore[arg-type]
        answer = Answer(outbox, response, pieces)
        if spool.limit and _get_status(response) < HTTPStatus.BAD_REQUEST:
            answer.close()
            spool.goes_on = True
            return False
        response.force_close()  # the client may go on sending the body
        self._answers[conn] = answer
        return self._write(conn)

    def _commit(self, spool: Spool, conn: TConn) -> bool:
        """Give a slice of an upload to the application; runs in a thread."""
        self._answering[conn] = time.monotonic()
        try:
            return self._commit_slice(conn, spool)
        except (OSError, StopIteration):
            return False
        except Exception as e:  # noqa: BLE001 - logged there
            self.handle_error(spool.request, conn.sock, conn.client, e)
            return False

    def _commit_slice(self, conn: TConn, spool: Spool) -> bool:
        outbox, response, environ = self._create(spool.request, conn)
        if spool.is_whole:
            environ["wsgi.input"] = spool.open_whole()
            environ[NOTES] = spool.notes
        else:
            environ[SPOOLED] = spool.build_slice()
        pieces = self.wsgi(environ, response.start_response)  # type: ignore[arg-type]
        answer = Answer(outbox, response, pieces)
        is_kept = _get_status(response) < HTTPStatus.MULTIPLE_CHOICES
        if spool.is_broken or (is_kept and not spool.is_last):
            answer.close()
            if not spool.is_broken:
                spool.begin_slice()
                spool.goes_on = True
            return False
        if not spool.is_last:
            response.force_close()
        self._answers[conn] = answer
        return bool(self._keepalive_after(conn, self._write(conn)))  # type: ignore[attr-defined]

    def _write(self, conn: TConn) -> bool:
        """Write a response; runs in a thread. Return whether the connection may be used again after it."""
        answer = self._answers[conn]
        try:
            answer.write()
            if answer.outbox.size > self._limits.bytes_each:
                answer.is_lost = not self._hold(answer)
        except (Exception, SystemExit) as e:
            del self._answers[conn]
            answer.close()
            if isinstance(e, OSError) or not answer.response.headers_sent:
                raise
            # An error page would look like a part of the response.
            self.log.exception("Error handling request")
            raise StopIteration from None
        return answer.is_written and not answer.is_lost and not answer.response.should_close()

    def _hold(self, answer: Answer) -> bool:
        """Keep a thread waiting for the client; return False if too many wait, or the client doesn't read."""
        if not self._waiting_threads.acquire(blocking=False):
            return False
        try:
            return answer.wait_for_room(self._limits)
        finally:
            self._waiting_threads.release()

    def _resume(self, conn: TConn) -> bool:
        """Write more of a response; runs in a thread."""
        self._answering[conn] = time.monotonic()
        try:
            conn.sock.setblocking(True)
            return bool(self._keepalive_after(conn, self._write(conn)))  # type: ignore[attr-defined]
        except (OSError, StopIteration):
            return False
        except Exception:
            self.log.exception("Error handling request")
            return False

    def finish_request(self, conn: TConn, fs: Future[Any]) -> None:
        """Process a connection that its thread has finished with."""
        self._answering.pop(conn, None)
        for lane in (self._partial, self._ahead, self._commits):
            lane.running.discard(conn)
            self._start_queued(lane)
        spool = self._spools.get(conn)
        if spool is not None:
            if spool.goes_on:
                self._spools.read(conn)
                return
            self._spools.remove(conn)
            if spool.is_broken:
                self.end_upload(conn, spool.status)
                return
        reuse = not fs.cancelled() and fs.exception() is None and bool(fs.result())
        answer = self._answers.get(conn)
        if answer is not None and answer.is_lost:
            self._reset(conn)
        elif answer is not None and (answer.outbox.size or not answer.is_written):
            self._await_reader(conn, answer, reuse)
        else:
            self._end(conn, reuse)

    def _await_reader(self, conn: TConn, answer: Answer, reuse: bool) -> None:
        """Wait in the loop until the client has room for more of its response."""
        conn.sock.setblocking(False)
        try:
            self.poller.register(conn.sock, EVENT_WRITE, partial(self._on_room, conn, reuse))
        except (OSError, ValueError):
            self._end(conn, False)
            return
        self._unread.add(conn, answer)

    def _on_room(self, conn: TConn, reuse: bool, _: Any) -> None:
        if conn not in self._unread:
            return  # disconnected by an earlier event of the same round
        try:
            if not self._answers[conn].outbox.flush():
                return
        except OSError:
            self._cut(conn)
            return
        self.poller.unregister(conn.sock)
        answer = self._unread.remove(conn)
        if answer.is_written:
            self._end(conn, reuse)
        else:
            self._submit(self._resume, conn)

    def _submit(self, work: Callable[[TConn], bool], conn: TConn) -> None:
        self._answering[conn] = math.inf  # it may first wait for a thread
        fs = self.tpool.submit(work, conn)
        fs.add_done_callback(lambda done: self.method_queue.defer(self.finish_request, conn, done))

    def _end(self, conn: TConn, reuse: bool) -> None:
        """Go on with a connection whose response has been sent."""
        self._answers.pop(conn, None)
        if reuse:
            done = Future[Any]()
            done.set_result(True)
            super().finish_request(conn, done)
        else:
            self._leave(conn)

    def _cut(self, conn: TConn) -> None:
        """Disconnect a client for which the loop waits."""
        self._unread.remove(conn)
        self.poller.unregister(conn.sock)
        self._reset(conn)

    def _reset(self, conn: TConn) -> None:
        """Disconnect a client that doesn't read its response."""
        self._cut_count += 1
        answer = self._answers.get(conn)
        if answer is not None and not answer.is_written:
            self.tpool.submit(answer.close)  # the generator may have to close a cursor
        _reset_at_close(conn)
        self._drop(conn)

    def murder_pending(self) -> None:
        """Close connections that are too slow, and trim memory; gunicorn calls this once a second or more."""
        super().murder_pending()
        # Descriptors may be free again: try one connection more each time.
        self.worker_connections = min(self.worker_connections + 1, self.cfg.worker_connections)
        self._trimmer.trim_after(self.nr)
        now = time.monotonic()
        self._drop_late_requests(now)
        self._unread.check()
        self._spools.check()
        if self._cut_count:
            self.log.info("Disconnected %d clients that don't read their responses", self._cut_count)
            self._cut_count = 0
        for conn, deadline in list(self._leaving.items()):
            if now >= deadline:
                self._forget(conn, self._leaving)
                self._drop(conn)
        for conn, since in self._answering.items():
            if now - since >= ANSWER_SECONDS:
                _reset_at_close(conn)
                _shut(conn, socket.SHUT_RDWR)
            elif now - since >= READ_SECONDS and conn not in self._spools:
                _shut(conn, socket.SHUT_RD)

    def _drop_late_requests(self, now: float) -> None:
        for conn, deadline in list(self._arriving.items()):
            # A stopping worker answers complete requests, and waits for no others.
            if now >= deadline or not self.alive:
                self._forget(conn, self._arriving)
                self._drop(conn)
        for lane, drop in ((self._partial, self._drop), (self._ahead, self._reset)):
            for conn, deadline in list(lane.waiting.items()):
                if now >= deadline or not self.alive:
                    del lane.waiting[conn]
                    drop(conn)

    def _make_room(self) -> None:
        """Leave some descriptors to stores and files: the clients that have waited longest to send go."""
        self.worker_connections = max(1, self.nr_conns - SPARE)
        for conn in list(self._arriving)[:SPARE]:
            self._forget(conn, self._arriving)
            self._drop(conn)

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
            self._refuse(conn, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif fresh and _is_half_closed(conn.sock):
            self._drop(conn)  # nothing will follow, and the kernel would wake the loop for it forever
        else:
            self._wait(conn, len(fresh or b""), deadline)

    def _wait(self, conn: TConn, seen: int, deadline: float) -> None:
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, seen + 1)
        self._arriving[conn] = deadline
        self.poller.register(conn.sock, EVENT_READ, partial(self._on_more, conn))

    def _on_more(self, conn: TConn, _: Any) -> None:
        if conn not in self._arriving:
            return  # an earlier event of the same round has dropped it
        self._look(conn, self._forget(conn, self._arriving))

    def _forget(self, conn: TConn, table: dict[TConn, float]) -> float:
        self.poller.unregister(conn.sock)
        return table.pop(conn)

    def _answer(self, conn: TConn, seen: bytes) -> None:
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        conn.data_ready = True
        if is_spooled(seen):
            self._spools.add(conn, seen.partition(b"\r\n\r\n")[0])
        elif not is_surely_complete(seen):
            self._queue(conn, self._partial)
        elif is_ahead(seen) or conn in self._senders_ahead:
            self._senders_ahead.add(conn)
            self._queue(conn, self._ahead)
        else:
            self._start(conn)

    def _queue(self, conn: TConn, lane: _Lane) -> None:
        lane.waiting[conn] = time.monotonic() + ARRIVE_SECONDS
        self._start_queued(lane)

    def _start_queued(self, lane: _Lane) -> None:
        while lane.waiting and len(lane.running) < lane.limit:
            conn = next(iter(lane.waiting))
            del lane.waiting[conn]
            lane.running.add(conn)
            lane.start(conn)

    def _start(self, conn: TConn) -> None:
        self._answering[conn] = math.inf  # the request may first wait for a thread
        super().enqueue_req(conn)

    def judge_upload(self, conn: TConn) -> None:
        """Let a thread run the application for the head of an upload."""
        self._start(conn)

    def commit_upload(self, conn: TConn) -> None:
        """Let a thread run the application for a slice of an upload."""
        self._commits.waiting[conn] = math.inf
        self._start_queued(self._commits)

    def _start_commit(self, conn: TConn) -> None:
        self._submit(partial(self._commit, self._spools.rows[conn]), conn)

    def end_upload(self, conn: TConn, status: HTTPStatus | None) -> None:
        """End an upload: send a response and close the connection; None: only close it."""
        self._spools.remove(conn)
        if status is None:
            self._drop(conn)
        else:
            self._refuse(conn, status)

    def _refuse(self, conn: TConn, status: HTTPStatus) -> None:
        conn.sock.setblocking(False)
        with contextlib.suppress(OSError):  # a client that doesn't read loses the response
            conn.sock.send(build_refusal(status))
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
        self._senders_ahead.discard(conn)
        self._answers.pop(conn, None)
        self.nr_conns -= 1
        conn.close()


def build_refusal(status: int) -> bytes:
    """Return the response to requests that the application never sees, without their data (V03)."""
    phrase = HTTPStatus(status).phrase
    retry = [f"Retry-After: {RETRY_SECONDS}"] if status == HTTPStatus.SERVICE_UNAVAILABLE else []
    lines = (
        f"HTTP/1.1 {status:d} {phrase}",
        "Connection: close",
        *retry,
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


def _get_status(response: wsgi.Response) -> int:
    return response.status_code or HTTPStatus.INTERNAL_SERVER_ERROR


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


def is_spooled(received: bytes) -> bool:
    """Return whether the loop receives the body: a long one of a known length, if its route allows it."""
    head, _, _ = received.partition(b"\r\n\r\n")
    if _body_length(head) <= BODY_BYTES or _CHUNKED.search(head):
        return False
    return is_upload(head) or is_form(head) or is_document(head)


def is_ahead(received: bytes) -> bool:
    """Return whether bytes of a further request have arrived together with a complete one."""
    head, end, body = received.partition(b"\r\n\r\n")
    return bool(end) and len(body) > _body_length(head)


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


def _reset_at_close(conn: TConn) -> None:
    # Otherwise the kernel would keep bytes that nobody reads for minutes.
    with contextlib.suppress(OSError):
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
