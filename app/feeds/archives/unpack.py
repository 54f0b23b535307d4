"""ZIP archives and packed files, read piece by piece within limits.

An archive is someone's file: its directory may be huge, its members may be bombs, and what it says about
their sizes may be wrong. Names of members only tell formats apart; nothing is written to disk.
"""

from __future__ import annotations

import contextlib
import dataclasses
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final, Protocol

from app.config import Settings
from app.errors import InvalidError, TooLargeError

#: Bytes per piece.
PIECE: Final = 64 << 10
#: Bytes that even a tiny member may hold, whatever its ratio.
_SLACK: Final = 1 << 20
#: Bytes of the directory per member that may be in it.
_DIRECTORY: Final = 300
_ENCRYPTED: Final = 0x1
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ZIP, _EMPTY_ZIP, _GZIP = b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b"


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of an archive; see the settings ``archive_…``."""

    members: int = 10_000
    bytes: int = 2 << 30
    ratio: int = 100
    entries: int = 100_000

    @classmethod
    def from_settings(cls, settings: Settings) -> Limits:
        """Read the bounds from the settings."""
        return cls(
            settings.archive_members_max,
            settings.archive_bytes_max,
            settings.archive_ratio_max,
            settings.archive_entries_max,
        )


class Readable(Protocol):
    """The bytes of a member."""

    def read(self, size: int = PIECE, /) -> bytes:
        """Return the next bytes, at most ``size``; none at the end."""
        ...


class Budget:
    """The bytes that may still be unpacked, of the whole archive.

    Args:
        packed: size of the archive.
    """

    def __init__(self, limits: Limits, packed: int) -> None:
        self._limit = limits.bytes
        self._left = min(limits.bytes, packed * limits.ratio + _SLACK)

    def count_bytes(self, count: int) -> None:
        """Count unpacked bytes.

        Raises:
            TooLargeError: there are more than the archive may hold.
        """
        self._left -= count
        if self._left < 0:
            raise build_size_error(self._limit)


def build_size_error(limit: int) -> TooLargeError:
    """Return the error about an archive that unpacks to more than ``limit`` bytes."""
    return TooLargeError(
        "This archive unpacks to more data than Eventr accepts (%(mb)s MB). Export less at once.",
        mb=max(1, limit >> 20),
    )


def build_damage_error() -> InvalidError:
    """Return the error about an archive that is damaged."""
    return InvalidError("This archive is incomplete or damaged. Export it again and upload the new file.")


class Bounded:
    """A member's bytes, counted as they are read.

    Args:
        packed: bytes that the member takes in the archive.
    """

    def __init__(self, source: Readable, budget: Budget, limits: Limits, packed: int) -> None:
        self._source, self._budget = source, budget
        self._most, self._size = packed * limits.ratio + _SLACK, limits.bytes

    def read(self, size: int = PIECE, /) -> bytes:
        """Return the next bytes.

        Raises:
            InvalidError: the member is damaged.
            TooLargeError: it unpacks to too much.
        """
        with _translate():
            found = self._source.read(PIECE if size < 0 else min(size, PIECE))
        self._budget.count_bytes(len(found))
        self._most -= len(found)
        if self._most < 0:
            raise build_size_error(self._size)
        return found


@contextlib.contextmanager
def _translate() -> Iterator[None]:
    try:
        yield
    # What zipfile raises for damaged archives is more than BadZipFile.
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        OverflowError,
        UnicodeError,
        ValueError,
    ) as e:
        raise build_damage_error() from e
    except (NotImplementedError, RuntimeError) as e:
        raise _build_method_error() from e


def _build_method_error() -> InvalidError:
    return InvalidError(
        "This archive is packed in a way that Eventr can't read. Unpack it and pack it as a plain ZIP file."
    )


class _Guarded:
    """The file of a ZIP archive for :mod:`zipfile`, which reads the whole directory at once."""

    def __init__(self, file: BinaryIO, limit: int, members: int) -> None:
        self._file, self._limit, self._members = file, limit, members

    def read(self, size: int = -1, /) -> bytes:
        if size > self._limit:
            raise _build_count_error(self._members)
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True


def _build_count_error(limit: int) -> TooLargeError:
    return TooLargeError("This archive has more than %(limit)s files.", limit=limit)


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive.

    Attributes:
        name: last part of its name, in lower case; it is never part of a path.
    """

    name: str
    info: zipfile.ZipInfo | None


class Package:
    """An uploaded file: a ZIP archive, or one file that may be packed with gzip.

    Args:
        file: open for reading and seekable; the caller closes it.

    Raises:
        InvalidError: it is damaged, or encrypted.
        TooLargeError: it has too many members.
    """

    def __init__(self, file: BinaryIO, limits: Limits) -> None:
        self._file, self._limits = file, limits
        size = file.seek(0, 2)
        file.seek(0)
        head = file.read(4)
        self._budget = Budget(limits, size)
        self._size = size
        self._is_packed = head.startswith(_GZIP)
        #: Whether it is a ZIP archive.
        self.is_zip = head in (_ZIP, _EMPTY_ZIP)
        self._zip = self._open_zip() if self.is_zip else None

    def _open_zip(self) -> zipfile.ZipFile:
        limit = self._limits.members
        guarded = _Guarded(self._file, max(PIECE, limit * _DIRECTORY), limit)
        with _translate():
            found = zipfile.ZipFile(guarded)
        if len(found.infolist()) > limit:
            raise _build_count_error(limit)
        archive: zipfile.ZipFile = found
        return archive

    def list_members(self) -> list[Member]:
        """Return all files, without folders.

        Raises:
            InvalidError: a member is encrypted or packed in an unknown way.
            TooLargeError: the members say that they are too large.
        """
        if self._zip is None:
            return [Member("", None)]
        infos = [info for info in self._zip.infolist() if not info.is_dir()]
        for info in infos:
            if info.flag_bits & _ENCRYPTED:
                raise InvalidError("This archive is encrypted. Upload it without a password.")
            if info.compress_type not in _METHODS:
                raise _build_method_error()
            if info.file_size > info.compress_size * self._limits.ratio + _SLACK:
                raise build_size_error(self._limits.bytes)
        if sum(info.file_size for info in infos) > self._limits.bytes:
            raise build_size_error(self._limits.bytes)
        return [Member(info.filename.replace("\\", "/").rpartition("/")[2].lower(), info) for info in infos]

    @contextlib.contextmanager
    def open(self, member: Member) -> Iterator[Readable]:
        """Open a member while the block runs; its bytes raise what :class:`Bounded` raises."""
        if self._zip is None or member.info is None:
            self._file.seek(0)
            source: Readable = _Inflated(self._file) if self._is_packed else self._file
            yield Bounded(source, self._budget, self._limits, self._size)
            return
        with _translate():
            opened = self._zip.open(member.info)
        with opened:
            yield Bounded(opened, self._budget, self._limits, member.info.compress_size)

    def read_head(self, member: Member, size: int) -> bytes:
        """Return the first bytes of a member, whose bytes don't count yet."""
        head = b""
        with self.open(member) as opened:
            while len(head) < size and (piece := opened.read(size - len(head))):
                head += piece
                self._budget.count_bytes(-len(piece))
        return head


class _Inflated:
    """A file packed with gzip, unpacked as it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)

    def read(self, size: int = PIECE, /) -> bytes:
        while not self._inflater.eof:
            packed = self._inflater.unconsumed_tail or self._file.read(PIECE)
            if not packed:
                raise EOFError
            if found := self._inflater.decompress(packed, size):
                return found
        return b""
