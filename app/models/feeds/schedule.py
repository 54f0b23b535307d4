"""Input and output of a feed's schedule."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple


class Hints(NamedTuple):
    """Hints from polls for the schedule; a tuple, because each poll makes one.

    Attributes:
        max_age: seconds that the response may be cached (Cache-Control, Expires), else None.
        ttl_minutes, skip_hours: from the feed.
        retry_after: seconds that a server asked to wait, else None.
        errors: errors in a row, 0 after a success.
        pushed: whether pushes have proven to work.
        unread_days: days since anyone read the feed, 0 if unknown.
    """

    max_age: int | None = None
    ttl_minutes: int | None = None
    skip_hours: frozenset[int] = frozenset()
    retry_after: int | None = None
    errors: int = 0
    pushed: bool = False
    unread_days: int = 0


class Plan(NamedTuple):
    """When to poll next, and why (a word that the feed page explains)."""

    next_check_at: dt.datetime
    reason: str
