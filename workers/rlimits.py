"""What the kernel refuses a worker."""

from __future__ import annotations

import resource


def limit_memory(memory: int) -> None:
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
