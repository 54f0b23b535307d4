"""A feed's fetch log: its last fetches, and counts for the last hours and days."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final, NamedTuple

from app.models.feeds.feed import FetchRecord

#: Fetches that a feed keeps.
KEPT: Final = 20
#: Hours and days (UTC) that a feed keeps counts for.
HOURS: Final = 24
DAYS: Final = 14


class FetchCounts(NamedTuple):
    """The fetches in an hour or a day, the failed ones among them, and the entries that they brought."""

    fetches: int = 0
    failed: int = 0
    new: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class FetchLog:
    """What a feed keeps of its fetches.

    Attributes:
        fetches: the last :data:`KEPT` fetches, newest first.
        hours, days: counts by hour or day, numbered from 1970-01-01 UTC; one without fetches is missing.
    """

    fetches: tuple[FetchRecord, ...] = ()
    hours: Mapping[int, FetchCounts] = dataclasses.field(default_factory=dict)
    days: Mapping[int, FetchCounts] = dataclasses.field(default_factory=dict)
