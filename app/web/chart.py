"""A feed's last day as a drawing: fetches as ticks, new entries as bars; a table says the same."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence

from flask_babel import gettext as _
from flask_babel import ngettext

from app import clock
from app.models.feed import FetchRecord

#: Units of the drawing: an hour is 30 wide.
WIDTH, HEIGHT = 720, 64
_DAY = 86400


@dataclasses.dataclass(frozen=True, slots=True)
class Tick:
    """One fetch: where on the line, what came of it, how high its bar is (0: nothing new)."""

    x: float
    kind: str
    bar: float


@dataclasses.dataclass(frozen=True, slots=True)
class Day:
    """The last 24 hours; ``hours`` are the grid lines with their labels (UTC)."""

    ticks: tuple[Tick, ...]
    hours: tuple[tuple[float, str], ...]


def day(fetches: Sequence[FetchRecord]) -> Day:
    """Return the drawing of what was fetched within the last 24 hours."""
    now = clock.now()
    recent = [f for f in fetches if 0 <= (now - f.at).total_seconds() <= _DAY]
    most = max((f.new for f in recent), default=0)
    ticks = tuple(Tick(_x(f.at, now), kind(f), 40 * f.new / most if most else 0) for f in recent)
    first = (now - dt.timedelta(hours=23)).replace(minute=0, second=0, microsecond=0)
    marks = [first + dt.timedelta(hours=h) for h in range(0, 24, 4)]
    return Day(ticks, tuple((_x(m, now), f"{m:%H:%M}") for m in marks))


def _x(when: dt.datetime, now: dt.datetime) -> float:
    return round(WIDTH * (1 - (now - when).total_seconds() / _DAY), 1)


def kind(fetch: FetchRecord) -> str:
    """Return ``bad``, ``new``, ``same``: shape and colour of a tick."""
    if fetch.error:
        return "bad"
    return "new" if fetch.new else "same"


def label(fetch: FetchRecord) -> str:
    """Return a fetch's outcome in words."""
    if fetch.error:
        return str(_("failed: %(word)s", word=fetch.error.replace("_", " ")))
    if fetch.new:
        return str(ngettext("%(num)s new", "%(num)s new", fetch.new))
    return str(_("unchanged") if fetch.status == 304 else _("nothing new"))
