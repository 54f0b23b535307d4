"""The subscriptions manager: its filters, rows and pages."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import re
from collections.abc import Mapping
from typing import Final

from app.errors import InvalidError
from app.models.subscriptions.folder import Folder
from app.models.subscriptions.subscription import Subscription

#: Time without a new entry after which a feed counts as quiet, and as dead.
QUIET: Final = dt.timedelta(days=90)
DEAD: Final = dt.timedelta(days=365)
#: Instead of a folder's id: subscriptions without a folder.
LOOSE: Final = 0
_CURSOR = re.compile(r"([1-9][0-9]{0,15})\.(.{0,100})", re.DOTALL)


class Condition(enum.StrEnum):
    """The filters of subscriptions."""

    ALL = "all"
    UNREAD = "unread"
    ERROR = "error"
    QUIET = "quiet"
    DEAD = "dead"
    PAUSED = "paused"


class Order(enum.StrEnum):
    """Orders of the table; the last three are descending."""

    NAME = "name"
    NEWEST = "newest"
    RATE = "rate"
    UNREAD = "unread"


@dataclasses.dataclass(frozen=True, slots=True)
class BulkEditQuery:
    """A request for a page.

    Attributes:
        words: each must be in the name or the address.
        folder: an id, :data:`LOOSE`, or None for all.
        after: cursor of the previous page.
    """

    words: str = ""
    condition: Condition = Condition.ALL
    folder: int | None = None
    order: Order = Order.NAME
    after: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class BulkEditRow:
    """One subscription; ``newest`` is when its last entry arrived, ``rate`` its entries per week.

    ``person``: the feed holds the shares of a person on this server. ``private``: the user keeps it private.
    ``icon``: path of its icon. ``kept``: the subscription itself, with all its settings.
    """

    feed_id: int
    title: str
    url: str
    unread: int
    error: str | None
    folder_ids: tuple[int, ...]
    paused: bool
    newest: dt.datetime | None
    kept: Subscription
    rate: float = 0.0
    person: bool = False
    private: bool = False
    icon: str | None = None

    def make_sort_key(self, order: Order) -> tuple[str | int, int]:
        """Return the sort key of the row."""
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
        """Return the cursor for a page that begins after this row."""
        return f"{self.feed_id}.{self.make_sort_key(order)[0]}"

    def find_conditions(self, now: dt.datetime) -> set[Condition]:
        """Return the conditions that are true for the row."""
        silent = now - self.newest if self.newest else dt.timedelta()
        dead = self.error == "gone" or silent > DEAD
        found = {Condition.ALL}
        if self.unread > 0:
            found.add(Condition.UNREAD)
        if self.error is not None:
            found.add(Condition.ERROR)
        # People's streams are never quiet or dead.
        if not self.person and (dead or silent > QUIET):
            found.add(Condition.DEAD if dead else Condition.QUIET)
        if self.paused:
            found.add(Condition.PAUSED)
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class BulkEditPage:
    """One page of the table.

    Attributes:
        total: rows of the whole filter. subscriptions: of the user.
        counts: the number of subscriptions per condition, whatever the filter.
        after: cursor of the next page, "" at the end.
    """

    rows: tuple[BulkEditRow, ...]
    total: int
    subscriptions: int
    counts: Mapping[Condition, int]
    folders: tuple[Folder, ...]
    after: str


def parse_cursor(text: str, order: Order) -> tuple[str | int, int]:
    """Parse a row's cursor into its sort key.

    Raises:
        InvalidError: the text isn't a cursor.
    """
    match = _CURSOR.fullmatch(text)
    if match is None or (order is not Order.NAME and not re.fullmatch(r"-?[0-9]{1,16}", match[2], re.ASCII)):
        raise InvalidError("Can't load more of this list. Reload it.", field="after")
    return match[2] if order is Order.NAME else int(match[2]), int(match[1])
