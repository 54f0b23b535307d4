"""Lists of all feeds of the server, for administrators."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum


class FeedFilter(enum.StrEnum):
    """The filter of a feed list.

    DEAD: in error and never polled again automatically. NEVER: never fetched successfully. SLOW: a response
    of the last day took longer than :data:`SLOW_MS`. POPULAR: all feeds, those with the most readers first.
    ORPHANED: nobody subscribes to them, so they aren't polled and are deleted if nothing else needs them.
    """

    ALL = "all"
    ERRORS = "errors"
    DEAD = "dead"
    SLOW = "slow"
    POPULAR = "popular"
    NEVER = "never"
    PAUSED = "paused"
    ORPHANED = "orphaned"


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


@dataclasses.dataclass(frozen=True, slots=True)
class FeedRow:
    """A feed as a list shows it.

    Attributes:
        address: without parts that may be secret; ``link`` is empty if anything was left out.
        errors: failed polls in a row.
        slowest: longest fetch of the last day in ms, in the list of slow feeds.
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
