"""What the kernel refuses a worker, and how often Python looks for garbage in it."""

from __future__ import annotations

import gc
import resource


def limit(memory: int) -> None:
    """Refuse more data than 1.5 × ``memory`` bytes, so that a hog gets a MemoryError; write no cores.

    May be called again, with more or less: the limit is against faults. Whoever runs code of his own here
    is stopped by the manager, which looks at the resident memory from outside.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = memory + memory // 2
    resource.setrlimit(
        resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
    )
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def settle() -> None:
    """Leave what was loaded alone when looking for garbage, and look seldom.

    Transfers and entries live for milliseconds and hold no cycles: looking for them after each 700 new
    objects cost 2 to 9 % of a cold pull, and copied pages that forked workers share.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
