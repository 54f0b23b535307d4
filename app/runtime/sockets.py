"""Unix sockets: their folder, HOME/run, is private to this user, and their paths may be long."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from app.errors import StartupError

#: sun_path of a unix socket holds 108 bytes with its final NUL (unix(7)).
_LONGEST = 107


def make_folder(folder: Path) -> None:
    """Create the folder; an existing one keeps its mode, because it may be the system's (EVENTR_HOME=/var).

    Raises:
        OSError: the folder can't be created.
        StartupError: see :func:`require_private`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_private(folder)


def require_private(folder: Path, uid: int | None = None) -> None:
    """Check that a folder is private to this user, or to the user with this uid.

    Raises:
        StartupError: others can enter it, or another user owns it or the link to it.
    """
    link, info = folder.lstat(), folder.stat()
    if not {link.st_uid, info.st_uid} <= {os.geteuid() if uid is None else uid, 0}:
        raise StartupError(f"The folder {folder} belongs to another user. Set EVENTR_HOME to another folder.")
    if not stat.S_ISDIR(info.st_mode):
        raise StartupError(f"{folder} isn't a folder. Set EVENTR_HOME to a folder that only Eventr uses.")
    if info.st_mode & 0o077:
        raise StartupError(
            f"Other users can open the folder {folder}. If only Eventr uses the folder, run "
            "chmod 700 on it. Otherwise, set EVENTR_HOME to another folder."
        )


def is_private(path: Path) -> bool:
    """Return whether a socket belongs to this user, and nobody else may open it.

    Raises:
        OSError: there is no such socket.
    """
    info = path.stat()
    return info.st_uid == os.geteuid() and not info.st_mode & 0o077


@contextlib.contextmanager
def shorten_path(path: Path) -> Iterator[str]:
    """Yield a path that fits into sun_path: a long one goes through its opened folder.

    Raises:
        OSError: the folder of a long path can't be opened.
    """
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    opened = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}/{path.name}"
    finally:
        os.close(opened)
