"""How often writes of MongoDB conflict."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple


class WriteConflicts(NamedTuple):
    """Conflicts since MongoDB started. Transactions that conflict are repeated.

    Attributes:
        total: conflicts of all writes, also of other databases.
        since: when MongoDB started.
    """

    total: int
    since: dt.datetime
