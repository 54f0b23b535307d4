"""The shelf: copies on this disk of files that came from stores on other servers."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from app import logs
from app.models.media.store import Piece, clamp_range, to_file_name
from app.runtime.pieces import read_piece

log = logs.get(__name__)

#: Largest file with a copy, in bytes and as a part of the space. Copying makes the reader wait, so larger
#: ones are sent as they come, each time. Pictures are smaller.
_LARGEST, _LARGEST_PART = 4 << 20, 16
#: Part of the space that a process adds before it looks at the space again.
_BETWEEN_PART = 20
#: Space that remains in use after a look, percent.
_REMAINING: Final = 90
#: Seconds that an unused copy stays: files that were deleted elsewhere are gone from all shelves after that.
KEPT_SECONDS: Final = 86_400.0
#: Seconds between two looks, even if little was added.
_LOOK_SECONDS: Final = 3600.0
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Copy(NamedTuple):
    used: float
    size: int
    path: str


class Shelf:
    """A folder with copies of files; those that weren't used for longest make room for others.

    Several processes share it. Each adds at most a twentieth of the space before it looks at the whole. So
    the limit may be exceeded by that part for each process.

    Args:
        space: bytes of all copies.
        get_time: seconds since 1970.
    """

    def __init__(self, folder: Path, space: int, *, get_time: Callable[[], float] = time.time) -> None:
        self._folder, self._space, self._get_time = folder, space, get_time
        self._lock = threading.Lock()
        self._added = space  # the first copy makes it look
        self._looked = 0.0

    def can_hold(self, size: int) -> bool:
        """Return whether a file of this size gets a copy."""
        return size <= min(_LARGEST, self._space // _LARGEST_PART)

    def find(self, key: str, first: int = 0, last: int | None = None) -> Piece | None:
        """Return a copy of a file, or a range of it; None: there is none."""
        try:
            descriptor = os.open(self._build_path(key), _READ)
        except OSError:
            return None
        with contextlib.suppress(OSError):
            os.utime(descriptor, (self._get_time(),) * 2)
        total = os.fstat(descriptor).st_size
        return Piece(clamp_range(first, last, total), total, descriptor, first)

    def add_copy(self, key: str, piece: Piece) -> Piece:
        """Copy a whole file; return the copy, or the piece itself if there's no room on the disk.

        Raises:
            MediaStoreError: the store failed in the middle.
        """
        path = self._build_path(key)
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
        body = b"".join(read_piece(piece))
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(temporary, _NEW, 0o600)
        except OSError as e:
            return self._give_up(e, body)
        try:
            rest = memoryview(body)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            # Otherwise a file of zeros could have this name after a power failure.
            os.utime(descriptor, (self._get_time(),) * 2)
            os.fdatasync(descriptor)
            os.rename(temporary, path)
        except OSError as e:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                temporary.unlink()
            return self._give_up(e, body)
        self._record(len(body))
        return Piece(len(body), len(body), descriptor)

    def remove(self, key: str) -> None:
        """Remove the copy of a file, if there is one."""
        with contextlib.suppress(OSError):
            self._build_path(key).unlink()

    def _give_up(self, error: OSError, body: bytes) -> Piece:
        log.warning("media_shelf_failed", error=error.strerror or "")
        return Piece(len(body), len(body), chunks=iter((body,)))

    def _build_path(self, key: str) -> Path:
        shard, name = to_file_name(key)
        return self._folder / f"{shard}{name}"

    def _record(self, size: int) -> None:
        now = self._get_time()
        with self._lock:
            self._added += size
            if self._added < self._space // _BETWEEN_PART and now < self._looked + _LOOK_SECONDS:
                return
            self._added, self._looked = 0, now
        self._make_room(now)

    def _make_room(self, now: float) -> None:
        copies = []
        for entry in os.scandir(self._folder):
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                copies.append(_Copy(found.st_mtime, found.st_size, entry.path))
        total, limit = sum(copy.size for copy in copies), self._space * _REMAINING // 100
        for copy in sorted(copies):
            if total <= limit and copy.used > now - KEPT_SECONDS:
                break
            with contextlib.suppress(OSError):
                os.unlink(copy.path)
                total -= copy.size
