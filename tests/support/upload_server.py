"""A real web server whose application only keeps uploads, and raw clients for it."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support.imports import REPO
from tests.support.up import free_port

Eventually = Callable[..., Any]
PATIENCE = 60.0
#: The application appends each slice to a file named by the path. Request headers say what else it does.
_SERVER = """
import ctypes, json, os, resource, sys, threading
from pathlib import Path
from app import application
from app.commands import gunicorn_worker, processes
from app.config import Settings
from app.models.media.spooled import SPOOLED, WANTED
gunicorn_worker.READ_SECONDS = 0.01  # a thread reads no body here
folder = Path(sys.argv[1])
gate = threading.Event()
lock = threading.Lock()
inside, log = 0, {}
def note(environ, row):
    with lock:
        log.setdefault(environ["PATH_INFO"], []).append(row)
def keep(environ):
    part = environ[SPOOLED]
    note(environ, [part.start, part.size, part.is_last, part.is_broken])
    if "HTTP_X_WAIT" in environ:
        gate.wait()
    if part.start == int(environ.get("HTTP_X_FAIL_AT", -1)):
        return "409 Conflict"
    with open(folder / environ["PATH_INFO"].rpartition("/")[2], "ab") as file:
        done = 0
        while done < part.size:
            data = os.pread(part.descriptor, part.size - done, done)
            file.write(data)
            done += len(data)
    return "204 No Content"
def judge(environ):
    note(environ, "head")
    assert environ["wsgi.input"].read() == b""
    if "HTTP_X_CRASH" in environ:
        raise ValueError("crash")
    if "HTTP_X_REFUSE" in environ:
        return environ["HTTP_X_REFUSE"] + " No"
    environ[WANTED](int(environ.get("HTTP_X_LIMIT", 1 << 24)))
    return environ.get("HTTP_X_CHANGE", "204") + " Yes"
def answer(environ, start):
    path, body = environ["PATH_INFO"], b""
    status = "200 OK"
    if path == "/log":
        body = json.dumps({"log": log, "inside": inside, "threads": threading.active_count(),
                           "descriptors": len(os.listdir("/proc/self/fd"))}).encode()
    elif path == "/open":
        gate.set()
    elif WANTED in environ:
        status, body = judge(environ), b"judged"
    elif SPOOLED in environ:
        status, body = keep(environ), b"kept"
        if "HTTP_X_LARGE" in environ:
            status, body = "200 OK", b"x" * (4 << 20)
    else:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        note(environ, len(body))
    start(status, [("Content-Length", str(len(body)))])
    return [body]
def run(environ, start):
    global inside
    with lock:
        inside += 1
    try:
        return answer(environ, start)
    finally:
        with lock:
            inside -= 1
application.build = lambda settings: run
processes._gunicorn(Settings.from_env())
"""


class UploadServer:
    """One web process with two threads.

    Args:
        folder: the server's home; what it keeps is in ``kept``.
        program: the server; its argument is the folder of what it keeps.
    """

    def __init__(self, folder: Path, program: str = _SERVER, **settings: str) -> None:
        self.port = free_port()
        self.home, self.kept = folder / "home", folder / "kept"
        for each in (self.home, self.kept):
            each.mkdir(exist_ok=True)
        own = {
            "EVENTR_HOME": str(self.home),
            "EVENTR_PORT": str(self.port),
            "EVENTR_WEB_WORKERS": "1",
            "EVENTR_WEB_THREADS": "2",
            **{f"EVENTR_{name.upper()}": value for name, value in settings.items()},
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(self.kept)],
            cwd=REPO,
            env={**os.environ, **own},
            stderr=subprocess.DEVNULL,
        )
        self._open: list[socket.socket] = []

    def connect(self, data: bytes = b"", address: str = "127.0.0.1") -> socket.socket:
        """Connect from a loopback address and send something."""
        sock = socket.create_connection(
            ("127.0.0.1", self.port), timeout=PATIENCE, source_address=(address, 0)
        )
        self._open.append(sock)
        sock.sendall(data)
        return sock

    def get(self, path: str) -> tuple[int, bytes]:
        """Return status and body; status 0 if the connection was refused or cut."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (ConnectionError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def read_state(self) -> dict[str, Any]:
        """Return the application's view: calls by path, threads inside, descriptors of the process."""
        return json.loads(self.get("/log")[1])  # type: ignore[no-any-return]

    def read_log(self, name: str) -> list[Any]:
        """Return the calls for an upload: "head", or a slice's start, size, is_last, is_broken."""
        return self.read_state()["log"].get(f"/uploads/{name}", [])  # type: ignore[no-any-return]

    def read_kept(self, name: str) -> bytes:
        """Return the bytes of an upload that the application has kept."""
        path = self.kept / name
        return path.read_bytes() if path.exists() else b""

    def close(self) -> None:
        """Close all connections and stop the server."""
        for sock in self._open:
            sock.close()
        self.process.terminate()
        self.process.wait(PATIENCE)


@contextlib.contextmanager
def run_upload_server(folder: Path, eventually: Eventually, **settings: str) -> Iterator[UploadServer]:
    """Run a server for the block."""
    server = UploadServer(folder, **settings)
    try:
        eventually(lambda: server.get("/")[0] == 200, PATIENCE)
        yield server
    finally:
        server.close()


def build_head(name: str, size: int, *fields: str, method: str = "PATCH") -> bytes:
    """Return the head of an upload."""
    lines = (f"{method} /uploads/{name} HTTP/1.1", "Host: x", f"Content-Length: {size}", *fields)
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


def read_answer(sock: socket.socket, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    """Return status, header fields in lower case, and body of one response; status 0 at the end."""
    answer = http.client.HTTPResponse(sock, method=method)
    try:
        answer.begin()
    except (ConnectionError, http.client.HTTPException):
        return 0, {}, b""
    return answer.status, {name.lower(): text for name, text in answer.getheaders()}, answer.read()


def read_rest(sock: socket.socket) -> bytes:
    """Return all that comes until the end; a reset is an end, too."""
    parts: list[bytes] = []
    with contextlib.suppress(ConnectionResetError):
        parts += iter(functools.partial(sock.recv, 1 << 16), b"")
    return b"".join(parts)
