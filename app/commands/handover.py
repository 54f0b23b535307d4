"""Handover: pass connections that request the stream of events to the controller; see
``controller.handed_sockets``.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path

from app import logs
from app.runtime import sockets

log = logs.get(__name__)

_WANTED = re.compile(rb"GET /events[? ]")
#: The first byte, because a message without bytes carries no descriptor.
_MARK = b"\n"


class Handover:
    """One web process's connection to the controller, opened on first use.

    Args:
        path: socket of the controller.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line: socket.socket | None = None

    def hand_over(self, sock: socket.socket, head: bytes, buffered: bytes) -> bool:
        """Hand a connection over if its request is for the controller; the caller then closes its own end.

        Args:
            sock: the connection.
            head: the request's head.
            buffered: the part of it that has already been read from the socket.

        Returns:
            False if the request isn't for the controller, or the controller isn't available.
        """
        if not _WANTED.match(head):
            return False
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        # Try twice: the first attempt fails if the controller has restarted.
        return self._send(sock, buffered) or self._send(sock, buffered)

    def close(self) -> None:
        """Close the connection to the controller."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _send(self, sock: socket.socket, buffered: bytes) -> bool:
        try:
            if self._line is None:
                self._line = _connected(self._path)
            socket.send_fds(self._line, [_MARK, buffered], [sock.fileno()])
        except BlockingIOError:
            return False  # the controller's queue is full: the browser will reconnect
        except OSError as e:
            log.debug("handover_failed", error=type(e).__name__)
            self.close()
            return False
        return True


def _connected(path: Path) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        line.setblocking(False)
        with sockets.shorten_path(path) as name:
            line.connect(name)
    except OSError:
        line.close()
        raise
    return line
