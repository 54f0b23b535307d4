"""The space on this machine's disks."""

from __future__ import annotations

import os
from pathlib import Path

from app.models.operations.disk_space import DiskSpace


def measure_folder(folder: Path) -> DiskSpace | None:
    """Return the space on the disk of a folder, which needn't exist yet; None: it can't be read."""
    try:
        there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        found = os.statvfs(there)
    except (OSError, StopIteration):
        return None
    # Without the blocks that only root may use, because Eventr doesn't run as root.
    used = (found.f_blocks - found.f_bfree) * found.f_frsize
    free = found.f_bavail * found.f_frsize
    return DiskSpace("EVENTR_HOME", free, used + free)
