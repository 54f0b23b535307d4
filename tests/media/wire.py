"""The application on a real socket, and requests that are bytes: no client library mends or refuses them."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any

from flask import Flask
from werkzeug.serving import make_server

from tests.support.up import free_port


@dataclasses.dataclass
class Answer:
    """A response: its status, its headers in lower case, its body."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclasses.dataclass
class Wire:
    """Sends requests to a server, each on a connection of its own, with the same headers."""

    port: int
    headers: dict[str, str]

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        **headers: str | int | None,
    ) -> Answer:
        """Send a request; ``headers`` with underscores; None leaves one out."""
        given: dict[str, Any] = dict(self.headers)
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            given.setdefault("Content-Length", len(body))
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in given.items() if value is not None]
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall("\r\n".join((*lines, "", "")).encode("latin-1") + (body or b""))
            return parse(read_all(connection))


def read_all(connection: socket.socket) -> bytes:
    """Return all that comes until the server closes the connection."""
    data = b""
    with contextlib.suppress(ConnectionResetError):  # after an early answer, when the body is unread
        while piece := connection.recv(1 << 16):
            data += piece
    return data


def parse(data: bytes) -> Answer:
    """Return a response from its bytes."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    found = re.match(r"HTTP/1\.[01] (\d{3}) ", first)
    assert found, data
    pairs = (line.partition(":") for line in lines)
    return Answer(int(found[1]), {name.lower(): value.strip() for name, _, value in pairs}, body)


@contextlib.contextmanager
def serve(app: Flask) -> Iterator[int]:
    """Serve an application on a free port of loopback; yield the port."""
    port = free_port()
    server = make_server("127.0.0.1", port, app, threaded=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
