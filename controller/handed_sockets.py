"""Connections that the web tier has accepted and hands over because they request ``/events``.

Browsers use a single origin, so the web tier accepts every connection. It passes event connections as open
descriptors over a unix socket (SCM_RIGHTS), with the bytes it has read. So no port, proxy or thread of the
web tier stands between browser and controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

from app import logs
from app.errors import StartupError
from app.runtime import sockets

_log = logs.get(__name__)

#: Most bytes that the web tier may have read already.
EARLY_MAX = 32 << 10
#: Most descriptors in one message: the web tier sends one; any others are closed.
_DESCRIPTORS = 4
_AT_ONCE = 64


class HandoverReceiver:
    """Receives connections from web processes.

    Args:
        protocol: Creates the protocol for one connection.
    """

    def __init__(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._protocol = protocol
        self._listening: socket.socket | None = None
        self._web: set[socket.socket] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(self, path: Path) -> None:
        """Listen at a path, replacing a left-over socket there.

        Raises:
            StartupError: Can't listen at the path.
        """
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        before = os.umask(0o177)
        try:
            path.unlink(missing_ok=True)
            with sockets.shorten_path(path) as name:
                listening.bind(name)
            listening.listen(64)
        except OSError as e:
            listening.close()
            raise StartupError(f"The controller can't listen on {path}: {e.strerror or e}.") from e
        finally:
            os.umask(before)
        listening.setblocking(False)
        self._listening = listening
        asyncio.get_running_loop().add_reader(listening, self._on_web)

    def close(self) -> None:
        """Stop receiving connections."""
        loop = asyncio.get_running_loop()
        for sock in (self._listening, *self._web):
            if sock is not None:
                loop.remove_reader(sock)
                sock.close()
        self._web.clear()

    def _on_web(self) -> None:
        assert self._listening is not None  # noqa: S101 — the loop calls this for its own socket
        with contextlib.suppress(BlockingIOError):
            web, _ = self._listening.accept()
            web.setblocking(False)
            self._web.add(web)
            asyncio.get_running_loop().add_reader(web, self._on_handed, web)

    def _on_handed(self, web: socket.socket) -> None:
        # Many browsers at once must not block the loop's other work.
        for _ in range(_AT_ONCE):
            try:
                early, descriptors, _, _ = socket.recv_fds(web, EARLY_MAX, _DESCRIPTORS)
            except BlockingIOError:
                return
            except OSError as e:
                _log.warning("handover_failed", error=type(e).__name__)
                early, descriptors = b"", []
            if not early and not descriptors:
                asyncio.get_running_loop().remove_reader(web)
                self._web.discard(web)
                web.close()
                return
            for descriptor in descriptors[1:]:
                os.close(descriptor)
            if descriptors:
                self._take(socket.socket(fileno=descriptors[0]), early[1:])

    def _take(self, sock: socket.socket, early: bytes) -> None:
        sock.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._connect(sock, early))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, sock: socket.socket, early: bytes) -> None:
        try:
            _, protocol = await asyncio.get_running_loop().connect_accepted_socket(self._protocol, sock)
        except OSError:
            sock.close()
            return
        if early:
            protocol.data_received(early)
