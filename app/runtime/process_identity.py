"""Names for running processes, by which others on the same machine can tell that one has ended."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path


def get_own_identity() -> str:
    """Return the name of this process: machine, start of the machine, PID namespace, PID and start time.

    Empty if the system doesn't have this information; nobody can then tell that this process has ended.
    """
    return _build_identity(os.getpid())  # a fork has its own


def has_ended(identity: str) -> bool:
    """Return whether this process has certainly ended; False for unknown processes and other machines."""
    place, _, process = identity.rpartition(" ")
    own = get_own_identity().rpartition(" ")[0]
    if not place or place != own:
        return False
    pid, _, started = process.partition("@")
    return not pid.isdecimal() or _read_start(int(pid)) != started


@lru_cache(maxsize=4)
def _build_identity(pid: int) -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')} {pid}@{_read_start(pid)}"
    except OSError:
        return ""


def _read_start(pid: int) -> str:
    """Return when a process started, in ticks since the machine's start; empty if it isn't running."""
    try:
        # The name in parentheses may contain anything, so count from the end of it (proc(5)).
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
