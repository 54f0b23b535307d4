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

#: Names are ours: ids of sources, or what a picture is for and a random number; never the name that a client
#: gave (security.md U01).
_NAME = re.compile(r"(?:([a-z]+-[0-9]{1,19})-)?[0-9a-f]{32}")
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

    def delete_older(self, name: str) -> None:
        """Delete what came before a body for the same subject, whose part of the name is the same."""
        with contextlib.suppress(OSError):
            newest = self.get_path(name).stat().st_mtime_ns
            for path in self._list_of(name.rpartition("-")[0]):
                with contextlib.suppress(OSError):
                    if path.stat(follow_symlinks=False).st_mtime_ns < newest:
                        path.unlink()

    def delete_of(self, subject: str) -> None:
        """Delete all bodies of a subject."""
        for path in self._list_of(subject):
            with contextlib.suppress(OSError):
                path.unlink()

    def list_waiting(self, seconds: float) -> list[tuple[str, str]]:
        """Return (subject, name) of the bodies with a subject that have waited for longer than this."""
        found, before = [], time.time() - seconds
        for path in self._list():
            match = _NAME.fullmatch(path.name)
            with contextlib.suppress(OSError):
                if match and match[1] and path.stat(follow_symlinks=False).st_mtime < before:
                    found.append((match[1], path.name))
        return found

    def _list(self) -> list[Path]:
        try:
            return list(self._folder.iterdir())
        except FileNotFoundError:
            return []

    def _list_of(self, subject: str) -> list[Path]:
        names = ((path, _NAME.fullmatch(path.name)) for path in self._list())
        return [path for path, match in names if subject and match and match[1] == subject]

    def delete_old(self, seconds: float) -> int:
        """Delete what has been waiting for longer than this; return how many files it was."""
        count, before = 0, time.time() - seconds
        for path in self._list():
            with contextlib.suppress(OSError):
                if path.stat(follow_symlinks=False).st_mtime < before:
                    path.unlink()
                    count += 1
        return count


def _open_safely(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
