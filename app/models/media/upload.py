"""Uploads in progress (tus 1.0), and the storage that a user takes."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import re

from app.models.media.blob import Purpose

#: Ids are ours: nothing else reaches a path (security.md U01).
UPLOAD_ID = re.compile(r"[0-9a-f]{32}")


class UploadState(enum.StrEnum):
    """States of an upload.

    OPEN: parts arrive. SEALING: complete, a job stores it. DONE, FAILED: ended. GONE: deleted or expired.
    """

    OPEN = "open"
    SEALING = "sealing"
    DONE = "done"
    FAILED = "failed"
    GONE = "gone"


#: Purposes whose files are drawn.
DRAWN = frozenset({Purpose.AVATAR, Purpose.PICTURE})
#: Checksum algorithms of parts; the first is preferred.
DIGESTS = ("sha256", "sha1")
#: States of uploads whose bytes still count as reserved.
ACTIVE = (UploadState.OPEN, UploadState.SEALING)
#: Bytes that an upload without a declared size reserves at a time.
RESERVED_STEP = 16 << 20
#: Longest name of an upload, characters; it is only a text, never a part of a path.
NAME_MAX = 255
#: Longest metadata of an upload, characters.
METADATA_MAX = 4096


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An upload.

    Attributes:
        id: 32 hexadecimal digits.
        size: declared bytes, None: not known yet.
        reserved: bytes that it takes from the quota while it is open.
        received: bytes that were counted as unfinished; the file's own length is the offset.
        claimed: SHA-256 that the client announced.
        metadata: what the client said of it, returned to the client as it came.
        file_id: the file that it became.
        error: error word, if it failed.
        expires: when it is removed unless another part arrives; parts since the last count are not in it.
        ended: when it was stored, failed, deleted or expired.
        home: id of the EVENTR_HOME that has its bytes; None: it was begun by an earlier version.
    """

    id: str
    user_id: int
    purpose: Purpose
    name: str
    size: int | None
    reserved: int
    received: int
    state: UploadState
    created: dt.datetime
    expires: dt.datetime
    claimed: bytes | None = None
    metadata: str = ""
    file_id: int | None = None
    error: str | None = None
    ended: dt.datetime | None = None
    home: str | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether it becomes a picture, of which the original isn't kept (security.md U08)."""
        return self.purpose in DRAWN


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewUpload:
    """What a client says about a file before it uploads it; see :class:`Upload`."""

    size: int | None
    name: str = ""
    purpose: Purpose = Purpose.ATTACHMENT
    claimed: bytes | None = None
    metadata: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class UploadStatus:
    """An upload and its offset: how many bytes have arrived, and until when the next ones may come."""

    upload: Upload
    offset: int
    expires: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class StagedFile:
    """The file of an upload in progress: its bytes, and when the last of them came."""

    size: int
    changed: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class PartDigest:
    """The checksum of a part.

    Attributes:
        algorithm: as in :data:`DIGESTS`.
        value: the digest.
    """

    algorithm: str
    value: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """Storage of a user, bytes.

    Attributes:
        finished: size of all files; what the user sees.
        reserved: declared sizes of open uploads; the quota applies to ``finished + reserved``.
        unfinished: received parts of open uploads; with ``finished``, what the server stores.
        quota: the user's own quota, None: the server's default; 0: none.
    """

    finished: int = 0
    reserved: int = 0
    unfinished: int = 0
    quota: int | None = None

    def get_limit(self, default: int) -> int:
        """Return the quota that applies, bytes; 0: no limit."""
        return default if self.quota is None else self.quota


def reserve_steps(size: int) -> int:
    """Return what an upload without a declared size reserves to hold ``size`` bytes."""
    return max(1, -(-size // RESERVED_STEP)) * RESERVED_STEP
