"""CPU time of a 304 on a new connection: our fetcher compared with a bare curl loop, in alternating rounds.

Run ``python -m bench.fetch_304``. It prints medians in microseconds per fetch of this process, and ratios.
"""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence

from app.config import Settings
from app.feeds.fetch.fetcher import Fetcher
from app.models.feeds.fetched import FetchRequest, Validators
from bench.bare_curl import bare_curl_loop
from tests.support.rawserver import Reply, ServerProcess

HOSTS = tuple(f"127.0.0.{n}" for n in range(2, 34))
ETAG = '"1"'


@dataclasses.dataclass(frozen=True)
class Figures:
    """Microseconds of CPU per fetch, one value per round."""

    bare: list[float]
    many: list[float]
    stream: list[float]

    def ratio(self, name: str) -> float:
        """Return the median over the rounds of our time divided by the bare loop's."""
        ours: list[float] = getattr(self, name)
        return statistics.median(a / b for a, b in zip(ours, self.bare, strict=True))


def measure(*, rounds: int = 15, fetches: int = 1000, connections: int = 50) -> Figures:
    """Run all three in turn, so that other load affects all alike."""
    reply = Reply(etag=ETAG, body=b"<rss/>", close=True)
    paths = [f"/feeds/{n}/rss.xml" for n in range(fetches)]
    with ServerProcess(dict.fromkeys(paths, reply), hosts=HOSTS) as server:
        urls = [server.url(path, HOSTS[n % len(HOSTS)]) for n, path in enumerate(paths)]
        settings = Settings(
            fetch_allow=("127.0.0.0/8",), fetch_ports=(server.port,), fetch_connections=connections
        )
        with Fetcher(settings) as fetcher:
            kinds: dict[str, Callable[[Sequence[str]], float]] = {
                "bare": lambda urls: bare_curl_loop(
                    urls, [f"If-None-Match: {ETAG}"], connections=connections
                ),
                "many": lambda urls: _many(fetcher, urls),
                "stream": lambda urls: asyncio.run(_stream(fetcher, urls)),
            }
            found: dict[str, list[float]] = {name: [] for name in kinds}
            for _ in range(rounds):
                for name, run in kinds.items():
                    found[name].append(run(urls) / fetches * 1e6)
    return Figures(**found)


def _requests(urls: Sequence[str]) -> list[FetchRequest]:
    return [FetchRequest(url, validators=Validators(etag=ETAG)) for url in urls]


def _many(fetcher: Fetcher, urls: Sequence[str]) -> float:
    requests = _requests(urls)
    started = time.process_time()
    count = sum(fetched.unchanged for fetched in fetcher.fetch_many(requests))
    spent = time.process_time() - started
    assert count == len(urls)
    return spent


async def _stream(fetcher: Fetcher, urls: Sequence[str], *, batch: int = 50, batches: int = 4) -> float:
    """Fetch like a worker: several batches at once."""
    requests = _requests(urls)
    waiting = [requests[n : n + batch] for n in range(0, len(requests), batch)]
    count = 0

    async def work() -> None:
        nonlocal count
        while waiting:
            async for fetched in fetcher.stream_fetches(waiting.pop()):
                count += fetched.unchanged

    started = time.process_time()
    await asyncio.gather(*(work() for _ in range(batches)))
    spent = time.process_time() - started
    assert count == len(urls)
    return spent


def main() -> None:
    """Print the figures."""
    figures = measure()
    for name in ("bare", "many", "stream"):
        values = getattr(figures, name)
        ratio = "" if name == "bare" else f"  {figures.ratio(name):.2f} × bare"
        print(f"{name:8} {statistics.median(values):6.1f} µs, least {min(values):6.1f}{ratio}")


if __name__ == "__main__":
    main()
