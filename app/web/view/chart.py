"""Charts of a feed's last day and last days, and the data for their tables. Pure functions.

The day has a row of ticks, one for each of the last fetches, with color and shape by outcome. Below it, bars
show the new entries of each hour, followed by four hours of expected entries. Feeds keep counts by hours and
days in UTC. So hours begin when those of UTC do, but have labels in the reader's time zone; days are in UTC.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence

from flask_babel import gettext as _
from flask_babel import ngettext

from app.models.feeds.feed import FetchRecord
from app.models.feeds.fetch_log import DAYS, FetchCounts, FetchLog

#: Units of the chart: an hour is 30 wide; the future takes the last sixth.
WIDTH, BARS = 720, 44
PAST, AHEAD = 20, 4
_HOUR = WIDTH // (PAST + AHEAD)
_EPOCH = dt.date(1970, 1, 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Tick:
    """One fetch: its position and its outcome."""

    x: float
    kind: str


@dataclasses.dataclass(frozen=True, slots=True)
class Hour:
    """One hour: position, label, fetches, new and expected entries.

    Attributes:
        bar: Height of the bar of new entries.
        expected: Entries that the schedule expects in such an hour.
    """

    x: float
    label: str
    ahead: bool
    fetches: int
    failed: int
    new: int
    bar: float
    expected: float


@dataclasses.dataclass(frozen=True, slots=True)
class Day:
    """The hours around now; ``next_x`` is the position of the next fetch, None if outside the chart."""

    ticks: tuple[Tick, ...]
    hours: tuple[Hour, ...]
    now_x: float
    next_x: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One day of a feed's health; ``kind`` is ``none``, ``same``, ``new``, ``some`` (errors) or ``bad``."""

    day: dt.date
    kind: str
    fetches: int
    failed: int
    new: int


def draw_day(
    log: FetchLog,
    forecast: Sequence[float],
    next_at: dt.datetime | None,
    now: dt.datetime,
    zone: dt.tzinfo = dt.UTC,
) -> Day:
    """Return the chart of the last 20 hours and the next 4.

    Args:
        log: The feed's fetch log.
        forecast: Seconds between entries by hour of day (UTC).
        next_at: The time of the next fetch; None: none is planned.
        now: The current time.
        zone: The reader's time zone.
    """
    first = now.astimezone(dt.UTC).replace(minute=0, second=0, microsecond=0) - dt.timedelta(hours=PAST - 1)
    hours = [_hour(first + dt.timedelta(hours=n), log, forecast, now, zone) for n in range(PAST + AHEAD)]
    most = max(1, *(h.new for h in hours))
    scaled = tuple(
        dataclasses.replace(h, x=n * _HOUR, bar=round(BARS * h.new / most, 1)) for n, h in enumerate(hours)
    )
    ticks = tuple(Tick(_x(f.at, first), get_outcome_kind(f)) for f in log.fetches if first <= f.at <= now)
    soon = _x(max(next_at, now), first) if next_at else None
    return Day(ticks, scaled, _x(now, first), soon if soon is not None and soon < WIDTH else None)


def _hour(
    start: dt.datetime, log: FetchLog, forecast: Sequence[float], now: dt.datetime, zone: dt.tzinfo
) -> Hour:
    counts = log.hours.get(int(start.timestamp()) // 3600, FetchCounts())
    # The longest forecast means an hour without entries.
    pace = forecast[start.hour] if forecast else 3600.0
    expected = round(3600 / pace - 1, 1)
    return Hour(0, f"{start.astimezone(zone):%H:%M}", start > now, *counts, 0, expected)


def _x(when: dt.datetime, first: dt.datetime) -> float:
    return round((when - first).total_seconds() / 3600 * _HOUR, 1)


def draw_days(log: FetchLog, now: dt.datetime) -> list[Cell]:
    """Return the last 14 days (UTC), oldest first."""
    today = int(now.timestamp()) // 86400
    return [
        _cell(number, log.days.get(number, FetchCounts())) for number in range(today - DAYS + 1, today + 1)
    ]


def _cell(number: int, counts: FetchCounts) -> Cell:
    if not counts.fetches:
        word = "none"
    elif counts.failed:
        word = "bad" if counts.failed == counts.fetches else "some"
    else:
        word = "new" if counts.new else "same"
    return Cell(_EPOCH + dt.timedelta(days=number), word, *counts)


def get_outcome_kind(fetch: FetchRecord) -> str:
    """Return ``bad``, ``new`` or ``same``: the shape and color of a tick."""
    if fetch.error:
        return "bad"
    return "new" if fetch.new else "same"


def format_outcome(fetch: FetchRecord) -> str:
    """Return a fetch's outcome as text."""
    if fetch.error:
        word = fetch.error.replace("http_", "HTTP ").replace("_", " ")
        return str(_("failed: %(word)s", word=word))
    if fetch.new:
        return str(ngettext("%(num)s new", "%(num)s new", fetch.new))
    return str(_("unchanged (304)") if fetch.status == 304 else _("nothing new"))
