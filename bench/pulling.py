"""Pulls like a worker; ``python -m bench.pulling`` runs them in a process that has loaded a worker's modules.

Reads feed ids from stdin and its settings from the environment; prints its peak memory in MB.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from app.bootstrap import services as bootstrap
from app.config import Settings
from app.ports import FetchStreamer
from app.runtime.gc import freeze_loaded
from app.services.feeds.pull import PullService
from app.services.feeds.pull_batch import PullResult


async def pull_all(
    service: PullService, feed_ids: Sequence[int], fetcher: FetchStreamer, settings: Settings
) -> list[PullResult]:
    """Pull batches like a loop worker: a fixed number at once, and the next after each end."""
    places = asyncio.Semaphore(settings.pull_batches)

    async def one(ids: Sequence[int]) -> PullResult:
        async with places:
            return await service.pull(ids, fetcher)

    size = settings.pull_batch
    return await asyncio.gather(*(one(feed_ids[i : i + size]) for i in range(0, len(feed_ids), size)))


def main() -> None:
    """Pull these feeds and print the peak."""
    import workers.main  # noqa: F401 — for its memory use

    settings = Settings.from_env()
    services = bootstrap.build(settings)
    feed_ids = [int(word) for word in sys.stdin.read().split()]
    try:
        with bootstrap.build_fetcher(settings) as fetcher:
            freeze_loaded()
            asyncio.run(pull_all(services.pull, feed_ids, fetcher, settings))
    finally:
        services.close()
    # VmHWM, since ru_maxrss starts with the peak of the process that started this one.
    status = Path("/proc/self/status").read_text("ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    print(int(line.split()[1]) / 1024)


if __name__ == "__main__":
    main()
