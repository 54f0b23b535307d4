"""``eventr search``: rebuild the search index from the entries, or answer the searches of other servers."""

from __future__ import annotations

import contextlib
import hmac
import http.server
import signal
import threading
from http import HTTPStatus
from typing import Any

import click
import msgspec

from app import clock, logs
from app.adapters.search import remote
from app.adapters.search.local import LocalSearch
from app.commands.stores import require_stores
from app.config import Settings
from app.errors import SearchUnavailableError, StartupError

_log = logs.get(__name__)

#: Seconds that a server gets to send its request.
_PATIENCE = 5.0
#: Connections that wait to be accepted.
_WAITING = 256


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
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=9190, show_default=True, help="Port to listen on; 0: any free port.")
def serve(host: str, port: int) -> None:
    """Answer the searches of servers whose EVENTR_SEARCH is this address. They need the same secret key."""
    settings = Settings.from_env()
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
        server.serve_forever(poll_interval=0.2)
    _log.info("ended")


def _is_length(text: str) -> bool:
    return text.isdecimal() and len(text) < 10 and int(text) <= remote.LONGEST


def build_server(settings: Settings, host: str, port: int) -> http.server.ThreadingHTTPServer:
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

        timeout = _PATIENCE

        def do_POST(self) -> None:
            given = self.headers.get("Authorization", "")
            if not hmac.compare_digest(given.encode(), expected.encode()):
                return self._respond(HTTPStatus.UNAUTHORIZED)
            length = self.headers.get("Content-Length", "")
            if self.path != remote.PATH or not _is_length(length):
                return self._respond(HTTPStatus.BAD_REQUEST)
            try:
                wanted, limit = remote.decode_request(self.rfile.read(int(length)))
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

    class Server(http.server.ThreadingHTTPServer):
        """Each search is a connection of its own, and many may arrive at once."""

        request_queue_size = _WAITING

    return Server((host, port), Handler)
