"""Entries that a user read recently."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple


class RecentRead(NamedTuple):
    """An entry, and when the user read it last."""

    entry_id: int
    at: dt.datetime
