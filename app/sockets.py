"""The folder of unix sockets, HOME/run: for this user alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from app.errors import StartupError


def make_folder(where: Path) -> None:
    """Make the folder; one that is there keeps its mode, as it may be the system's (EVENTR_HOME=/var).

    Raises:
        OSError: it cannot be made.
        StartupError: see :func:`require_own`.
    """
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_own(where)


def require_own(where: Path) -> None:
    """Check that a folder is there for this user alone.

    Raises:
        StartupError: it is a link, others can enter it, or it is somebody else's.
    """
    info = where.lstat()
    if info.st_uid not in (os.geteuid(), 0):
        raise StartupError(f"The folder {where} belongs to somebody else: set EVENTR_HOME to another folder.")
    if not stat.S_ISDIR(info.st_mode):
        raise StartupError(f"{where} is no folder, or a link: give EVENTR_HOME a folder of its own.")
    if info.st_mode & 0o077:
        raise StartupError(
            f"Others can enter the folder {where}: give EVENTR_HOME a folder of its own, "
            "or run chmod 700 on it if it is Eventr's."
        )
