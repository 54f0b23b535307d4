"""The controller and the web tier as ``eventr`` starts them, and a browser's end of the stream of events."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from app.config import Settings
from app.embedded.child import poll
from app.models.jobs import redis_keys
from controller.cancel import cancel_tasks
from controller.follower import connect
from controller.main import ControllerParts
from controller.messages import get_handover_path
from tests.support.imports import REPO
from tests.support.manager import environment
from tests.support.up import free_port, is_listening

START = 60.0


class Part:
    """One process of ours, with its log in a file."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.settings = settings
        self.log = settings.home / f"{name}.log"
        with self.log.open("a") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app", name],
                cwd=REPO,
                env={**os.environ, **environment(settings)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self.pid = self.process.pid

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> int:
        """End it as a service manager does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def controller(settings: Settings) -> Part:
    """Start a controller and wait until it takes browsers and waiters."""
    with redis.Redis.from_url(settings.redis_url) as client:
        client.delete(*client.scan_iter(redis_keys.make_alive_key("controller", "*")), "none")
        get_handover_path(settings).unlink(missing_ok=True)  # a killed one leaves it
        part = Part("controller", settings)

        def ready() -> bool:
            signs = [json.loads(client.get(key) or "{}") for key in client.scan_iter(redis_keys.ALIVE + "*")]
            return part.process.poll() is not None or (
                any(sign.get("pid") == part.pid for sign in signs) and get_handover_path(settings).exists()
            )

        assert poll(ready, START, step=0.05), part.log.read_text()
        assert part.process.poll() is None, part.log.read_text()
    return part


@contextlib.contextmanager
def inside(settings: Settings) -> Iterator[None]:
    """Run a controller in a thread of this process: the same parts, without a start of two seconds."""
    loop = asyncio.new_event_loop()
    started = threading.Event()

    async def serve() -> None:
        get_handover_path(settings).parent.mkdir(exist_ok=True)
        async with connect(settings.redis_url) as client, connect(settings.redis_url) as reading:
            parts = ControllerParts(settings, client, reading)
            tasks = [
                asyncio.create_task(part)
                for part in (parts.follow_streams(), *parts.build_background_tasks())
            ]
            while not get_handover_path(settings).exists():
                await asyncio.sleep(0)
            started.set()
            try:
                await asyncio.gather(*tasks)
            finally:
                parts.close()
                await cancel_tasks(tasks)

    task = loop.create_task(serve())
    thread = threading.Thread(target=_run, args=(loop, task))
    thread.start()
    try:
        assert started.wait(60)
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()


def _run(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def web(settings: Settings) -> Part:
    """Start a web tier and wait until it answers."""
    part = Part("web", settings)

    def ready() -> bool:
        # Somebody else's server may answer there, if the port was taken meanwhile.
        return is_listening(part.pid, settings.port) or part.process.poll() is not None

    assert poll(ready, START, step=0.05), part.log.read_text()
    assert part.process.poll() is None, part.log.read_text()
    return part


@contextlib.contextmanager
def homed(settings: Settings) -> Iterator[Settings]:
    """Yield the settings with a home whose path is short enough for unix sockets, and a free port."""
    with tempfile.TemporaryDirectory(prefix="eventr-test-") as home:
        yield dataclasses.replace(settings, home=Path(home), port=free_port(), web_workers=1)


class Ear:
    """A browser's end of a stream, as bytes on a socket."""

    def __init__(self, sock: socket.socket, request: str) -> None:
        self._sock = sock
        sock.settimeout(60)
        self._file = sock.makefile("rb")
        self._ask(request)

    def _ask(self, request: str) -> None:
        self._sock.sendall(request.encode())
        self.status = int(self._file.readline().split()[1])
        self.headers: dict[str, str] = {}
        while line := self._file.readline().strip():
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()

    def again(self, request: str) -> Ear:
        """Send another request on the same connection and read the head of its answer."""
        self._ask(request)
        return self

    def read(self, count: int) -> bytes:
        """Return so many bytes of an answer."""
        return self._file.read(count)

    def body(self) -> Any:
        """Return the JSON of an answer that is no stream."""
        return json.loads(self._file.read(int(self.headers["content-length"])))

    def next(self, *, beats: bool = False) -> tuple[str, str, Any]:
        """Return (id, kind, data) of the next event; what sets the pace is passed over."""
        while True:
            fields: dict[str, str] = {}
            while line := self._file.readline().decode().rstrip("\n"):
                name, _, value = line.partition(": ")
                fields[name] = value
            if not fields:
                raise ConnectionResetError("the stream has ended")
            if "event" in fields and (beats or fields["event"] != "beat"):
                return fields.get("id", ""), fields["event"], json.loads(fields["data"])

    def ended(self) -> bool:
        """Wait for the end of the stream; return whether it came without a further event."""
        try:
            return all(line.startswith((b"retry", b"\n")) for line in self._file)
        except ConnectionResetError:
            return True

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._sock.close()


def get(path: str, *headers: str) -> str:
    """Return a request as a browser sends it."""
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""])


@contextlib.contextmanager
def listening(port: int, url: str, *headers: str) -> Iterator[Ear]:
    """Open a stream at a port for the time of a block."""
    ear = Ear(socket.create_connection(("127.0.0.1", port), timeout=60), get(url, *headers))
    try:
        yield ear
    finally:
        ear.close()
