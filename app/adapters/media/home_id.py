"""The id of a folder ``media``: it says which server has the bytes that wait there."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from pathlib import Path
from typing import Final

from app.errors import StoreError

NAME: Final = "home_id"
#: The file system has no links.
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def read_home_id(folder: Path) -> str:
    """Return the id of a folder; it is written at the first use, once, and never again.

    Servers that share the folder read the same id.

    Raises:
        StoreError: the disk is full or refuses.
    """
    path = folder / NAME
    try:
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            _write_once(path)
        return path.read_text("ascii").strip()
    except (OSError, ValueError) as e:
        raise StoreError from e


def _write_once(path: Path) -> None:
    """Write a new id as a whole, unless someone else was first."""
    part = path.with_suffix(f".{secrets.token_hex(4)}")
    try:
        with part.open("x", encoding="ascii") as file:
            file.write(secrets.token_hex(16))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, path)
        except FileExistsError:
            pass
        except OSError as e:
            if e.errno not in _NO_LINKS:
                raise
            _copy_once(part, path)
    finally:
        part.unlink(missing_ok=True)


def _copy_once(part: Path, path: Path) -> None:
    """Move an id to its place on a file system without links, unless someone else was first."""
    with open(path.with_suffix(".lock"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            os.replace(part, path)
