"""Writing of ZIP files piece by piece, without the whole file or a whole member in memory."""

from __future__ import annotations

import datetime as dt
import io
import json
import zipfile
from collections.abc import Callable, Iterable
from typing import Any

from app.errors import TooLargeError

#: Bytes per piece: well below the size limit of MongoDB documents.
PIECE = 4 << 20
Sink = Callable[[bytes], None]


class ZipWriter:
    """Writes members one after the other; :meth:`close` passes on the rest.

    Args:
        sink: gets pieces of :data:`PIECE` bytes; the last one is shorter.
        max_bytes: the most bytes of all members together, uncompressed; below 2 GiB, so that old programs
            without the ZIP64 extension can read the file.
    """

    def __init__(self, sink: Sink, *, max_bytes: int, now: dt.datetime) -> None:
        self._out = _Pieces(sink)
        self._zip = zipfile.ZipFile(self._out, "w", zipfile.ZIP_DEFLATED, allowZip64=False, compresslevel=6)
        self._left = max_bytes
        self._time = (now.year, now.month, now.day, now.hour, now.minute, now.second)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._out.size

    @property
    def left(self) -> int:
        """Bytes that further members may have together, uncompressed."""
        return self._left

    def add_member(self, name: str, chunks: Iterable[bytes]) -> None:
        """Add a member.

        Args:
            name: a fixed name or one of ids, never with text typed by a user.

        Raises:
            TooLargeError: all members together exceed the limit.
        """
        info = zipfile.ZipInfo(name, self._time)
        info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
        with self._zip.open(info, "w") as member:
            for chunk in chunks:
                self._left -= len(chunk)
                if self._left < 0:
                    raise TooLargeError
                member.write(chunk)

    def add_rows(self, name: str, rows: Iterable[Any]) -> None:
        """Add a JSON array, one row per line; raises like :meth:`add_member`."""
        self.add_member(name, _lines(rows))

    def add_json(self, name: str, value: Any) -> None:
        """Add a JSON document; raises like :meth:`add_member`."""
        self.add_member(name, [_json(value, indent=1), b"\n"])

    def close(self) -> None:
        """Write the directory, and pass on the remaining bytes."""
        self._zip.close()
        self._out.finish()

    def discard_rest(self) -> None:
        """Stop passing on bytes: an abandoned ZIP file would otherwise still write its directory."""
        self._out.discard_rest()
        self._zip.close()


def _json(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=_plain).encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return dict(value)  # an immutable mapping


def _lines(rows: Iterable[Any]) -> Iterable[bytes]:
    before = b"[\n"
    for row in rows:
        yield before + _json(row)
        before = b",\n"
    yield b"[]\n" if before == b"[\n" else b"\n]\n"


class _Pieces(io.RawIOBase):
    """An unseekable file that is cut into pieces."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._kept = bytearray()
        self.size = 0
        self._abandoned = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._kept += data
        self.size += len(data)
        while len(self._kept) >= PIECE and not self._abandoned:
            self._sink(bytes(self._kept[:PIECE]))
            del self._kept[:PIECE]
        return len(data)

    def discard_rest(self) -> None:
        self._abandoned = True
        self._kept.clear()

    def finish(self) -> None:
        if self._kept:
            self._sink(bytes(self._kept))
            self._kept.clear()
