"""Control sockets of managers: a unix socket for each and, only if configured, a loopback port.

    HOME/run/manager-PID.sock   0600 in a folder 0700: this user and root
    HOME/repl_token             0600: the token for clients of the port; created at first start

The command line uses the same names to find the managers of a data folder.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

from app.config import Settings
from app.errors import StartupError
from app.runtime import sockets

_NAME = "manager-"
_ENDING = ".sock"
#: Clients that may wait to be accepted.
_BACKLOG = 16
#: Seconds after which a manager that doesn't accept counts as frozen.
_FROZEN = 2.0
#: 256 bits.
_TOKEN_BYTES = 32


def get_folder(settings: Settings) -> Path:
    """Return the folder of the sockets."""
    return settings.home / "run"


def get_socket_path(settings: Settings, pid: int) -> Path:
    """Return the socket path of the manager with this process id."""
    return get_folder(settings) / f"{_NAME}{pid}{_ENDING}"


def get_token_path(settings: Settings) -> Path:
    """Return the file with the token for the loopback port."""
    return settings.home / "repl_token"


def list_running(settings: Settings) -> list[int]:
    """Return the process ids of the listening managers, in ascending order.

    Raises:
        StartupError: The folder belongs to another user.
    """
    try:
        return sorted(pid for pid, path in _sockets(settings) if _listens(path))
    except PermissionError as e:
        folder = get_folder(settings)
        text = f"The sockets in {folder} belong to another user. Run this command as that user or as root."
        raise StartupError(text) from e


def connect(path: Path) -> socket.socket:
    """Return a connection to a unix socket, however long its path is.

    Raises:
        OSError: Nobody listens there, or this user may not connect.
    """
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(_FROZEN)
    try:
        with sockets.shorten_path(path) as name:
            line.connect(name)
    except OSError:
        line.close()
        raise
    return line


def listen_unix(settings: Settings) -> socket.socket:
    """Return the listening socket of this process; remove sockets of killed managers.

    Raises:
        OSError: The socket can't be created.
        StartupError: Other users have access to the folder.
    """
    sockets.make_folder(get_folder(settings))
    for _, path in _sockets(settings):
        if not _listens(path):
            path.unlink(missing_ok=True)
    path = get_socket_path(settings, os.getpid())
    # Name the socket after it listens: a named socket that refuses connections is a left-over.
    unnamed = path.with_suffix(".new")
    unnamed.unlink(missing_ok=True)
    line = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        with sockets.shorten_path(unnamed) as name:
            line.bind(name)
        line.listen(_BACKLOG)
        unnamed.rename(path)
    except OSError:
        line.close()
        raise
    finally:
        os.umask(before)
    return line


def listen_tcp(address: str) -> socket.socket:
    """Return a socket that listens on ``127.0.0.1:PORT`` or ``[::1]:PORT``; settings allow no other hosts.

    Raises:
        OSError: The port is taken.
    """
    host, _, port = address.rpartition(":")
    ip = ipaddress.ip_address(host.strip("[]"))
    line = socket.socket(socket.AF_INET6 if ip.version == 6 else socket.AF_INET)
    try:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        line.bind((str(ip), int(port)))
        line.listen(_BACKLOG)
    except OSError:
        line.close()
        raise
    return line


def load_token(settings: Settings) -> str:
    """Return the token of this data folder; create it if it doesn't exist.

    Raises:
        OSError: The file can't be created or read.
        StartupError: Other users can read the file, or it contains no token.
    """
    path = get_token_path(settings)
    with contextlib.suppress(FileExistsError):
        # Write the file before giving it its name: two managers may start at once.
        unnamed = path.with_name(f"{path.name}.{os.getpid()}")
        unnamed.unlink(missing_ok=True)
        with open(os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(_TOKEN_BYTES))
        try:
            os.link(unnamed, path)
        finally:
            unnamed.unlink()
    if path.stat().st_mode & 0o077:
        raise StartupError(
            f"Other users can read {path}. Remove the file, and the next start creates a new token."
        )
    text = path.read_text().strip()
    if len(text) < 2 * _TOKEN_BYTES:
        raise StartupError(
            f"{path} doesn't contain a valid token. Remove the file, and the next start creates a new token."
        )
    return text


def _sockets(settings: Settings) -> Iterator[tuple[int, Path]]:
    for path in get_folder(settings).glob(f"{_NAME}*{_ENDING}"):
        pid = path.name.removeprefix(_NAME).removesuffix(_ENDING)
        if pid.isascii() and pid.isdigit():
            yield int(pid), path


def _listens(path: Path) -> bool:
    try:
        connect(path).close()
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    except TimeoutError:
        pass
    return True
