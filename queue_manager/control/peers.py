"""Identifies the clients of the control socket, by the kernel's credentials or by token."""

from __future__ import annotations

import dataclasses
import hmac
import os
import pwd
import socket
import struct
from typing import Any

#: struct ucred of unix(7): pid, uid, gid.
_UCRED = struct.Struct("3i")
_ROOT = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """A client.

    Attributes:
        via: ``unix`` or ``tcp``.
        is_welcome: Whether the client may give commands.
        uid, pid, user: The process at the other end of a unix socket, as of its connection.
        address: The address of a client of the port.
    """

    via: str
    is_welcome: bool
    uid: int | None = None
    pid: int | None = None
    user: str | None = None
    address: str | None = None

    def build_log_fields(self) -> dict[str, Any]:
        """Return the client's fields for a log line."""
        known = dataclasses.asdict(self)
        del known["is_welcome"]
        return {name: value for name, value in known.items() if value is not None}


def identify_peer(line: Any) -> Peer:
    """Return the peer of a unix socket; blocks while the system looks up the user's name.

    Only this user and root are welcome, whatever the modes of the socket and its folder are now. If the
    kernel doesn't identify peers, nobody is welcome.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return Peer("unix", is_welcome=False)
    pid, uid, _ = _UCRED.unpack(line.getsockopt(socket.SOL_SOCKET, option, _UCRED.size))
    return Peer("unix", is_trusted(uid), uid, pid, _name(uid))


def is_trusted(uid: int) -> bool:
    """Return whether a user may give commands: the manager's own user and root."""
    return uid in (_ROOT, os.geteuid())


def build_remote_peer(address: tuple[Any, ...]) -> Peer:
    """Return the peer of the port, after it has sent the token."""
    return Peer("tcp", is_welcome=True, address=f"{address[0]}:{address[1]}")


def has_token(line: bytes, token: bytes) -> bool:
    """Return whether a client's first line is ``AUTH TOKEN``; takes equally long for any guess."""
    return hmac.compare_digest(line.rstrip(b"\r\n"), b"AUTH " + token) and len(token) > 0


def _name(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None
