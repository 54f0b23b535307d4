"""F07: the primary of three MongoDB servers hands over or is killed, and nothing acknowledged is lost."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator

import pytest
import redis

from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.embedded.child import poll
from app.errors import StoreError
from app.models.accounts.actor import Actor
from tests.faults import checks, members
from tests.faults.members import ReplicaSet

pytestmark = pytest.mark.timeout(3000)

#: Calls that one write may need over an election; each waits for the driver's patience at most.
CALLS = 5
#: Subscriptions that each writer makes after each blow, before the next one.
STEP = 5
WRITERS = 3


@pytest.fixture(scope="module")
def replica_set() -> Iterator[ReplicaSet]:
    """Three members."""
    with members.running() as found:
        yield found


@pytest.fixture
def served(replica_set: ReplicaSet, settings: Settings, redis_client: redis.Redis) -> Iterator[Services]:
    """All services on the three members."""
    with contextlib.closing(
        bootstrap.build(dataclasses.replace(settings, mongodb_uri=replica_set.uri))
    ) as built:
        built.migrate()
        yield built


class Writer(threading.Thread):
    """Subscribes to one feed after the other, each until it is acknowledged."""

    def __init__(self, services: Services, user_id: int) -> None:
        super().__init__(daemon=True)
        self._services, self._actor = services, Actor(user_id)
        self.acknowledged: list[tuple[int, str]] = []
        self.most_calls = 0
        self.failure: Exception | None = None
        self.ending = threading.Event()

    def run(self) -> None:
        """Go on until told to end, or until something else than an outage is said."""
        try:
            while not self.ending.is_set():
                # Half of the feeds are the same for all: their counters are fought for.
                number = len(self.acknowledged)
                whose = "all" if number % 2 else self._actor.user_id
                self._subscribe(f"https://feeds.example.org/{whose}/{number}")
        except Exception as e:
            self.failure = e
            raise

    def _subscribe(self, url: str) -> None:
        calls = 0
        while True:
            calls += 1
            self.most_calls = max(calls, self.most_calls)
            try:
                self._services.subscriptions.subscribe(self._actor, url)
            except StoreError:
                if self.ending.is_set():
                    return
                continue
            self.acknowledged.append((self._actor.user_id, url))
            return


def test_F07_elections_lose_nothing_that_was_acknowledged(
    replica_set: ReplicaSet, served: Services, scale: int
) -> None:
    writers = [Writer(served, n) for n in range(1, WRITERS + 1)]
    for writer in writers:
        writer.start()
    try:
        _go_on(writers)
        for _ in range(scale):
            for strike in (replica_set.step_down, replica_set.kill_primary):
                strike()
                _go_on(writers)
                replica_set.wait_whole()
    finally:
        for writer in writers:
            writer.ending.set()
        for writer in writers:
            writer.join(members.PATIENCE)
    db = served.store.database
    acknowledged = [pair for writer in writers for pair in writer.acknowledged]
    assert checks.unsubscribed(db, acknowledged) == []
    assert checks.doubled(db) + checks.miscounted(db) == []
    assert max(writer.most_calls for writer in writers) <= CALLS, "the gap of one election"


def _go_on(writers: list[Writer]) -> None:
    """Wait until each writer has made some more subscriptions."""
    goal = {writer: len(writer.acknowledged) + STEP for writer in writers}

    def reached() -> bool:
        assert not [writer.failure for writer in writers if writer.failure]
        return all(len(writer.acknowledged) >= least for writer, least in goal.items())

    assert poll(reached, members.PATIENCE, step=0.05)
