"""Pictures of other sites on a page of fifty rows, and what a second look costs.

``media_pics.page_ms``: looking up fifty pictures that are ready. ``media_pics.page_queries``: its
commands to MongoDB. ``media_pics.requests_again``: requests to a site when the same address is shown
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import uuid

from pymongo import monitoring

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.feeds.fetch.fetcher import Fetcher
from app.models.media.blob import BlobKind, Content, Purpose
from app.models.media.sizes import SIZES
from app.models.media.source import Source
from app.services.media.pictures import WantedPicture
from bench.harness import Bench, benchmark, time_call
from tests.support.rawserver import RawServer, Reply

ROWS, TURNS = 50, 40


class _Counter(monitoring.CommandListener):
    """Counts the reads of sources and blobs."""

    def __init__(self) -> None:
        self.count = 0

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.count += event.command.get(event.command_name) in ("sources", "blobs")

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Ignore it."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Ignore it."""


@benchmark("media_pics")
def media_pics(bench: Bench) -> None:
    """Publish ``media_pics.*``."""
    turns = 3 if bench.quick else TURNS
    counter = _Counter()
    monitoring.register(counter)
    with bench.servers() as running, RawServer() as server:
        settings = dataclasses.replace(
            running.settings,
            fetch_allow=("127.0.0.0/8",),
            fetch_ports=(server.port,),
            secret_key=running.settings.secret_key or uuid.uuid4().hex + uuid.uuid4().hex,
        )
        with contextlib.closing(bootstrap.build(settings)) as services:
            services.migrate()
            wanted = [
                WantedPicture(server.url(f"/{n}.png"), server.url("/post"), server.url("/feed"))
                for n in range(ROWS)
            ]
            _fill(services, wanted)
            services.pictures.prepare(wanted, 1)
            counter.count = 0
            times = [time_call(lambda: services.pictures.prepare(wanted, 1)) for _ in range(turns)]
            bench.figure("media_pics.page_ms", times, "ms", at_most=5)
            bench.figure("media_pics.page_queries", [counter.count / turns], "", at_most=2)
            again = _fetch_again(services, server)
            bench.figure("media_pics.requests_again", [again], "", at_most=0)


def _fill(services: Services, wanted: list[WantedPicture]) -> None:
    """Store a picture for each address, as if it had been fetched and drawn."""
    now, gateway = clock.now(), services.gateways.sources
    shown = services.pictures.prepare(wanted, 1)
    ids = [shown[one.url].source for one in wanted]
    for source in gateway.claim(ids, "bench", now):
        content = Content(
            id=source.id * 2,
            kind=BlobKind.PICTURE,
            size=3,
            type="image/png",
            files={size.name: b"abc" for size in SIZES[Purpose.PICTURE]},
            width=640,
            height=480,
        )
        services.gateways.blobs.keep(
            content,
            lambda session, blob_id, source=source: gateway.finish(session, source.id, "bench", blob_id, now),
        )


def _fetch_again(services: Services, server: RawServer) -> float:
    """Return the requests for a picture that a second page shows, after its first fetch failed or not."""
    url = server.url("/again.png")
    server.set("/again.png", Reply(status=404))
    source = Source(id=b"a" * 16, url=url, purpose=Purpose.PICTURE, feed=server.url("/feed"))
    services.gateways.sources.add([source], clock.now())

    def fetch() -> None:
        with Fetcher(services.settings) as fetcher:
            asyncio.run(services.pictures.fetch_many([source.id], fetcher, "bench"))

    fetch()
    before = len(server.seen("/again.png"))
    fetch()
    return float(len(server.seen("/again.png")) - before)
