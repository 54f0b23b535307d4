"""Values of media stores."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Iterator

#: Keys of files, and of temporary files that an interrupted write left behind: shard, rest of the hash,
#: generation, name. Nothing else becomes a path or an address.
KEY = re.compile(r"[0-9a-f]{2}/[0-9a-f]{62}\.[0-9a-f]{10}/[a-z0-9]{1,16}(\.[0-9a-f]{8}\.tmp)?", re.ASCII)
SHARD = re.compile(r"[0-9a-f]{2}", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """A stored file, or a range of it; :mod:`app.runtime.pieces` reads and closes it.

    Attributes:
        length: bytes of this piece.
        total: bytes of the whole file.
        descriptor: open file descriptor, to be read from ``first``; the receiver closes it. None: ``chunks``.
        first: offset of the piece in the file.
        chunks: the bytes, if there is no descriptor; each chunk is fetched when it is needed.
        path: where a proxy finds the file below the folder that it serves; None: it doesn't.
    """

    length: int
    total: int
    descriptor: int | None = None
    first: int = 0
    chunks: Iterator[bytes] | None = None
    path: str | None = None


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


@dataclasses.dataclass(frozen=True, slots=True)
class StoreState:
    """A store as this process sees it.

    Attributes:
        name: the store's name, without credentials.
        space: its space; None: unknown, or it has no limit.
        failures: failures in a row.
        is_away: whether it is passed over.
        error: the last failure, a text for administrators; empty: it works.
    """

    name: str
    space: StoreSpace | None
    failures: int = 0
    is_away: bool = False
    error: str = ""


def require_key(key: str) -> str:
    """Return a key unchanged.

    Raises:
        ValueError: it isn't a key.
    """
    if not KEY.fullmatch(key):
        raise ValueError("not the key of a file")
    return key


def to_file_name(key: str) -> tuple[str, str]:
    """Return shard and file name of a key. A shard is one flat folder, so it can be listed at once."""
    shard, _, rest = require_key(key).partition("/")
    return shard, rest.replace("/", ".")


def from_file_name(shard: str, name: str) -> str | None:
    """Return the key of a file in a shard's folder; None: it isn't one of ours."""
    digits, _, rest = name.partition(".")
    generation, _, rest = rest.partition(".")
    key = f"{shard}/{digits}.{generation}/{rest}"
    return key if KEY.fullmatch(key) else None


def clamp_range(first: int, last: int | None, total: int) -> int:
    """Return how many bytes of a file are from ``first`` to ``last`` inclusive."""
    end = total if last is None else min(last + 1, total)
    return max(0, end - first)
