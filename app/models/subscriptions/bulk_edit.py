"""The subscriptions manager: which subscriptions are asked for, and the rows that are answered."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import re
from collections.abc import Mapping
from typing import Final

from app.errors import InvalidError
from app.models.subscriptions.folder import Folder

#: Without a new entry for so long a feed counts as quiet, and as dead.
QUIET: Final = dt.timedelta(days=90)
DEAD: Final = dt.timedelta(days=365)
#: In the place of a folder: subscriptions that are in none.
LOOSE: Final = 0
_CURSOR = re.compile(r"([1-9][0-9]{0,15})\.(.{0,100})", re.DOTALL)


class Condition(enum.StrEnum):
    """Which subscriptions are shown."""

    ALL = "all"
    UNREAD = "unread"
    ERROR = "error"
    QUIET = "quiet"
    DEAD = "dead"
    PAUSED = "paused"


class Order(enum.StrEnum):
    """Orders of the table; the last three begin with the greatest."""

    NAME = "name"
    NEWEST = "newest"
    RATE = "rate"
    UNREAD = "unread"


@dataclasses.dataclass(frozen=True, slots=True)
class BulkEditQuery:
    """Asks for a page.

    Attributes:
        words: each must be in the name or the address.
        folder: an id, :data:`LOOSE`, or None for all.
        after: cursor of the page before.
    """

    words: str = ""
    condition: Condition = Condition.ALL
    folder: int | None = None
    order: Order = Order.NAME
    after: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class BulkEditRow:
    """One subscription; ``newest`` is when its last entry came, ``rate`` its entries a week.

    ``person``: to what somebody of this server shares.
    """

    feed_id: int
    title: str
    url: str
    unread: int
    error: str | None
    folder_ids: tuple[int, ...]
    paused: bool
    newest: dt.datetime | None
    rate: float = 0.0
    person: bool = False

    def make_sort_key(self, order: Order) -> tuple[str | int, int]:
        """Return what the row is sorted by."""
        match order:
            case Order.NAME:
                return self.title.casefold()[:100], self.feed_id
            case Order.NEWEST:
                return -int(self.newest.timestamp() * 1000) if self.newest else 0, self.feed_id
            case Order.RATE:
                return -round(self.rate * 1000), self.feed_id
            case Order.UNREAD:
                return -self.unread, self.feed_id

    def make_cursor(self, order: Order) -> str:
        """Return the text that lets a page begin after this row."""
        return f"{self.feed_id}.{self.make_sort_key(order)[0]}"

    def find_conditions(self, now: dt.datetime) -> set[Condition]:
        """Return what is true of it."""
        silent = now - self.newest if self.newest else dt.timedelta()
        dead = self.error == "gone" or silent > DEAD
        found = {
            Condition.ALL: True,
            Condition.UNREAD: self.unread > 0,
            Condition.ERROR: self.error is not None,
            # A person is neither well nor ill.
            Condition.QUIET: silent > QUIET and not dead and not self.person,
            Condition.DEAD: dead and not self.person,
            Condition.PAUSED: self.paused,
        }
        return {condition for condition, is_true in found.items() if is_true}


@dataclasses.dataclass(frozen=True, slots=True)
class BulkEditPage:
    """One page of the table.

    Attributes:
        total: rows of the whole filter. subscriptions: of the user.
        counts: how many there are of each condition, whatever is filtered.
        after: cursor of the next page, "" at the end.
    """

    rows: tuple[BulkEditRow, ...]
    total: int
    subscriptions: int
    counts: Mapping[Condition, int]
    folders: tuple[Folder, ...]
    after: str


def parse_cursor(text: str, order: Order) -> tuple[str | int, int]:
    """Read a row's cursor as its sort key.

    Raises:
        InvalidError: it is none.
    """
    match = _CURSOR.fullmatch(text)
    if match is None or (order is not Order.NAME and not re.fullmatch(r"-?[0-9]{1,16}", match[2], re.ASCII)):
        raise InvalidError("Can't load more of this list. Reload it.", field="after")
    return match[2] if order is Order.NAME else int(match[2]), int(match[1])
