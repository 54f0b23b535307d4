"""Blobs: stored content that exists once, whatever refers to it.

A blob's id is the SHA-256 of the original bytes. Its files' names also carry a generation, so that a late
deletion never meets a file that was stored again.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import secrets
from collections.abc import Mapping
from pathlib import Path

#: Value of :attr:`Blob.references` while the blob's files are being deleted; only the cleaner sets it.
DELETING = -1
#: Bits of a generation.
GENERATION_BITS = 40
#: Name of the only file of a blob that isn't a picture.
ORIGINAL = "original"
#: Media type → extension of a downloaded file; other types are ``bin``.
EXTENSIONS: Mapping[str, str] = {
    "application/gzip": "gz",
    "application/ogg": "ogg",
    "application/pdf": "pdf",
    "application/zip": "zip",
    "audio/flac": "flac",
    "audio/mp4": "m4a",
    "audio/mpeg": "mp3",
    "image/avif": "avif",
    "image/bmp": "bmp",
    "image/gif": "gif",
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/svg+xml": "svg",
    "image/vnd.microsoft.icon": "ico",
    "image/webp": "webp",
    "text/plain": "txt",
    "video/mp4": "mp4",
    "video/webm": "webm",
}


class BlobKind(enum.StrEnum):
    """What a blob holds: a picture that Eventr has drawn, or a file as it came."""

    PICTURE = "picture"
    FILE = "file"


class Purpose(enum.StrEnum):
    """What a picture or file is for; it decides sizes, limits and who may see it."""

    ICON = "icon"
    AVATAR = "avatar"
    PICTURE = "picture"
    ATTACHMENT = "attachment"
    IMPORT = "import"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """Stored content.

    Attributes:
        id: SHA-256 of the original bytes, 32 bytes.
        generation: random number in the names of its files.
        old: generations whose files are still to be removed.
        references: the number of files, and of sources in state ready, that name it; :data:`DELETING`.
        touched: when a reference last came or went.
        size: bytes of the original.
        type: media type, from its bytes.
        width, height: of a picture after its orientation is applied, pixels; else None.
        color: mean color of a picture, as ``#rrggbb``.
        frames: 1, or more for an animation.
        recipe: version of the code that drew it.
        names: name of each stored file → its bytes.
        copies: names of the stores that have all its files.
        missing: names of the stores that lack it.
        lost: whether a file was found to be in no store; its next use stores all files anew.
    """

    id: bytes
    generation: int
    kind: BlobKind
    size: int
    type: str
    references: int = 1
    touched: dt.datetime | None = None
    old: tuple[int, ...] = ()
    width: int | None = None
    height: int | None = None
    color: str | None = None
    frames: int = 1
    recipe: int = 0
    names: Mapping[str, int] = dataclasses.field(default_factory=dict)
    copies: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    lost: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Content to be stored as a blob; the attributes are those of :class:`Blob`.

    Attributes:
        files: name → a file to read, or the bytes themselves.
    """

    id: bytes
    kind: BlobKind
    size: int
    type: str
    files: Mapping[str, Path | bytes]
    width: int | None = None
    height: int | None = None
    color: str | None = None
    frames: int = 1
    recipe: int = 0


def draw_generation() -> int:
    """Return a new random generation."""
    return secrets.randbits(GENERATION_BITS)


def build_prefix(blob_id: bytes, generation: int) -> str:
    """Return the beginning of the keys of a generation's files: shard, rest of the hash, generation."""
    name = blob_id.hex()
    return f"{name[:2]}/{name[2:]}.{generation:010x}/"


def build_key(blob_id: bytes, generation: int, name: str) -> str:
    """Return the key of a file in a store."""
    return build_prefix(blob_id, generation) + name


def split_key(key: str) -> tuple[bytes, int, str] | None:
    """Return blob id, generation and name of a key; None if it is not one of ours."""
    shard, _, rest = key.partition("/")
    folder, _, name = rest.partition("/")
    digits, _, generation = folder.partition(".")
    try:
        blob_id, number = bytes.fromhex(shard + digits), int(generation, 16)
    except ValueError:
        return None
    return (blob_id, number, name) if build_key(blob_id, number, name) == key and len(blob_id) == 32 else None
