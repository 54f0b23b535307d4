"""The only source of "now": aware UTC datetimes that tests can replace.

Every function that needs the time takes it as an argument or calls :func:`now`,
so a test moves time by :func:`set_source` and never waits for it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager

UTC = dt.UTC
Source = Callable[[], dt.datetime]


def _system() -> dt.datetime:
    return dt.datetime.now(UTC)


_source: Source = _system


def now() -> dt.datetime:
    """Return the current time as an aware UTC datetime, cut to whole milliseconds.

    MongoDB stores milliseconds: a value that is written and read back must compare equal.
    """
    moment = _source()
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


@contextmanager
def set_source(source: Source) -> Iterator[None]:
    """Replace the clock inside a ``with`` block; for tests and simulations only."""
    global _source
    previous, _source = _source, source
    try:
        yield
    finally:
        _source = previous
