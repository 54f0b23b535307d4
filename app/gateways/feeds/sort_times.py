"""The sort time of new entries: lists are in its order, so it decides which entries count as new."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

from app.feeds.parse.dates import clamp, parse_date
from app.models.feeds.parsed import ParsedEntry

_TICK: Final = dt.timedelta(milliseconds=1)
_DAY: Final = dt.timedelta(days=1)
#: Over how much time the entries of a feed without any dates are spread at most.
_SPREAD: Final = 28 * _DAY


def find_published(entry: ParsedEntry, now: dt.datetime) -> dt.datetime | None:
    """Return when a new entry was published, according to the feed.

    Atom only requires the time of the last change (RFC 4287, 4.1.2), and many feeds have no other.
    """
    return clamp(entry.published or entry.updated, now)


def calculate_sort_times(
    new: Sequence[ParsedEntry], checked_at: dt.datetime | None, now: dt.datetime, last_modified: str | None
) -> list[dt.datetime]:
    """Return the sort time of each new entry, in the order given.

    At the first fetch: the published date, at most now; an entry without one is presumed old. Later: an entry
    without a date has arrived now, and none sorts before the previous successful fetch, so that entries that
    are new since your last visit are on top.

    Args:
        checked_at: the previous successful fetch; None at the first one.
        last_modified: the header of the answer.
    """
    dates = [find_published(entry, now) for entry in new]
    if checked_at is None:
        return _estimate_dates([date and min(date, now) for date in dates], now, last_modified)
    floor = min(checked_at, now)
    return [min(max(date or now - _TICK * place, floor), now) for place, date in enumerate(dates)]


def _estimate_dates(
    dates: Sequence[dt.datetime | None], now: dt.datetime, last_modified: str | None
) -> list[dt.datetime]:
    """Return the dates of the first fetch, with an estimate for each missing one.

    Feeds list the newest entry first. So an undated entry is a little older than the one above it; without
    one above, a little younger than the next one below. A feed without any dates is as old as its document,
    or a day old if the server writes the document anew for each answer.
    """
    known = [(place, date) for place, date in enumerate(dates) if date]
    if not known:
        claimed = clamp(parse_date(last_modified), now)
        newest = min(claimed or now, now - _DAY)
        step = min(_DAY, _SPREAD / max(1, len(dates)))
        return [newest - step * place for place in range(len(dates))]
    first, highest = known[0]
    found = [min(highest + _TICK * (first - place), now) for place in range(first)]
    for date in dates[first:]:
        found.append(date or found[-1] - _TICK)
    return found
