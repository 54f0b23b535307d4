"""What a user has read, starred and shared, by day. Only for users who have switched that on."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import zoneinfo
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Counted(enum.StrEnum):
    """The acts of a reader that are counted by day."""

    READ = "read"
    STARRED = "starred"
    SHARED = "shared"


class FeedReads(NamedTuple):
    """A feed, and how many of the entries that a user read last are from it."""

    feed_id: int
    title: str
    icon: str | None
    page: str | None
    reads: int


@dataclasses.dataclass(frozen=True, slots=True)
class DayCounts:
    """Counts of one day in the user's time zone."""

    day: dt.date
    read: int = 0
    starred: int = 0
    shared: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing was done."""
        return not (self.read or self.starred or self.shared)


def find_day(now: dt.datetime, zone: str) -> dt.date:
    """Return the day of a time in a zone; an empty or unknown zone is UTC."""
    try:
        return now.astimezone(zoneinfo.ZoneInfo(zone) if zone else dt.UTC).date()
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return now.astimezone(dt.UTC).date()


def fill_days(known: Iterable[DayCounts], last: dt.date, days: int) -> list[DayCounts]:
    """Return the counts of each of the last days, the oldest first."""
    by_day: Mapping[dt.date, DayCounts] = {one.day: one for one in known}
    every = (last - dt.timedelta(days=back) for back in reversed(range(days)))
    return [by_day.get(day) or DayCounts(day) for day in every]


def sum_days(days: Iterable[DayCounts]) -> DayCounts:
    """Return the sums of days, with the first of them as the day."""
    every = list(days)
    first = min((one.day for one in every), default=dt.date.min)
    return DayCounts(
        first, sum(d.read for d in every), sum(d.starred for d in every), sum(d.shared for d in every)
    )


def sum_months(days: Iterable[DayCounts]) -> list[DayCounts]:
    """Return the sums of each month that has days, the oldest first; the day is the first of the month."""
    months = dict[dt.date, list[DayCounts]]()
    for one in days:
        months.setdefault(one.day.replace(day=1), []).append(one)
    return [dataclasses.replace(sum_days(found), day=month) for month, found in sorted(months.items())]
