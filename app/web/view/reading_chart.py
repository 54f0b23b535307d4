"""Charts of what a user has read, starred and shared: one bar for each day. Pure functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from app.models.reading.statistics import Counted, DayCounts, sum_days

#: Units of a chart: a day is 20 wide, the highest bar 60 high.
STEP, HEIGHT = 20, 60
#: The count of a full bar if there is none higher: a day with one star isn't a peak.
PEAK = 4
_GAP = 4
#: Spans of the totals, in days.
SPANS = (1, 7, 30, 365)


@dataclasses.dataclass(frozen=True, slots=True)
class ReadingChart:
    """A chart of one kind: bars as one path, the highest count, and the sum."""

    what: Counted
    width: int
    bars: str
    most: int
    total: int

    @property
    def step(self) -> int:
        """The width of a day."""
        return STEP

    @property
    def is_low(self) -> bool:
        """Whether no bar fills the chart, so that half its height is enough."""
        return self.most < PEAK


def draw_days(days: Sequence[DayCounts], what: Counted) -> ReadingChart:
    """Return the chart of a kind for these days, the oldest first."""
    counts = [getattr(day, what.value) for day in days]
    most = max(counts, default=0)
    peak = max(most, PEAK)
    bars = "".join(
        f"M{at * STEP + _GAP / 2:g} {HEIGHT}v{-max(2, count / peak * HEIGHT):.1f}h{STEP - _GAP}V{HEIGHT}z"
        for at, count in enumerate(counts)
        if count
    )
    return ReadingChart(what, STEP * len(days), bars, most, sum(counts))


def sum_spans(days: Sequence[DayCounts]) -> list[tuple[int, DayCounts]]:
    """Return the sums of the last days, for each of :data:`SPANS` that there is."""
    return [(span, sum_days(days[-span:])) for span in SPANS if span <= len(days)]
