"""A file of all that is somebody's own, which a job makes for him."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum


class ExportState(enum.StrEnum):
    """Stages of life."""

    MAKING = "making"
    READY = "ready"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PersonalExport:
    """One file; a user has one at most.

    Attributes:
        id: 32 hexadecimal digits that nobody can guess.
        expires: from then on it is not there.
        tries: how often somebody began to make it; the number of an attempt is its name.
        ready: when it was made. size: bytes of the file. parts: in how many documents it lies.
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
        """What the file is called; nothing that anybody has typed is in it."""
        return f"eventr-{(self.ready or self.asked).date().isoformat()}.zip"
