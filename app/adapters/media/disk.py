"""Files in folders of this machine: 256 flat shards."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from app.errors import MediaStoreError, NoSpaceError, NotFoundError
from app.models.media.store import (
    SHARD,
    Piece,
    StoredFile,
    StoreSpace,
    clamp_range,
    from_file_name,
    to_file_name,
)
from app.runtime.disk import measure_folder

#: Bytes that are written at once.
_CHUNK = 1 << 20
_UNMOUNTED = "the folder is missing"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class DiskStore:
    """Implements :class:`app.ports.MediaStore` in a folder.

    A file is written under another name, flushed, renamed, and then its folder is flushed. So after a crash
    it is there as a whole or not at all (security.md U09).

    Args:
        folder: it is created when it's needed.
        has_parents: create the folders above it as well. Without this, the missing folders of a disk that
            isn't mounted are an error.
        min_free: free space that must remain, in percent; 0: no limit.
        is_served: whether a proxy reads the files, under its own user of the same group.
    """

    is_local = True

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        has_parents: bool = False,
        min_free: float = 0,
        is_served: bool = False,
    ) -> None:
        self._folder, self._name, self._min_free = folder, name, min_free
        self._has_parents, self._is_served = has_parents, is_served

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._name

    def put(self, key: str, source: BinaryIO, size: int) -> None:
        """Store a file durably.

        Raises:
            NoSpaceError: the disk is full, or almost.
            MediaStoreError: the disk failed, or the source doesn't have ``size`` bytes.
        """
        shard, name = to_file_name(key)
        with _translate_errors():
            space = measure_folder(self._folder)
            if space and space.is_short(self._min_free):
                raise NoSpaceError
            with self._open_shard(shard) as folder:
                temporary = f"{name}.{secrets.token_hex(4)}.tmp"
                try:
                    self._write(folder, temporary, source, size)
                    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.unlink(temporary, dir_fd=folder)
                    raise
                os.fsync(folder)

    def _write(self, folder: int, name: str, source: BinaryIO, size: int) -> None:
        descriptor = os.open(name, _NEW, 0o600, dir_fd=folder)
        try:
            written = 0
            while chunk := source.read(_CHUNK):
                rest = memoryview(chunk)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                written += len(chunk)
            if written != size:
                raise MediaStoreError(reason="the source has another size")
            if self._is_served:
                os.fchmod(descriptor, 0o640)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _open_shard(self, shard: str) -> Iterator[int]:
        path = self._folder / shard
        try:
            descriptor = os.open(path, _FOLDER)
        except FileNotFoundError:
            self._create(path)
            descriptor = os.open(path, _FOLDER)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _create(self, path: Path) -> None:
        mode = 0o750 if self._is_served else 0o700
        parents = reversed(self._folder.absolute().parents) if self._has_parents else ()
        for folder in (*parents, self._folder, path):
            if folder.is_dir():
                continue
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode)
                folder.chmod(mode)  # whatever the umask
                if os.geteuid() == 0:
                    # A command that root runs must not lock out Eventr's own user.
                    above = folder.parent.stat()
                    os.chown(folder, above.st_uid, above.st_gid)
                _sync_folder(folder.parent)

    def open(self, key: str, first: int = 0, last: int | None = None) -> Piece:
        """Return a file, or its bytes from ``first`` to ``last`` inclusive.

        Raises:
            NotFoundError: there is no such file.
            MediaStoreError: the disk failed.
        """
        shard, name = to_file_name(key)
        with _translate_errors():
            try:
                descriptor = os.open(self._folder / shard / name, _OLD)
            except FileNotFoundError:
                self._require_folder()
                raise NotFoundError from None
            try:
                total = os.fstat(descriptor).st_size
            except OSError:
                os.close(descriptor)
                raise
        path = f"{shard}/{name}" if self._is_served else None
        return Piece(clamp_range(first, last, total), total, descriptor, first, path=path)

    def delete(self, key: str) -> None:
        """Delete a file; a missing one is a success.

        Raises:
            MediaStoreError: the disk failed, or the folder is missing.
        """
        shard, name = to_file_name(key)
        with _translate_errors():
            try:
                (self._folder / shard / name).unlink()
            except FileNotFoundError:
                self._require_folder()

    def _require_folder(self) -> None:
        # A disk that isn't mounted lacks the folder, and the file may be on it.
        if not self._folder.is_dir():
            raise MediaStoreError(reason=_UNMOUNTED)

    def list_files(self, shard: str) -> Iterator[StoredFile]:
        """Yield all files of a shard, temporary ones too.

        Raises:
            MediaStoreError: the disk failed.
        """
        if not SHARD.fullmatch(shard):
            raise ValueError("not a shard")
        with _translate_errors():
            try:
                entries = list(os.scandir(self._folder / shard))
            except FileNotFoundError:
                return
        for entry in entries:
            key = from_file_name(shard, entry.name)
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # deleted meanwhile
            except OSError as e:
                raise MediaStoreError from e
            if key is not None:
                changed = dt.datetime.fromtimestamp(found.st_mtime, dt.UTC)
                yield StoredFile(key, found.st_size, changed)

    def measure_space(self) -> StoreSpace | None:
        """Return the space of the disk."""
        space = measure_folder(self._folder)
        return StoreSpace(space.free, space.total) if space else None


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as e:
        raise MediaStoreError(reason=_UNMOUNTED) from e
    except OSError as e:
        raise (NoSpaceError if e.errno in _FULL else MediaStoreError) from e


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, _FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
