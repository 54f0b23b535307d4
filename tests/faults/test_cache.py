"""F23: writers and the Redis of the cache are killed, frozen and emptied; no ended write is undone.

Writers are processes that change the titles of feeds. A write has ended when it is reported to Redis, or when
nothing is left to report. Readers keep cards of these feeds in memory, as web processes do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import selectors
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import clock
from app.adapters.redis import change_log
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.embedded.child import poll
from app.mappers.feeds import feeds as feed_mapper
from app.runtime import identity_map
from tests.faults.system import LONG, PATIENCE
from tests.support.redis_process import RedisProcess

pytestmark = pytest.mark.timeout(3000)

FEEDS, READS, WRITERS = 6, 20_000 if LONG else 600, 2


class Writer:
    """A process that raises the versions of some feeds in turn, and says which write has ended."""

    def __init__(self, settings: Settings, feeds: list[int], start: int) -> None:
        self._rest = b""
        self.output, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.output)
            with contextlib.suppress(BaseException):
                _write_titles(settings, feeds, start, theirs)
            os._exit(1)
        os.close(theirs)

    def read_ended(self) -> list[tuple[int, int]]:
        """Return (feed, version) of the writes that have ended since the last call."""
        found = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.output, selectors.EVENT_READ)
            while selector.select(0) and (part := os.read(self.output, 65_536)):
                found += part
        # A read may end within a line.
        lines = (self._rest + found).split(b"\n")
        self._rest = lines.pop()
        return [(int(feed), int(version)) for feed, version in (line.split() for line in lines)]

    def kill(self) -> list[tuple[int, int]]:
        """End it as a crash does; return what had ended before."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        ended = self.read_ended()
        os.close(self.output)
        return ended


def _write_titles(settings: Settings, feeds: list[int], start: int, output: int) -> None:
    services = bootstrap.build(settings)
    log = services.change_log
    assert log is not None
    table, version = services.store.database["feeds"], start
    while True:
        version += 1
        for feed in feeds:
            table.update_one({"_id": feed}, {"$set": {"title": str(version)}})
            poll(lambda: not log._missed, PATIENCE, step=0.05)
            os.write(output, f"{feed} {version}\n".encode())


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisProcess]:
    found = RedisProcess(tmp_path)
    found.start()
    yield found
    found.close()


@pytest.fixture
def reader(
    settings: Settings, services: Services, own_redis: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Services]:
    monkeypatch.setattr(feed_mapper, "CARDS_MIN", 1)
    monkeypatch.setattr(change_log, "TIMEOUT", 0.1)  # a frozen Redis holds each reader up for so long
    monkeypatch.setattr(change_log, "PAUSE", 0.25)
    cached = dataclasses.replace(settings, cache=True, cache_url=own_redis.url)
    with contextlib.closing(bootstrap.build(cached)) as built:
        yield built


def test_no_fault_of_redis_or_a_writer_shows_an_old_card(
    services: Services, reader: Services, own_redis: RedisProcess
) -> None:
    rng = random.Random(5)
    urls = [f"https://{n}.example.org/feed" for n in range(FEEDS)]
    feeds = [services.gateways.feeds.get_or_create(url, now=clock.now(), title="0").id for url in urls]
    known = dict.fromkeys(feeds, 0)
    made = 0

    def start_writer(number: int) -> Writer:
        nonlocal made
        made += 1
        return Writer(reader.settings, feeds[number::WRITERS], made * 1_000_000)

    def note(ended: list[tuple[int, int]]) -> None:
        for feed, version in ended:
            known[feed] = max(known[feed], version)

    writers = [start_writer(n) for n in range(WRITERS)]
    hits = blows = kills = 0
    cache: Any = reader.store.cache
    try:
        for _ in range(READS):
            for writer in writers:
                note(writer.read_ended())
            least = dict(known)
            before = cache._values
            with identity_map.open_scope(shared=True):
                cards = reader.mappers.feeds.find_cards(feeds)
                view = identity_map.get_scope().view  # type: ignore[union-attr]
            hits += bool(before) and view is not None
            old = {f: (cards[f].title, least[f]) for f in feeds if int(cards[f].title) < least[f]}
            assert not old, old
            if rng.random() < 0.02:
                kills += 1
                number = rng.randrange(WRITERS)
                note(writers[number].kill())
                writers[number] = start_writer(number)
            if rng.random() < 0.02:
                blows += 1
                own_redis.strike(rng.choice(("kill", "empty", "freeze", "resume")))
        own_redis.strike("resume")
    finally:
        own_redis.strike("resume")
        for writer in writers:
            writer.kill()
    print(f"{READS} reads, {hits} with a cache, {kills} writers killed, {blows} blows to Redis")
    assert hits > READS / 10
    assert kills
    assert blows
    assert all(known.values())
