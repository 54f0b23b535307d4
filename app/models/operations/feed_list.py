"""Lists of all feeds of the server, for administrators."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum


class FeedFilter(enum.StrEnum):
    """The filter of a feed list.

    DEAD: in error and never polled again automatically. NEVER: never fetched successfully.
    ORPHANED: nobody subscribes to them, so they aren't polled and are deleted if nothing else needs them.
    """

    ALL = "all"
    ERRORS = "errors"
    DEAD = "dead"
    NEVER = "never"
    PAUSED = "paused"
    ORPHANED = "orphaned"


class FeedOrder(enum.StrEnum):
    """The order of a feed list.

    SLOWEST: only feeds of which a response of the last day took longer than :data:`SLOW_MS`.
    """

    NEWEST = "newest"
    SUBSCRIBERS = "subscribers"
    SLOWEST = "slowest"


#: A longer fetch counts as slow, ms.
SLOW_MS = 5000
#: Most slow feeds in the list, which has only one page.
SLOW_MOST = 200


@dataclasses.dataclass(frozen=True, slots=True)
class FeedQuery:
    """The query of a feed list.

    Attributes:
        word: error word, "" for any.
        text: part of an address before its "?", or an id; "" for any.
        after: cursor of the previous page, "" for the first page.
    """

    filter: FeedFilter = FeedFilter.ALL
    word: str = ""
    text: str = ""
    after: str = ""
    order: FeedOrder = FeedOrder.NEWEST


@dataclasses.dataclass(frozen=True, slots=True)
class FeedRow:
    """A feed as a list shows it.

    Attributes:
        address: without parts that may be secret; ``link`` is empty if anything was left out.
        site: address of the site, empty if it has parts that may be secret.
        errors: failed polls in a row.
        slowest: longest fetch of the last day in ms, in the order SLOWEST.
    """

    id: int
    title: str
    address: str
    link: str
    error: str | None
    errors: int
    error_since: dt.datetime | None
    checked_at: dt.datetime | None
    next_check_at: dt.datetime | None
    subscribers: int
    paused: bool
    slowest: int = 0
    site: str = ""

    @property
    def name(self) -> str:
        """The title, or the address if there is none."""
        return self.title or self.address


@dataclasses.dataclass(frozen=True, slots=True)
class FeedList:
    """A page of a feed list; ``next`` is the cursor of the next page, "" at the end."""

    rows: tuple[FeedRow, ...]
    next: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class FeedCounts:
    """The number of feeds: in total, and by filter; ``words`` by error word, most frequent first."""

    total: int
    errors: int
    dead: int
    never: int
    paused: int
    orphaned: int
    words: tuple[tuple[str, int], ...]
