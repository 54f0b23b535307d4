"""Writes a zip file piece by piece: neither the file nor one of its members is ever in memory as a whole."""

from __future__ import annotations

import datetime as dt
import io
import json
import zipfile
from collections.abc import Callable, Iterable
from typing import Any

from app.errors import TooLargeError

#: Bytes of a piece: well below what a document of MongoDB holds.
PIECE = 4 << 20
Sink = Callable[[bytes], None]


class ZipWriter:
    """Members go in one after the other; :meth:`close` gives the rest away.

    Args:
        sink: takes pieces of :data:`PIECE` bytes, the last one shorter.
        most: bytes of all members together, before they are packed; below 2 GiB, so that the file needs none
            of the extensions that old programs do not read.
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

    def add_member(self, name: str, chunks: Iterable[bytes]) -> None:
        """Add a member.

        Args:
            name: one of ours; nothing that anybody has typed may be in it.

        Raises:
            TooLargeError: all members together are larger than they may be.
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
        """Add a JSON array, one row per line; raises as :meth:`add`."""
        self.add_member(name, _lines(rows))

    def add_json(self, name: str, value: Any) -> None:
        """Add a JSON document; raises as :meth:`add`."""
        self.add_member(name, [_json(value, indent=1), b"\n"])

    def close(self) -> None:
        """Write the directory, and give away what is left."""
        self._zip.close()
        self._out.finish()

    def discard_rest(self) -> None:
        """Give nothing more away: a zip file that is just let go of would still write its directory."""
        self._out.discard_rest()
        self._zip.close()


def _json(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=_plain).encode("utf-8", "replace")


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return dict(value)  # a mapping that nobody can change


def _lines(rows: Iterable[Any]) -> Iterable[bytes]:
    before = b"[\n"
    for row in rows:
        yield before + _json(row)
        before = b",\n"
    yield b"[]\n" if before == b"[\n" else b"\n]\n"


class _Pieces(io.RawIOBase):
    """A file that cannot be sought in, cut into pieces."""

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
