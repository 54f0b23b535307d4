"""Things that happened a while ago: demos whose every time is "just now" show nobody how times look."""

from __future__ import annotations

import datetime as dt
from contextlib import AbstractContextManager

from app import clock


def ago(minutes: int) -> AbstractContextManager[None]:
    """Within it, it is that many minutes earlier."""
    then = clock.now() - dt.timedelta(minutes=minutes)
    return clock.set_source(lambda: then)
