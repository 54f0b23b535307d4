"""The bytes that were fetched on a day."""

from __future__ import annotations

from typing import NamedTuple


class SpentBytes(NamedTuple):
    """The bytes fetched by the whole system, and the users who have spent their own share."""

    total: int = 0
    over: frozenset[int] = frozenset()
