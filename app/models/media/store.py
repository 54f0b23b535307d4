"""Values of media stores."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """A stored file, or a range of it.

    Attributes:
        length: bytes of this piece.
        total: bytes of the whole file.
        descriptor: open file descriptor, to be read from ``first``; the receiver closes it. None: ``chunks``.
        first: offset of the piece in the file.
        chunks: the bytes, if there is no descriptor.
    """

    length: int
    total: int
    descriptor: int | None = None
    first: int = 0
    chunks: Iterator[bytes] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a store lists it: key, bytes, time of its last change."""

    key: str
    size: int
    changed: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class StoreSpace:
    """Space of a store, bytes."""

    free: int
    total: int
