"""Lists of all feeds of the server, for administrators."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum


class FeedFilter(enum.StrEnum):
    """Which feeds a list holds.

    DEAD: in error and never asked again by itself. NEVER: nothing was ever fetched. SLOW: an answer of the
    last day took longer than :data:`SLOW_MS`. POPULAR: all, those with the most readers first.
    """

    ALL = "all"
    ERRORS = "errors"
    DEAD = "dead"
    SLOW = "slow"
    POPULAR = "popular"
    NEVER = "never"
    PAUSED = "paused"


#: A fetch that takes longer is a slow one, ms.
SLOW_MS = 5000
#: Most slow feeds that are listed; there are no more pages of them.
SLOW_MOST = 200


@dataclasses.dataclass(frozen=True, slots=True)
class FeedQuery:
    """What is asked for.

    Attributes:
        word: error word, "" any.
        text: part of an address before its "?", "" any.
        after: cursor of the page before, "" the first page.
    """

    filter: FeedFilter = FeedFilter.ALL
    word: str = ""
    text: str = ""
    after: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class FeedRow:
    """A feed as a list shows it.

    Attributes:
        address: without what may be secret in it; ``link`` is empty where something was left out.
        errors: failed polls in a row.
        slowest: longest fetch of the last day in ms, where slow feeds are listed.
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
    """A page of a list; ``next`` is the cursor of the page after, "" at the end."""

    rows: tuple[FeedRow, ...]
    next: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class FeedCounts:
    """How many feeds there are: in all, and by filter; ``words`` by error word, the most frequent first."""

    total: int
    errors: int
    dead: int
    never: int
    paused: int
    words: tuple[tuple[str, int], ...]
