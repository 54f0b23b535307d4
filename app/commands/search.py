"""``eventr search``: rebuild the search index from the entries, or answer the searches of other servers."""

from __future__ import annotations

import contextlib
import hmac
import http.server
import signal
import socket
import threading
import time
from http import HTTPStatus
from typing import Any

import click
import msgspec

from app import clock, logs
from app.adapters.search import remote
from app.adapters.search.local import LocalSearch
from app.commands.processes import prepare
from app.commands.schema import wait_for_schema
from app.commands.stores import require_stores
from app.config import Settings
from app.errors import SearchUnavailableError, StartupError, StoreError
from app.services.reading.indexing import COMMIT_SECONDS

_log = logs.get(__name__)

#: Seconds of one run of a standby index.
_RUN_SECONDS = 30.0
#: Connections that wait to be accepted, and seconds between two looks for connections that take too long.
_WAITING, _LOOK_SECONDS = 256, 0.05


@click.group()
def search() -> None:
    """Manage the search index."""


@search.command()
def rebuild() -> None:
    """Rebuild the search index in the background. Searches use the old index until it's done."""
    from app.bootstrap import services as bootstrap  # imports all of Eventr

    settings = Settings.from_env()
    logs.configure(settings.log_level, settings.log_format)
    with contextlib.closing(bootstrap.build(require_stores(settings))) as services:
        services.migrate()
        click.echo(f"{services.indexing.rebuild(clock.now())} feeds queued for reindexing.")


@search.command()
@click.option("--host", help="Address to listen on.  [default: EVENTR_SEARCH_HOST]")
@click.option("--port", type=int, help="Port to listen on; 0: any free port.  [default: EVENTR_SEARCH_PORT]")
def serve(host: str | None, port: int | None) -> None:
    """Answer the searches of servers whose EVENTR_SEARCH is this address. They need the same secret key."""
    settings = Settings.from_env()
    host = settings.search_host if host is None else host
    port = settings.search_port if port is None else port
    logs.configure(settings.log_level, settings.log_format)
    try:
        server = build_server(settings, host, port)
    except OSError as e:
        raise StartupError(
            f"Can't listen on {host}:{port} ({e.strerror}). Choose another address with --host and --port."
        ) from e
    for number in (signal.SIGTERM, signal.SIGINT):
        # shutdown() waits for the loop, which this thread runs.
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    _log.info("ready", address=f"{server.server_address[0]!s}:{server.server_address[1]}")
    with server:
        server.serve_forever(poll_interval=_LOOK_SECONDS)
    _log.info("ended")


@search.command("standby")
def keep_standby() -> None:
    """Keep a second search index on this server, which answers if the first one is lost."""
    from app.bootstrap import services as bootstrap  # imports all of Eventr

    settings = prepare("search standby")
    if settings.search == "local":
        raise StartupError(
            "EVENTR_SEARCH is local, so this server has the first index. Set it to that server's address."
        )
    wait_for_schema(settings)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    with contextlib.closing(bootstrap.build(settings)) as services:
        _log.info("ready")
        while not stopping.is_set():
            try:
                services.standby.run(clock.now(), _RUN_SECONDS, stopping.is_set)
            except StoreError:
                _log.error("standby_failed", exc_info=True)
            stopping.wait(COMMIT_SECONDS)
    _log.info("ended")


def _is_length(text: str) -> bool:
    return text.isdecimal() and len(text) < 10 and int(text) <= remote.LONGEST


def build_server(settings: Settings, host: str, port: int) -> SearchServer:
    """Return a server that answers searches from this server's index; it listens already.

    Raises:
        StartupError: there is no common secret.
        OSError: the address can't be used.
    """
    if not settings.secret_key:
        raise StartupError("EVENTR_SECRET_KEY is empty. Set it to the same value on all servers.")
    engine = LocalSearch(settings.home, max_words=settings.search_words)
    expected = f"Bearer {remote.make_token(settings.secret_key)}"

    class Handler(http.server.BaseHTTPRequestHandler):
        """Answers one search."""

        timeout = settings.search_seconds

        def do_POST(self) -> None:
            given = self.headers.get("Authorization", "")
            if not hmac.compare_digest(given.encode(), expected.encode()):
                return self._respond(HTTPStatus.UNAUTHORIZED)
            length = self.headers.get("Content-Length", "")
            if self.path != remote.PATH or not _is_length(length):
                return self._respond(HTTPStatus.BAD_REQUEST)
            try:
                body = self.rfile.read(int(length))
                server.start_answer(self.connection)
                wanted, limit = remote.decode_request(body)
                if server.is_late(self.connection):
                    return self._respond(HTTPStatus.SERVICE_UNAVAILABLE)  # nobody waits anymore
                self._respond(HTTPStatus.OK, remote.encode_result(engine.find(wanted, limit)))
            except (ValueError, msgspec.MsgspecError):
                self._respond(HTTPStatus.BAD_REQUEST)
            except SearchUnavailableError:
                self._respond(HTTPStatus.SERVICE_UNAVAILABLE)

        def _respond(self, status: HTTPStatus, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            _log.debug("search_answered", line=format % args)

    server = SearchServer((host, port), Handler)
    server.set_limits(settings.search_threads, settings.search_seconds)
    return server


class SearchServer(http.server.ThreadingHTTPServer):
    """Each search is a connection of its own, and many may arrive at once."""

    request_queue_size = _WAITING

    def set_limits(self, threads: int, seconds: float) -> None:
        """Set how many connections have a thread at once, and when a connection is closed."""
        self._seconds = seconds
        self._free = threading.BoundedSemaphore(threads)
        self._lock = threading.Lock()
        self._ends: dict[Any, tuple[float, float]] = {}  # by connection: of its sender's time, of all

    def start_answer(self, connection: Any) -> None:
        """Say that a request has arrived: the rest of its time is for the answer."""
        with self._lock:
            self._ends[connection] = (self._ends[connection][1],) * 2

    def is_late(self, connection: Any) -> bool:
        """Return whether a connection's time is over."""
        return time.monotonic() >= self._ends.get(connection, (0.0, 0.0))[0]

    def process_request(self, request: Any, client_address: Any) -> None:
        ends = time.monotonic() + self._seconds
        while not self._free.acquire(timeout=_LOOK_SECONDS):
            self.service_actions()
            if time.monotonic() >= ends:
                return self.shutdown_request(request)
        with self._lock:
            # A sender has half of the time, so that who waits for its thread still gets an answer.
            self._ends[request] = min(ends, time.monotonic() + self._seconds / 2), ends
        try:
            super().process_request(request, client_address)
        except BaseException:  # the system has no more threads
            self._release(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._release(request)

    def _release(self, request: Any) -> None:
        with self._lock:
            del self._ends[request]
        self._free.release()

    def service_actions(self) -> None:
        """Close connections whose time is over, so that a slow sender doesn't hold a thread."""
        with self._lock:
            late = [request for request in self._ends if self.is_late(request)]
        for request in late:
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)
