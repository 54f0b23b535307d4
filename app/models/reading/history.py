"""The history of bulk actions, which can be undone."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import NamedTuple

from app.errors import InvalidError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MS = dt.timedelta(milliseconds=1)
#: Most digits of milliseconds: far below the limit of dates.
_DIGITS = 13


class ActionKind(enum.StrEnum):
    """The kinds of actions."""

    ALL = "all"
    ABOVE = "above"
    BELOW = "below"
    SELECTED = "selected"
    AUTO = "auto"
    HIDDEN = "hidden"
    FEED = "feed"
    FEEDS = "feeds"
    FOLDER = "folder"
    SEARCH = "search"
    SHARE = "share"
    PAGE = "page"
    NOTE = "note"
    MOVED = "moved"
    MOVED_FOLDER = "moved-folder"


class HistoryCursor(NamedTuple):
    """A position in the history; later positions are older. ``token`` is an undo token without its kind."""

    at: dt.datetime
    token: str

    def __str__(self) -> str:
        """Return the position as text for :meth:`parse`: milliseconds, and the token."""
        return f"{(self.at - _EPOCH) // _MS}-{self.token}"

    @classmethod
    def parse(cls, text: str) -> HistoryCursor:
        """Return the position in a text.

        Raises:
            InvalidError: the text isn't a position.
        """
        ms, _, token = text.partition("-")
        if not (ms.isascii() and ms.isdigit() and len(ms) <= _DIGITS and token):
            raise InvalidError("Can't load more of this list. Reload it.", field="cursor")
        return cls(_EPOCH + int(ms) * _MS, token)


@dataclasses.dataclass(frozen=True, slots=True)
class MassAction:
    """One bulk action of the last day.

    Attributes:
        undo: the token that undoes it, for ``/undo``.
        about: for marks, the stream's text form, empty for a selection of feeds; for one feed, folder,
            saved search or entry, its name.
        count: entries that became read, or feeds that were moved or unsubscribed together; else 0.
    """

    undo: str
    kind: ActionKind
    about: str
    count: int
    at: dt.datetime

    @property
    def cursor(self) -> HistoryCursor:
        """Return its position in the history."""
        return HistoryCursor(self.at, self.undo.rpartition(".")[2])


@dataclasses.dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of the history, newest first; ``after``: the start of the next page, None at the end."""

    actions: tuple[MassAction, ...]
    after: HistoryCursor | None = None
