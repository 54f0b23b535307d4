"""Chart of one day of all feeds' fetches (ux.md §1.5): peaks and idle workers. Pure functions.

Three rows share one time axis. The first has the feeds fetched per quarter of an hour, with errors below in
their own shape and planned fetches as outlines. The next rows have new entries and concurrent jobs.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator, Sequence

from app.models.operations.throughput import Slot

#: Units of the chart: a quarter of an hour is 10 wide.
STEP = 10
ASKED, NEW, BUSY = (92.0, 84.0), (152.0, 46.0), (206.0, 40.0)  # base line and height of each row
HEIGHT = 224
_BAR = 7
#: Seconds. In a younger quarter the number of jobs means nothing, since jobs are counted at their end.
_TELLING = 180.0


@dataclasses.dataclass(frozen=True, slots=True)
class DayChart:
    """The chart: paths of the rows, grid lines with labels (UTC), the position of now, and the table.

    ``most_…`` are the values at the top of the rows.
    """

    width: int
    asked: str
    errors: str
    planned: str
    new: str
    busy: str
    hours: tuple[tuple[float, str], ...]
    now: float
    most_asked: int
    most_new: int
    most_busy: float
    slots: tuple[Slot, ...]


def draw_day(slots: Sequence[Slot]) -> DayChart:
    """Return the chart of quarters, oldest first; quarters with a plan but no fetches are in the future."""
    asked = max((max(s.done.feeds, s.planned) for s in slots), default=0) or 1
    new = max((s.done.new for s in slots), default=0) or 1
    busy = max(map(_busy, slots), default=0) or 1.0
    return DayChart(
        width=STEP * len(slots),
        asked=_bars(slots, lambda s: s.done.feeds / asked, ASKED),
        errors=_bars(slots, lambda s: s.done.errors / asked, ASKED),
        planned=_bars(slots, lambda s: s.planned / asked, ASKED),
        new=_bars(slots, lambda s: s.done.new / new, NEW),
        busy=_bars(slots, lambda s: _busy(s) / busy, BUSY),
        hours=tuple(_hours(slots)),
        now=_now(slots),
        most_asked=asked,
        most_new=new,
        most_busy=busy,
        slots=tuple(slots),
    )


def _busy(slot: Slot) -> float:
    """Return the number of concurrent jobs; 0 for a quarter that has just begun."""
    return slot.done.busy if slot.done.seconds >= _TELLING else 0.0


def _bars(slots: Sequence[Slot], part: Callable[[Slot], float], row: tuple[float, float]) -> str:
    """Return bars as one path: a thousand elements would weigh more than the rest of the page."""
    base, height = row
    return "".join(
        f"M{number * STEP + 1.5:g} {base:g}v{-max(1.5, part(slot) * height):.1f}h{_BAR}V{base:g}z"
        for number, slot in enumerate(slots)
        if part(slot) > 0
    )


def _hours(slots: Sequence[Slot]) -> Iterator[tuple[float, str]]:
    for number, slot in enumerate(slots):
        at = slot.done.at
        if at.minute == 0 and at.hour % 4 == 0:
            yield number * STEP, f"{at:%H:%M}"


def _now(slots: Sequence[Slot]) -> float:
    """Return the position of the current time."""
    whole = dt.timedelta(minutes=15).total_seconds()
    for number, slot in enumerate(slots):
        if slot.done.seconds < whole:
            return number * STEP + STEP * slot.done.seconds / whole
    return STEP * len(slots)
