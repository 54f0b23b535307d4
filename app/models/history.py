"""What changed many things at once and can be taken back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum


class ActionKind(enum.StrEnum):
    """What was done."""

    ALL = "all"
    ABOVE = "above"
    BELOW = "below"
    FEED = "feed"
    FEEDS = "feeds"
    FOLDER = "folder"
    SEARCH = "search"
    MOVED = "moved"
    MOVED_FOLDER = "moved-folder"


@dataclasses.dataclass(frozen=True, slots=True)
class MassAction:
    """One action of the last day.

    Attributes:
        undo: the token that takes it back, as ``/undo`` wants it.
        about: of marks the stream's text form; of one feed, folder or saved search its name.
        count: entries that became read; feeds that were moved or left together; else 0.
    """

    undo: str
    kind: ActionKind
    about: str
    count: int
    at: dt.datetime
