"""Files of uploads in progress: ``home/media/up/YYYY-MM-DD/<id>`` (security.md U01, U04).

A file is opened by its id inside an open folder, never through a link. Its length after ``fdatasync`` is the
upload's offset. Appending never creates a file, so a deleted upload stays deleted. A lock is held while bytes
are written, but not while they arrive.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from app.adapters.media.home_id import read_home_id
from app.errors import ChecksumError, NoSpaceError, NotFoundError, OffsetError
from app.models.media.upload import UPLOAD_ID, PartDigest, StagedFile, Upload
from app.ports import PartSource
from app.runtime.lazy import lazy

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC
#: Bytes that are read at once where the kernel can't copy.
_CHUNK: Final = 1 << 20
#: The file systems of source and target differ, or can't copy between files.
_CANNOT_COPY: Final = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF)
#: The disk is full or broken.
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class FolderStaging:
    """Keeps the files below one folder; see :class:`app.ports.UploadStaging`.

    Args:
        folder: it needn't exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @lazy
    def home(self) -> str:
        """The id of the EVENTR_HOME with these files; see :func:`read_home_id`."""
        return read_home_id(self._folder.parent)

    def create(self, upload: Upload) -> None:
        """Create the empty file of a new upload."""
        day = _get_day(upload)
        with _as_full_disk():
            (self._folder / day).mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._open_day(day) as folder:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
                os.close(os.open(_check_id(upload.id), flags, 0o600, dir_fd=folder))
                os.fsync(folder)

    def append(
        self,
        upload: Upload,
        offset: int,
        source: PartSource | bytes,
        *,
        digest: PartDigest | None = None,
        part_start: int | None = None,
    ) -> int:
        """Append a part or slice durably and return the new length; see the port for the errors."""
        start = offset if part_start is None else part_start
        if digest is not None and start == offset and not _matches(source, digest):
            raise ChecksumError
        with self._lock(upload, os.O_RDWR) as (file, length):
            if length != offset:
                raise OffsetError(offset=length)
            # Before the last slice is written: a file with the whole length may be stored at any moment.
            if digest is not None and start < offset and not _matches(source, digest, file, start, offset):
                os.ftruncate(file, start)
                os.fdatasync(file)
                raise ChecksumError
            try:
                with _as_full_disk():
                    end = offset + _write(file, offset, source)
                    os.fdatasync(file)
            except BaseException:
                # What wasn't confirmed isn't counted: the length is the offset.
                with contextlib.suppress(OSError):
                    os.ftruncate(file, offset)
                raise
            return end

    def truncate_file(self, upload: Upload, size: int, expected: int) -> None:
        """Cut the file to ``size`` bytes if it has ``expected`` bytes."""
        with self._lock(upload, os.O_WRONLY) as (file, length):
            if length == expected:
                os.ftruncate(file, size)
                os.fdatasync(file)

    def measure(self, upload: Upload) -> StagedFile | None:
        """Return length and time of the last part; None: there is no such file on this machine."""
        try:
            with self._open(upload, os.O_RDONLY) as file:
                found = os.fstat(file)
        except NotFoundError:
            return None
        return StagedFile(found.st_size, dt.datetime.fromtimestamp(found.st_mtime, dt.UTC))

    @contextlib.contextmanager
    def open(self, upload: Upload) -> Iterator[Path]:
        """Return a path to the file's bytes, which stays the same file whatever happens to its name."""
        with self._open(upload, os.O_RDONLY) as file:
            yield Path(f"/proc/self/fd/{file}")

    def remove(self, upload: Upload) -> None:
        """Delete the file; a missing one is a success."""
        # Under the lock, so that no part is being written: the next one finds the file gone.
        with (
            contextlib.suppress(NotFoundError),
            self._lock(upload, os.O_RDONLY),
            self._open_day(_get_day(upload)) as folder,
        ):
            os.unlink(upload.id, dir_fd=folder)

    def list_days(self) -> list[dt.date]:
        """Return the days of which there are files, oldest first."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        return sorted(dt.date.fromisoformat(name) for name in names if _is_day(name))

    def list_ids(self, day: dt.date) -> list[str]:
        """Return the uploads of a day that have files."""
        try:
            with self._open_day(day.isoformat()) as folder:
                return sorted(name for name in os.listdir(folder) if UPLOAD_ID.fullmatch(name))
        except NotFoundError:
            return []

    def remove_day(self, day: dt.date, keep: Collection[str]) -> int:
        """Delete the files of a day except those of the uploads in ``keep``; return how many."""
        removed = 0
        with contextlib.suppress(NotFoundError), self._open_day(day.isoformat()) as folder:
            for name in self.list_ids(day):
                if name not in keep:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder)
                        removed += 1
        with contextlib.suppress(OSError):
            (self._folder / day.isoformat()).rmdir()
        return removed

    @contextlib.contextmanager
    def _open_day(self, day: str) -> Iterator[int]:
        with _as_missing():
            folder = os.open(self._folder / day, _FOLDER)
        try:
            yield folder
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def _open(self, upload: Upload, flags: int) -> Iterator[int]:
        with self._open_day(_get_day(upload)) as folder, _as_missing():
            file = os.open(_check_id(upload.id), flags | _FILE, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise NotFoundError
            yield file
        finally:
            os.close(file)

    @contextlib.contextmanager
    def _lock(self, upload: Upload, flags: int) -> Iterator[tuple[int, int]]:
        """Lock a file; yield its descriptor and its length. Other processes wait, but only for a write."""
        with self._open(upload, flags) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            found = os.fstat(file)
            if not found.st_nlink:
                raise NotFoundError  # deleted while this call waited
            yield file, found.st_size


def _check_id(upload_id: str) -> str:
    if not UPLOAD_ID.fullmatch(upload_id):
        raise NotFoundError
    return upload_id


def _get_day(upload: Upload) -> str:
    return upload.created.astimezone(dt.UTC).date().isoformat()


def _is_day(name: str) -> bool:
    try:
        return bool(_DAY.fullmatch(name) and dt.date.fromisoformat(name))
    except ValueError:
        return False


@contextlib.contextmanager
def _as_missing() -> Iterator[None]:
    try:
        yield
    except OSError as e:
        # ELOOP and ENOTDIR: someone put a link there, which is never followed.
        if e.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            raise NotFoundError from e
        raise


@contextlib.contextmanager
def _as_full_disk() -> Iterator[None]:
    try:
        yield
    except OSError as e:
        if e.errno in _FULL:
            raise NoSpaceError from e
        raise


def _write(file: int, offset: int, source: PartSource | bytes) -> int:
    """Write a part at ``offset``; return its bytes."""
    if isinstance(source, bytes):
        _write_all(file, source, offset)
        return len(source)
    done = 0
    while done < source.size:
        count = _copy(source, done, file, offset + done)
        if not count:
            break  # the source is shorter than it said: what is there counts
        done += count
    return done


def _copy(source: PartSource, done: int, file: int, offset: int) -> int:
    left = source.size - done
    try:
        return os.copy_file_range(source.descriptor, file, left, done, offset)
    except OSError as e:
        if e.errno not in _CANNOT_COPY:
            raise
    data = os.pread(source.descriptor, min(left, _CHUNK), done)
    _write_all(file, data, offset)
    return len(data)


def _write_all(file: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, offset)
        rest, offset = rest[written:], offset + written


def _matches(
    source: PartSource | bytes, digest: PartDigest, file: int = -1, first: int = 0, end: int = 0
) -> bool:
    """Return whether the bytes of a file from ``first`` to ``end``, and then the source, match a checksum."""
    found = hashlib.new(digest.algorithm, usedforsecurity=False)
    for data in _read(file, first, end):
        found.update(data)
    for data in [source] if isinstance(source, bytes) else _read(source.descriptor, 0, source.size):
        found.update(data)
    return found.digest() == digest.value


def _read(file: int, first: int, end: int) -> Iterator[bytes]:
    while first < end and (data := os.pread(file, min(_CHUNK, end - first), first)):
        yield data
        first += len(data)
