"""Hands connections that ask for the stream of events over to the controller; see
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
#: The first byte is there because a message without bytes carries no descriptor.
_MARK = b"\n"


class Handover:
    """One web process's line to the controller; connects when it is first needed.

    Args:
        path: socket of the controller.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line: socket.socket | None = None

    def hand_over(self, sock: socket.socket, head: bytes, buffered: bytes) -> bool:
        """Hand a connection over if its request is for the controller; then it is the caller's to close.

        Args:
            seen: the request's head.
            buffered: what of it has been read from the socket already.

        Returns:
            False when it is for somebody else, or the controller is not there.
        """
        if not _WANTED.match(head):
            return False
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        # A second try: the first one finds out that the controller was started anew.
        return self._send(sock, buffered) or self._send(sock, buffered)

    def close(self) -> None:
        """Hang up."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _send(self, sock: socket.socket, buffered: bytes) -> bool:
        try:
            if self._line is None:
                self._line = _connected(self._path)
            socket.send_fds(self._line, [_MARK, buffered], [sock.fileno()])
        except BlockingIOError:
            return False  # it has more of them than it can take: the browser comes back
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
