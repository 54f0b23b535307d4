"""How far a user has listened to a recording."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib

#: Seconds before the end at which a recording counts as heard, and begins anew the next time.
END = 15


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlayPosition:
    """A user's position in a recording.

    Attributes:
        url: address of the recording, which several entries may have.
        seconds: position from the beginning.
        duration: of the recording in seconds, 0 if unknown.
        at: when the user was there.
    """

    entry_id: int
    url: str
    seconds: int
    duration: int
    at: dt.datetime

    @property
    def is_finished(self) -> bool:
        """Whether the recording was heard to its end."""
        return bool(self.duration) and self.seconds >= self.duration - END


def name_recording(url: str) -> bytes:
    """Return the key of a recording, of 16 bytes."""
    return hashlib.sha256(url.encode()).digest()[:16]
