"""Free memory goes back to the system after work."""

from __future__ import annotations

import psutil

from app.runtime.malloc import Trimmer

MB = 10**6


def _resident() -> int:
    return int(psutil.Process().memory_info().rss)


def test_free_memory_returns_after_work() -> None:
    trimmer = Trimmer(0.0)
    trimmer.trim_after(1)
    blocks = [bytes(2000) for _ in range(40_000)]
    last = blocks[::1000]  # free memory below these doesn't return by itself
    full = _resident()
    del blocks
    assert not trimmer.trim_after(1), "nothing was done since"
    assert trimmer.trim_after(2)
    assert full - _resident() > 60 * MB
    assert len(last) == 40


def test_memory_is_trimmed_once_in_a_while_only() -> None:
    trimmer = Trimmer(3600.0)
    assert not any(trimmer.trim_after(done) for done in range(10))
