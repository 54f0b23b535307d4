"""Personal exports: a file with all of a user's own data, which a job creates."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum


class ExportState(enum.StrEnum):
    """The stages of an export."""

    MAKING = "making"
    READY = "ready"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PersonalExport:
    """One export file; a user has at most one.

    Attributes:
        id: 32 unguessable hexadecimal digits.
        expires: when the file is deleted.
        tries: how often a job began to make it; an attempt is named by its number.
        ready: when it was finished. size: bytes of the file. parts: documents in which it is stored.
        too_large: why it failed.
    """

    id: str
    user_id: int
    state: ExportState
    asked: dt.datetime
    expires: dt.datetime
    tries: int = 0
    ready: dt.datetime | None = None
    size: int = 0
    parts: int = 0
    too_large: bool = False

    @property
    def name(self) -> str:
        """The file name, without any text that a person has typed."""
        return f"eventr-{(self.ready or self.asked).date().isoformat()}.zip"
