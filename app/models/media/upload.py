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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An upload.

    Attributes:
        id: 32 hexadecimal digits.
        size: declared bytes, None: not known yet.
        reserved: bytes that it takes from the quota while it is open.
        received: bytes that were counted as unfinished; the file's own length is the offset.
        claimed: SHA-256 that the client announced.
        file_id: the file that it became.
        error: error word, if it failed.
        expires: when it is removed unless another part arrives.
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
    file_id: int | None = None
    error: str | None = None


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
