"""Memory that this machine or container has, and the part of it for MongoDB's cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

#: Part of the memory for MongoDB's cache, and its limits in bytes. MongoDB refuses less than the lower one.
CACHE_SHARE = 0.25
CACHE_LEAST, CACHE_MOST = 1 << 28, 1 << 30
#: A cgroup without a limit says "max", or this much or more.
_UNLIMITED = 1 << 60


def compute_cache(memory: int) -> int:
    """Return the bytes of MongoDB's cache for a machine or container with this much memory."""
    return max(CACHE_LEAST, min(CACHE_MOST, int(memory * CACHE_SHARE)))


def find_memory(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process may use: the machine's, or its container's limit.

    Args:
        root: the folder that contains ``proc`` and ``sys``; for tests.
    """
    limits = [limit for path in _limit_files(root) if (limit := _read_limit(path)) is not None]
    return min([os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), *limits])


def _limit_files(root: Path) -> Iterator[Path]:
    """Yield the files with the limits of this process's control groups and of all groups above them."""
    try:
        lines = (root / "proc/self/cgroup").read_text("utf-8").splitlines()
    except OSError:
        return  # not Linux, or hidden
    mount = root / "sys/fs/cgroup"
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if not kinds:
            base, name = mount, "memory.max"  # version 2
        elif "memory" in kinds.split(","):
            base, name = mount / "memory", "memory.limit_in_bytes"
        else:
            continue
        # Inside a container, the path may be the one outside, of which only the mounted end exists.
        group = base / path.lstrip("/")
        yield from (folder / name for folder in (group, *group.parents) if folder.is_relative_to(base))


def _read_limit(path: Path) -> int | None:
    try:
        text = path.read_text("ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() and 0 < int(text) < _UNLIMITED else None
