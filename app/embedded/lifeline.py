"""Lifeline: run a program that dies with its parent: ``lifeline.py PARENT SIGNAL PROGRAM ARGUMENT...``

Linux sends SIGNAL when the parent's spawning thread ends in any way (prctl(2), PR_SET_PDEATHSIG;
kept across execve). This is a small program instead of a ``preexec_fn``, because that runs between
fork and exec, where a parent with threads can hang. With ``-I -S`` it costs 15 ms.
"""

from __future__ import annotations

import os
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, number: int) -> None:
    """Make the kernel send signal ``number`` when the parent dies; a no-op outside Linux."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes  # only this program needs it, and only here

    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:  # the parent died before the call
        sys.exit(1)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]), int(sys.argv[2]))
    os.execv(sys.argv[3], sys.argv[3:])  # noqa: S606 — becoming this program is the whole task
