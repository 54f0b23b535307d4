"""Free disk space: while there is too little, pulls and uploads stop, and reading goes on.

MongoDB ends when its disk is full, and then nobody can read. So what fills the disk stops earlier.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from app import logs
from app.errors import NoSpaceError
from app.models.operations.disk_space import DiskSpace
from app.runtime.disk import measure_folder

log = logs.get(__name__)

#: How long a measurement is used, seconds.
KEPT: Final = 5.0


class FreeSpace:
    """Watches the disks of this machine's data folder and of MongoDB.

    Args:
        folder: the data folder; it needn't exist yet.
        measure_database: returns the space on MongoDB's disk, or None if it isn't known.
        percent: free space of a disk that must remain, in percent; 0: no limit.
    """

    def __init__(
        self,
        folder: Path,
        measure_database: Callable[[], DiskSpace | None],
        *,
        percent: float,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._measure_database = folder, measure_database
        self._percent, self._timer = percent, timer
        self._measuring = threading.Lock()
        self._known: tuple[float, DiskSpace | None] | None = None

    def find_shortage(self) -> DiskSpace | None:
        """Return a disk with too little free space, or None; measured at most every five seconds.

        Raises:
            StoreError: MongoDB does not answer.
        """
        if not self._percent:
            return None
        with self._measuring:
            now, known = self._timer(), self._known
            if known and now - known[0] < KEPT:
                return known[1]
            short = next((disk for disk in self._measure() if disk.is_short(self._percent)), None)
            if bool(short) != bool(known and known[1]):
                self._log_change(short)
            self._known = (now, short)
            return short

    def require_space(self) -> None:
        """Check that new data may be stored.

        Raises:
            NoSpaceError: a disk has too little free space.
            StoreError: MongoDB does not answer.
        """
        if self.find_shortage():
            raise NoSpaceError

    def _measure(self) -> list[DiskSpace]:
        found = [measure_folder(self._folder), self._measure_database()]
        return [disk for disk in found if disk is not None]

    def _log_change(self, short: DiskSpace | None) -> None:
        if short:
            log.warning("disk_almost_full", disk=short.name, free_percent=short.shown_percent)
        else:
            log.info("disk_has_space")
