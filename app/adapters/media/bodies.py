"""Pictures that wait to be drawn: files of the folder ``media/in``, which a worker reads and deletes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from pathlib import Path
from typing import BinaryIO

from app.adapters.media.home_id import read_home_id
from app.errors import NotFoundError, StoreError
from app.runtime.lazy import lazy

#: Names are ours: ids of sources and uploads, never the name that a client gave (security.md U01).
_NAME = re.compile(r"[0-9a-f]{32}")
_PART = 1 << 20


class DiskBodies:
    """Implements :class:`app.ports.PictureBodies`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @lazy
    def home(self) -> str:
        """The id of the EVENTR_HOME with these bodies; see :func:`read_home_id`."""
        return read_home_id(self._folder.parent)

    def put(self, name: str, source: BinaryIO) -> None:
        """Store a body; it is there as a whole, or not at all."""
        path = self.get_path(name)
        part = path.with_suffix(".part")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with open(part, "wb", opener=_open_safely) as file:
                shutil.copyfileobj(source, file, _PART)
            os.replace(part, path)
        except OSError as e:
            with contextlib.suppress(OSError):
                part.unlink()
            raise StoreError from e

    def get_path(self, name: str) -> Path:
        """Return the file of a body, which may be missing."""
        if not _NAME.fullmatch(name):
            raise NotFoundError
        return self._folder / name

    def delete(self, name: str) -> None:
        """Delete a body; a missing one is a success."""
        with contextlib.suppress(OSError):
            self.get_path(name).unlink()

    def delete_old(self, seconds: float) -> int:
        """Delete what has been waiting for longer than this; return how many files it was."""
        count, before = 0, time.time() - seconds
        with contextlib.suppress(FileNotFoundError):
            for path in list(self._folder.iterdir()):
                with contextlib.suppress(OSError):
                    if path.stat(follow_symlinks=False).st_mtime < before:
                        path.unlink()
                        count += 1
        return count


def _open_safely(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
