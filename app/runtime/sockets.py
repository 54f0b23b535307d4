"""Unix sockets: their folder, HOME/run, is for this user alone, and their names may be long."""

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
    """Make the folder; one that is there keeps its mode, as it may be the system's (EVENTR_HOME=/var).

    Raises:
        OSError: it cannot be made.
        StartupError: see :func:`require_own`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_private(folder)


def require_private(folder: Path, uid: int | None = None) -> None:
    """Check that a folder is there for this user alone, or for the one with this number.

    Raises:
        StartupError: others can enter it, or it, or the link to it, is somebody else's.
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


@contextlib.contextmanager
def shorten_path(path: Path) -> Iterator[str]:
    """Give a name that fits into sun_path: a long one is reached through its opened folder.

    Raises:
        OSError: the folder of a long one cannot be opened.
    """
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    opened = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}/{path.name}"
    finally:
        os.close(opened)
