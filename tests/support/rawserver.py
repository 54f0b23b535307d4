"""A scripted HTTP server on loopback that can misbehave on purpose, for tests and benchmarks.

    with RawServer() as server:                      # in a thread of this process
        server.set("/feed", Reply(body=b"<rss/>", etag='"1"'))
        server.url("/feed"), server.origin           # origin fits EVENTR_FETCH_ALLOW

    with serve_files({"/a.xml": data}) as server:    # files with ETag, 304 and gzip
    with serve_files(files, process=True) as server: # the same in a process of its own

Plain replies are composed once and written in one piece, so a benchmark measures its client.
Every other reply (delays, drips, resets, endless answers) is a coroutine of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import multiprocessing
import socket
import ssl
import struct
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from tests.support.replies import Composed, Reply, Request, Script, file_reply, played

__all__ = ["RawServer", "Reply", "Request", "Script", "ServerProcess", "file_reply", "serve_files"]


_NOT_FOUND = Reply(status=404)


def _body_length(head: bytes) -> int:
    lengths = [line[15:] for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:"]
    return int(lengths[0]) if lengths else 0


class _Protocol(asyncio.Protocol):
    """One connection: answers requests one after the other."""

    def __init__(self, server: RawServer) -> None:
        self._server = server
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None
        self._number = 0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._server.opened(self)
        self._number = self._server.connections

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closed(self)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while self._task is None and (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head, rest = self._buffer[: end + 4], self._buffer[end + 4 :]
            length = _body_length(head) if head.startswith(b"POST ") else 0
            if len(rest) < length:
                return
            self._buffer = rest[length:]
            self._answer(head, rest[:length])

    def _answer(self, head: bytes, body: bytes) -> None:
        assert self.transport is not None
        path = head.split(b" ", 2)[1].decode("latin-1")
        request = self._server.note(head, path, self._number, body)
        found = self._server.find(path, request)
        if isinstance(found, Reply):
            self._task = asyncio.get_running_loop().create_task(self._play(found, head))
            return
        self.transport.write(found.answer(head))
        if found.close:
            self.transport.close()

    async def _play(self, reply: Reply, head: bytes) -> None:
        assert self.transport is not None
        if reply.delay:
            await asyncio.sleep(reply.delay)
        await self._write(played(reply, head), reply)
        while reply.endless is not None:
            await self._write(reply.endless, dataclasses.replace(reply, drip=None))
            await asyncio.sleep(reply.drip[1] if reply.drip else 0)
        if reply.unfinished:
            return
        if reply.reset:
            # SO_LINGER with zero seconds turns close() into RST.
            raw = self.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        elif reply.close or reply.raw is not None or reply.cut is not None:
            self.transport.close()
        self._task = None

    async def _write(self, data: bytes, reply: Reply) -> None:
        assert self.transport is not None
        size, pause = reply.drip or (max(1, len(data)), 0.0)
        for start in range(0, len(data), size):
            self.transport.write(data[start : start + size])
            while self.transport.get_write_buffer_size() > 1 << 20 and not self.transport.is_closing():
                await asyncio.sleep(0.001)
            if pause:
                await asyncio.sleep(pause)


class RawServer:
    """A scripted server in a thread of this process.

    Args:
        hosts: loopback addresses to listen on, all with one port; per-host limits count them apart.
        tls: certificate chain and key files; makes it an HTTPS server.
        record: keep every request in ``requests``; ``peak`` counts open connections in any case.
        default: the answer for paths that were not set.
    """

    def __init__(
        self,
        scripts: Mapping[str, Script] | None = None,
        *,
        hosts: tuple[str, ...] = ("127.0.0.1",),
        tls: tuple[str, str] | None = None,
        default: Reply = _NOT_FOUND,
        record: bool = True,
    ) -> None:
        self.hosts, self.connections, self.served, self.peak = hosts, 0, 0, 0
        self.requests: list[Request] = []
        self.port = 0
        self._scheme = "https" if tls else "http"
        self._tls, self._record = tls, record
        self._scripts: dict[str, Composed | Script] = {}
        self._default = Composed.of(default) if default.plain else default
        self._open: set[_Protocol] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rawserver", daemon=True)
        for path, script in (scripts or {}).items():
            self.set(path, script)

    @property
    def origin(self) -> str:
        """``host:port``, as the allow-list of fetches takes it."""
        return f"{self.hosts[0]}:{self.port}"

    @property
    def open_connections(self) -> int:
        """Connections open right now."""
        return len(self._open)

    def url(self, path: str = "/", host: str | None = None) -> str:
        return f"{self._scheme}://{host or self.hosts[0]}:{self.port}{path}"

    def set(self, path: str, script: Script) -> None:
        """Answer ``path`` (with its query) so from now on; callable from any thread."""
        self._scripts[path] = Composed.of(script) if isinstance(script, Reply) and script.plain else script

    def seen(self, path: str) -> list[Request]:
        """Return the requests for a path, in order."""
        return [r for r in self.requests if r.path == path]

    def start(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.stop()

    # -- called by the connections, in the server's thread

    def opened(self, connection: _Protocol) -> None:
        self.connections += 1
        self._open.add(connection)
        self.peak = max(self.peak, len(self._open))

    def closed(self, connection: _Protocol) -> None:
        self._open.discard(connection)

    def note(self, head: bytes, path: str, connection: int, body: bytes) -> Request | None:
        self.served += 1
        if not self._record:
            return None
        lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        request = Request(lines[0].split(" ", 1)[0], path, headers, connection, body)
        self.requests.append(request)
        return request

    def find(self, path: str, request: Request | None) -> Composed | Reply:
        found = self._scripts.get(path, self._default)
        if isinstance(found, Composed | Reply):
            return found
        assert request is not None, "callables need record=True"
        reply = found(request)
        return Composed.of(reply) if reply.plain else reply

    # -- the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        context = None
        if self._tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self._tls)
        listeners = self._listen()
        servers = [
            self._loop.run_until_complete(
                self._loop.create_server(lambda: _Protocol(self), sock=listener, ssl=context, backlog=2048)
            )
            for listener in listeners
        ]
        self._ready.set()
        try:
            self._loop.run_forever()
        finally:
            self._close(servers)

    def _listen(self) -> list[socket.socket]:
        listeners: list[socket.socket] = []
        for host in self.hosts:
            listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, self.port))
            self.port = listener.getsockname()[1]
            listeners.append(listener)
        return listeners

    def _close(self, servers: list[asyncio.Server]) -> None:
        for server in servers:
            server.close()
        for connection in list(self._open):
            if connection.transport is not None:
                connection.transport.abort()
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


class ServerProcess:
    """A :class:`RawServer` in a process of its own: its CPU time is not its client's.

    ``set``, ``url``, ``origin`` as there; callables cannot cross; ``served`` asks the process.
    """

    def __init__(self, scripts: Mapping[str, Reply], **options: Any) -> None:
        self.hosts: tuple[str, ...] = options.get("hosts", ("127.0.0.1",))
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_child, args=(theirs, dict(scripts), {**options, "record": False}), daemon=True
        )
        self._process.start()
        theirs.close()
        self.port: int = self._pipe.recv()

    @property
    def origin(self) -> str:
        return f"{self.hosts[0]}:{self.port}"

    @property
    def served(self) -> int:
        self._pipe.send(("served",))
        return int(self._pipe.recv())

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def url(self, path: str = "/", host: str | None = None) -> str:
        return f"http://{host or self.hosts[0]}:{self.port}{path}"

    def set(self, path: str, reply: Reply) -> None:
        """Answer ``path`` so from now on; returns when the server knows it."""
        self.set_many({path: reply})

    def set_many(self, replies: Mapping[str, Reply]) -> None:
        self._pipe.send(("set", dict(replies)))
        self._pipe.recv()

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._pipe.send(("stop",))
        self._process.join(10)
        self._pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.stop()


def _child(pipe: Connection, scripts: dict[str, Reply], options: dict[str, Any]) -> None:
    with RawServer(scripts, **options) as server:
        pipe.send(server.port)
        while True:
            try:
                message = pipe.recv()
            except (EOFError, OSError):
                return
            if message[0] == "stop":
                return
            if message[0] == "served":
                pipe.send(server.served)
                continue
            for path, reply in message[1].items():
                server.set(path, reply)
            pipe.send(True)


def serve_files(
    files: Mapping[str, bytes],
    *,
    etag: bool = True,
    gzip: bool = True,
    close: bool = False,
    process: bool = False,
    hosts: tuple[str, ...] = ("127.0.0.1",),
) -> RawServer | ServerProcess:
    """Serve path → bytes over loopback; use as a context manager.

    Args:
        files: paths start with ``/``.
        close: one connection per request, as if each feed had a host of its own.
        process: in a process of its own (started at once), for benchmarks.
    """
    replies = {path: file_reply(body, etag=etag, gzip=gzip, close=close) for path, body in files.items()}
    return ServerProcess(replies, hosts=hosts) if process else RawServer(replies, hosts=hosts)
