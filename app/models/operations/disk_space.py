"""The space on a disk."""

from __future__ import annotations

from typing import NamedTuple


class DiskSpace(NamedTuple):
    """A disk by what is stored there, with its free and total space in bytes."""

    name: str
    free: int
    total: int

    @property
    def shown_percent(self) -> float:
        """The free space in percent, with one decimal, rounded down."""
        return self.free * 1000 // self.total / 10 if self.total else 100.0

    def is_short(self, percent: float) -> bool:
        """Return whether less than this percentage is free."""
        return self.free * 100 < self.total * percent
