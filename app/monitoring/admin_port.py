"""The admin port of a process: liveness, readiness, and metrics for Prometheus.

 GET /healthz   200 while the process's loop runs, else 503: the process should be restarted
 GET /readyz    200 if everything it needs is available, else 503; in both cases JSON lists what is missing
 GET /metrics   the metrics, in Prometheus's text format

It runs in a thread with an event loop of its own, so that a process whose main loop hangs still responds. Off
by default. Without a token it serves this machine only, and only under an IP address or ``localhost``. A web
page in a local browser could point its own host name at this port. Forwarding headers of proxies are ignored,
so no one gets in with a forged address.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeVar

from app import logs
from app.config import Settings
from app.runtime.http_head import parse_request_head

_log = logs.get(__name__)
T = TypeVar("T")

#: Returns the names of the parts that aren't responding.
Missing = Callable[[], Awaitable[list[str]]]
#: Returns the metrics in Prometheus's text format.
Figures = Callable[[], Awaitable[bytes]]

#: Each process of a machine has its own port: the configured one, and the next ones.
OFFSETS: Final = {"manager": 0, "controller": 1, "updater": 2}
#: Seconds after which a silent loop counts as hanging; the updater waits for its stores in its loop.
HUNG: Final = {"manager": 15.0, "controller": 15.0, "updater": 60.0}
#: Longest request head, bytes; most connections at once; longest exchange and longest collection, seconds.
_HEAD, _OPEN, _EXCHANGE, _MAKING = 8192, 16, 10.0, 8.0
_BEAT = 1.0
#: Seconds after which a process that isn't ready may be.
_RETRY_AFTER = 10
#: The text format of Prometheus 2 and 3.
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_JSON = "application/json"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}

Answer = tuple[int, str, bytes]


class Pulse:
    """The time when a loop last ran; any thread may read it."""

    def __init__(self) -> None:
        self._at = time.monotonic()

    def record_beat(self) -> None:
        """Record that the loop has run."""
        self._at = time.monotonic()

    @property
    def age(self) -> float:
        """Seconds since the loop last ran."""
        return time.monotonic() - self._at


def find_bind_address(settings: Settings, process: str) -> tuple[str, int]:
    """Return the address and port at which a process of this machine listens; port 0 means any free port."""
    host, _, port = settings.metrics_listen.rpartition(":")
    return host.strip("[]"), int(port) + OFFSETS[process] if int(port) else 0


def get_url(settings: Settings, process: str) -> str:
    """Return the address of a process's admin port for people; empty when it is off."""
    if not settings.metrics_listen:
        return ""
    host, port = find_bind_address(settings, process)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class AdminServer:
    """Serves the admin port of one process.

    Args:
        settings: the settings.
        process: its name, a key of :data:`OFFSETS`.
        pulse: of its main loop.
        missing, figures: called in the loop of the server; must not block it.
    """

    def __init__(
        self, settings: Settings, process: str, pulse: Pulse, missing: Missing, figures: Figures
    ) -> None:
        self._settings, self._process, self._pulse = settings, process, pulse
        self._missing, self._figures = missing, figures
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="admin", daemon=True)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        #: The port it listens on, 0 if it doesn't.
        self.port = 0

    def start(self) -> None:
        """Start listening. A failure is only logged, because the process works without the admin port."""
        self._thread.start()
        try:
            self._server = self._call(self._listen())
        except OSError as e:
            _log.error("admin_unavailable", where=get_url(self._settings, self._process), error=str(e))
            return
        self.port = self._server.sockets[0].getsockname()[1]
        _log.info("admin_listens", host=find_bind_address(self._settings, self._process)[0], port=self.port)

    def stop(self) -> None:
        """Close the port and all connections."""
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Awaitable[T]) -> T:
        async def run() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    async def _listen(self) -> asyncio.Server:
        host, port = find_bind_address(self._settings, self._process)
        return await asyncio.start_server(self._on_connection, host, port, limit=_HEAD)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._loop.shutdown_default_executor()

    # -- one connection

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 — asyncio runs each connection in a task
        try:
            if len(self._open) < _OPEN:
                self._open.add(task)
                async with asyncio.timeout(_EXCHANGE):
                    await self._exchange(reader, writer)
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            _log.debug("admin_lost")
        finally:
            self._open.discard(task)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, (status, kind, body) = await self._answer(head)
        lines = [
            f"HTTP/1.1 {status} {_REASONS[status]}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        ]
        if status == 401:
            lines.append("WWW-Authenticate: Bearer")
        if status == 503:
            lines.append(f"Retry-After: {_RETRY_AFTER}")
        writer.write("\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else body))
        await writer.drain()

    async def _answer(self, head: bytes) -> tuple[str, Answer]:
        try:
            method, path, fields = _read(head)
        except ValueError:
            return "", _said(400, error="This isn't a valid HTTP request.")
        if refused := self._refusal(fields):
            return method, refused
        if method not in ("GET", "HEAD"):
            return method, _said(405, error="Use GET or HEAD.")
        match path.partition("?")[0]:
            case "/healthz":
                return method, self._health()
            case "/readyz":
                return method, await self._readiness()
            case "/metrics":
                return method, await self._metrics()
        return method, _said(404, error="Use /healthz, /readyz or /metrics.")

    def _refusal(self, fields: dict[str, str]) -> Answer | None:
        token = self._settings.metrics_token
        if token:
            given = fields.get("authorization", "").encode()
            if hmac.compare_digest(given, f"Bearer {token}".encode()):
                return None
            return _said(401, error="The token is missing or incorrect.")
        return (
            None
            if _is_literal(fields.get("host", ""))
            else _said(403, error="Use an IP address or localhost instead of this host name.")
        )

    # -- answers

    def _health(self) -> Answer:
        age = self._pulse.age
        well = age < HUNG[self._process]
        return _said(200 if well else 503, ok=well, process=self._process, turned_s=round(age, 1))

    async def _readiness(self) -> Answer:
        try:
            async with asyncio.timeout(_MAKING):
                missing = await self._missing()
        except TimeoutError:
            missing = ["process"]
        return _said(503 if missing else 200, ready=not missing, process=self._process, missing=missing)

    async def _metrics(self) -> Answer:
        try:
            async with asyncio.timeout(_MAKING):
                return 200, _PROMETHEUS, await self._figures()
        except TimeoutError:
            return _said(503, error="The process isn't responding.")
        except Exception as e:  # noqa: BLE001 — a fault in the metrics must not look like silence
            _log.error("metrics_failed", exc_info=True, error=type(e).__name__)
            return _said(503, error="Can't collect the metrics. Check the log.")


@contextlib.asynccontextmanager
async def serve_admin_port(
    settings: Settings, process: str, missing: Missing, figures: Figures
) -> AsyncIterator[None]:
    """Serve the admin port of a process with an event loop during a block, if it is on.

    Args:
        settings: the settings.
        process: its name, a key of :data:`OFFSETS`.
        missing, figures: called in the loop of the caller.
    """
    if not settings.metrics_listen:
        yield
        return
    loop, pulse = asyncio.get_running_loop(), Pulse()
    beating = asyncio.create_task(_beat(pulse))
    admin = AdminServer(settings, process, pulse, _in(loop, missing), _in(loop, figures))
    admin.start()
    try:
        yield
    finally:
        beating.cancel()
        # In a thread, because the calls that it waits for may need this loop.
        await asyncio.to_thread(admin.stop)


async def _beat(pulse: Pulse) -> None:
    while True:
        pulse.record_beat()
        await asyncio.sleep(_BEAT)


def _in(loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
    """Return a function that runs ``work`` in another thread's loop."""

    async def run() -> T:
        return await work()

    async def call_in_loop() -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), loop))

    return call_in_loop


def _said(status: int, **fields: object) -> Answer:
    return status, _JSON, json.dumps(fields).encode() + b"\n"


_ONCE = frozenset({"host", "authorization"})


def _read(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Return method, target and fields of a request.

    Raises:
        ValueError: it breaks the rules of HTTP, or a field of which one decides is there twice.
    """
    request = parse_request_head(head)
    if request.repeated & _ONCE:
        raise ValueError("repeated field")
    return request.method, request.target, request.fields


def _is_literal(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
