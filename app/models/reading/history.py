"""What changed many things at once and can be taken back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import NamedTuple

from app.errors import InvalidError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MS = dt.timedelta(milliseconds=1)
#: Of milliseconds: far from what dates can hold.
_DIGITS = 13


class ActionKind(enum.StrEnum):
    """What was done."""

    ALL = "all"
    ABOVE = "above"
    BELOW = "below"
    SELECTED = "selected"
    FEED = "feed"
    FEEDS = "feeds"
    FOLDER = "folder"
    SEARCH = "search"
    SHARE = "share"
    MOVED = "moved"
    MOVED_FOLDER = "moved-folder"


class HistoryCursor(NamedTuple):
    """A place in the history; what comes after it is older. ``token`` is an undo without its kind."""

    at: dt.datetime
    token: str

    def __str__(self) -> str:
        """Return it as text that :meth:`parse` reads: milliseconds, and the token."""
        return f"{(self.at - _EPOCH) // _MS}-{self.token}"

    @classmethod
    def parse(cls, text: str) -> HistoryCursor:
        """Return the place that a text names.

        Raises:
            InvalidError: it names none.
        """
        ms, _, token = text.partition("-")
        if not (ms.isascii() and ms.isdigit() and len(ms) <= _DIGITS and token):
            raise InvalidError("Can't load more of this list. Reload it.", field="cursor")
        return cls(_EPOCH + int(ms) * _MS, token)


@dataclasses.dataclass(frozen=True, slots=True)
class MassAction:
    """One action of the last day.

    Attributes:
        undo: the token that takes it back, as ``/undo`` wants it.
        about: of marks the stream's text form, empty for a selection of feeds; of one feed, folder or saved
            search its name.
        count: entries that became read; feeds that were moved or left together; else 0.
    """

    undo: str
    kind: ActionKind
    about: str
    count: int
    at: dt.datetime

    @property
    def cursor(self) -> HistoryCursor:
        """Return where it stands in the history."""
        return HistoryCursor(self.at, self.undo.rpartition(".")[2])


@dataclasses.dataclass(frozen=True, slots=True)
class HistoryPage:
    """Some of the history, the newest first; ``after``: where the next page begins, if there is one."""

    actions: tuple[MassAction, ...]
    after: HistoryCursor | None = None
