"""Reading and closing pieces of stored files."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any

from app.models.media.store import Piece

#: Bytes that are read from a file at once.
CHUNK_BYTES = 128 << 10


def read_piece(piece: Piece) -> Iterator[bytes]:
    """Yield the bytes of a piece, and close it at the end, or when the generator is closed.

    Raises:
        MediaStoreError: the store failed in the middle.
        OSError: the disk failed, or the file was cut off.
    """
    try:
        if piece.descriptor is None:
            yield from piece.chunks or ()
            return
        position, rest = piece.first, piece.length
        while rest:
            chunk = os.pread(piece.descriptor, min(rest, CHUNK_BYTES), position)
            if not chunk:
                raise OSError("the file ends too early")
            yield chunk
            position, rest = position + len(chunk), rest - len(chunk)
    finally:
        close_piece(piece)


def close_piece(piece: Piece) -> None:
    """Free what a piece holds. Call this once, and only if :func:`read_piece` wasn't begun."""
    if piece.descriptor is not None:
        os.close(piece.descriptor)
    close = getattr(piece.chunks, "close", None)
    if close is not None:
        close()


class PieceReader(io.RawIOBase):
    """A piece as a binary file, for a store to read; closing it closes the piece."""

    def __init__(self, piece: Piece) -> None:
        self._chunks = read_piece(piece)
        self._rest = memoryview(b"")
        self._piece: Piece | None = piece

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer; return the number of bytes, 0 at the end."""
        if not self._rest:
            self._piece = None  # the generator closes it
            self._rest = memoryview(next(self._chunks, b""))
        count = min(len(self._rest), len(buffer))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        """Close the piece."""
        if self._piece is not None:
            close_piece(self._piece)
            self._piece = None
        self._chunks.close()  # type: ignore[attr-defined]
        super().close()
