"""The only source of "now": aware UTC datetimes that tests can replace.

Every function that needs the time gets it as an argument or calls :func:`now`,
so a test advances time with :func:`set_source` and never waits.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

UTC = dt.UTC
#: Rate limit windows, in seconds.
MINUTE, HOUR, DAY = 60, 3600, 86400
Source = Callable[[], dt.datetime]


def _system() -> dt.datetime:
    # For times of this century, a float is exact enough to be rounded to milliseconds.
    return dt.datetime.fromtimestamp(time.time_ns() // 1_000_000 / 1000, UTC)


_source: Source = _system


def now() -> dt.datetime:
    """Return the current time as an aware UTC datetime, truncated to whole milliseconds.

    MongoDB stores milliseconds, and a stored value must compare equal when it is read back.
    """
    moment = _source()
    odd = moment.microsecond % 1000
    return moment - dt.timedelta(microseconds=odd) if odd else moment


def to_millis(moment: dt.datetime) -> int:
    """Return the milliseconds since the epoch."""
    return round(moment.timestamp() * 1000)


def from_millis(millis: int) -> dt.datetime:
    """Return the UTC datetime of milliseconds since the epoch."""
    return dt.datetime.fromtimestamp(millis / 1000, dt.UTC)


@contextmanager
def set_source(source: Source) -> Iterator[None]:
    """Replace the clock inside a ``with`` block; for tests and simulations only."""
    global _source
    previous, _source = _source, source
    try:
        yield
    finally:
        _source = previous
