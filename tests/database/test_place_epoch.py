"""What a process knows of places is never older than the mover waits, with and without Redis."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
import redis

from app.adapters.redis.place_epoch import RETRY_SECONDS, RedisPlaceEpoch
from app.config import Settings
from app.gateways.operations import moves
from app.models.operations.cells import PLACE_SECONDS


class _Clock:
    """A clock that only the test moves; ``step`` seconds pass with each look at it."""

    def __init__(self) -> None:
        self.time, self.step = 1000.0, 0.0

    def __call__(self) -> float:
        self.time += self.step
        return self.time


@pytest.fixture
def now() -> _Clock:
    return _Clock()


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections, but never answers."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=50)) as server:
        server.setblocking(False)
        yield server


def test_the_mover_waits_longer_than_any_process_trusts_a_place() -> None:
    assert moves.NOTICE_SECONDS > PLACE_SECONDS


def test_a_change_is_noticed_in_time(settings: Settings, redis_client: redis.Redis, now: _Clock) -> None:
    one, other = RedisPlaceEpoch(settings.redis_url, now), RedisPlaceEpoch(settings.redis_url)
    before = one.read()
    other.raise_epoch()
    assert one.read() == before, "Redis isn't asked for each place"
    now.time += PLACE_SECONDS
    assert one.read() == before + 1


def test_an_answer_that_comes_late_counts_as_a_change(
    settings: Settings, redis_client: redis.Redis, now: _Clock
) -> None:
    one = RedisPlaceEpoch(settings.redis_url, now)
    before = one.read()
    now.step = PLACE_SECONDS * 1.1
    assert one.read() != before
    now.step = 0
    now.time += PLACE_SECONDS
    assert one.read() == before


def test_without_redis_places_are_read_again_as_often(silent: socket.socket, now: _Clock) -> None:
    """And a Redis that doesn't respond is asked again after a second."""
    one = RedisPlaceEpoch(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", now)
    asked = 0

    def count_asked() -> int:
        found = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                found += 1
        return found

    seen = {one.read()}
    asked = count_asked()
    assert asked
    rounds = int(RETRY_SECONDS / PLACE_SECONDS) - 1
    for _ in range(rounds):
        now.time += PLACE_SECONDS * 0.9
        assert one.read() in seen
        now.time += PLACE_SECONDS * 0.1
        seen.add(one.read())
    assert len(seen) == rounds + 1
    assert count_asked() == 0
    now.time += RETRY_SECONDS
    one.read()
    assert count_asked()


def test_while_another_thread_waits_for_redis_places_are_read_again(
    settings: Settings, redis_client: redis.Redis, now: _Clock
) -> None:
    one = RedisPlaceEpoch(settings.redis_url, now)
    before = one.read()
    now.time += PLACE_SECONDS
    with one._lock:
        assert len({before, one.read(), one.read()}) == 3
    assert one.read() == before
