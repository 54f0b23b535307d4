"""Resource limits of a worker process, enforced by the kernel."""

from __future__ import annotations

import resource


def limit_memory(memory: int) -> None:
    """Limit data to 1.5 × ``memory`` bytes, so that excess raises MemoryError; disable core dumps.

    May be called again, with more or less: the limit only catches bugs. Against hostile code, the manager
    measures the resident memory from outside.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = memory + memory // 2
    resource.setrlimit(
        resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
    )
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
