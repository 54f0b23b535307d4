"""An import of 1,000 feeds from loopback by the running system, and its effect on readers.

``imports.seconds`` is the wall-clock time from the start of the import to its end: every feed has its own
host, is subscribed, fetched, parsed and stored. ``imports.page_p95_ms`` is the time for a reader's list page
meanwhile, requested continuously on the same two cores.
"""

from __future__ import annotations

import contextlib
import http.client
import statistics
import threading
import time
from collections.abc import Iterator

from app.bootstrap.services import Services
from app.feeds.opml import opml
from app.models.accounts.actor import Actor
from app.models.accounts.user import NewUser
from app.models.imports.imports import ImportState
from app.models.imports.opml import Outline
from bench.engine import SECRET, parts
from bench.harness import Bench, benchmark
from bench.refresh import Rig, rig
from tests.support import live
from tests.support.up import free_port

FEEDS, QUICK_FEEDS = 1000, 60
PATIENCE = 300.0


@benchmark("imports")
def imports(bench: Bench) -> None:
    """Publish the time of an import and of pages during it."""
    feeds = QUICK_FEEDS if bench.quick else FEEDS
    seconds, pages = [], []
    with rig(bench, port=free_port(), secret_key=SECRET, web_workers=2) as found:
        for _ in range(min(3, bench.repeats)):
            found.fresh(0)
            took, times = _run(found, feeds)
            seconds.append(took)
            pages.append(statistics.quantiles(times, n=20)[-1])
            bench.note(
                f"{feeds} feeds in {took:.1f} s; {len(times)} pages, median {statistics.median(times):.0f} ms"
            )
    bench.figure("imports.seconds", seconds, "s", at_most=60)
    bench.figure("imports.page_p95_ms", pages, "ms", at_most=200)


def _run(found: Rig, feeds: int) -> tuple[float, list[float]]:
    """Return the seconds of an import and the milliseconds of each page requested meanwhile."""
    services, settings = found.services, found.settings
    user = services.gateways.accounts.add_user(NewUser("a@example.org", "ann", "no password"))
    token = services.gateways.sessions.open_session(user.id, agent="bench", address="")
    with parts(settings, None), _updater(found), contextlib.ExitStack() as stack:
        web = live.web(settings)
        stack.callback(web.stop)
        # A user with existing feeds, whose list is requested.
        _import(services, user.actor, [found.url(n) for n in range(feeds, feeds + 20)])
        reader = stack.enter_context(_Reader(settings.port, token).reading())
        began = time.perf_counter()
        _import(services, user.actor, [found.url(n) for n in range(feeds)])
        return time.perf_counter() - began, reader.times


def _import(services: Services, actor: Actor, urls: list[str]) -> None:
    """Import a list and wait until it is done."""
    body = opml.write("Bench", [Outline(url, folders=(f"Folder {n % 20}",)) for n, url in enumerate(urls)])
    kept = services.imports.preview(actor, body, "bench.opml")
    services.imports.start(actor, kept.id)
    deadline = time.monotonic() + PATIENCE
    while (now := services.imports.get(actor, kept.id)).state is not ImportState.DONE:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the import does not end: {now.counts}")
        time.sleep(0.1)
    if now.counts != {"added": len(urls)}:
        raise RuntimeError(f"the import ended with {now.counts}")


@contextlib.contextmanager
def _updater(found: Rig) -> Iterator[None]:
    part = live.Part("updater", found.settings)
    try:
        yield
    finally:
        part.stop()


class _Reader:
    """A reader who requests their list repeatedly."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._cookie = port, f"eventr={token}"
        self._stop = threading.Event()
        self.times: list[float] = []
        self.error: Exception | None = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[_Reader]:
        """Request the list while the block runs."""
        thread = threading.Thread(target=self._read)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()

    def _read(self) -> None:
        client = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        with contextlib.closing(client):
            while not self._stop.is_set():
                started = time.perf_counter()
                client.request(
                    "GET", "/read/all", headers={"Cookie": self._cookie, "Accept-Encoding": "gzip"}
                )
                answer = client.getresponse()
                answer.read()
                if answer.status != 200:
                    raise RuntimeError(f"the list answers {answer.status}")
                self.times.append((time.perf_counter() - started) * 1000)
                # A real reader's pace would give too few pages for a percentile.
                self._stop.wait(0.05)
