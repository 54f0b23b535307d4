"""A relay between a program and a server, which loses or delays what goes one way or both."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

#: Bytes that are passed on at once.
_PIECE = 1 << 16


class Relay:
    """Listens on a unix socket and passes everything on to another one.

    As in a network that was cut, nobody is told: what is sent is accepted and lost, and connections stay.
    """

    def __init__(self, path: Path, target: Path) -> None:
        self.path, self._target = path, target
        self._lost: frozenset[str] = frozenset()
        self._delay = 0.0
        self.connections = 0
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(512)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def losing(self, *ways: str) -> Iterator[None]:
        """Lose what goes these ways, ``there`` (requests) or ``back`` (replies), inside the block.

        Connections of that time have gaps in them, so they end with the block, as after a timeout of TCP.
        """
        self._lost = frozenset(ways)
        try:
            yield
        finally:
            self._lost = frozenset()
            self._hang_up()

    @contextlib.contextmanager
    def slow(self, seconds: float) -> Iterator[None]:
        """Let each reply come so much later, inside the block."""
        self._delay = seconds
        try:
            yield
        finally:
            self._delay = 0.0

    def close(self) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self._hang_up()
        self.path.unlink(missing_ok=True)

    def _hang_up(self) -> None:
        with self._lock:
            pairs = list(self._pairs)
        for end in (each for pair in pairs for each in pair):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, socket.socket(socket.AF_UNIX) as far:
            try:
                far.connect(str(self._target))
            except OSError:
                return
            pair = (near, far)
            with self._lock:
                self._pairs.add(pair)
            with contextlib.suppress(OSError):
                self._pass_on(near, far)
            with self._lock:
                self._pairs.discard(pair)

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(near, selectors.EVENT_READ, ("there", far))
            waiting.register(far, selectors.EVENT_READ, ("back", near))
            while True:
                for key, _ in waiting.select():
                    way, other = key.data
                    piece = key.fileobj.recv(_PIECE)  # type: ignore[union-attr]
                    if not piece:
                        return
                    if way in self._lost:
                        continue
                    if way == "back" and self._delay:
                        self._over.wait(self._delay)
                    other.sendall(piece)
