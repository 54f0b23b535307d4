"""A real controller on real stores, without the web tier in front: it listens on a port of its own."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from app.adapters.redis.events import RedisEvents
from app.config import Settings
from tests.support import live
from tests.support.up import free_port
from workers import registry


@pytest.fixture(autouse=True, scope="session")
def _tasks() -> None:
    """The registry, as a worker process fills it."""
    registry.load_tasks()


@pytest.fixture
def settings(settings: Settings) -> Iterator[Settings]:
    """A short home, and a port for the stream."""
    with live.homed(settings) as own:
        yield dataclasses.replace(own, events_port=free_port(), job_backoff=0.05, stop_grace=1.0)


@pytest.fixture
def events(settings: Settings, redis_client: redis.Redis) -> Iterator[RedisEvents]:
    with contextlib.closing(RedisEvents(settings)) as port:
        yield port


@pytest.fixture
def inside(settings: Settings, redis_client: redis.Redis) -> Iterator[Callable[..., None]]:
    """``inside(**settings)``: run a controller in this process; it ends with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda **changes: stack.enter_context(live.inside(dataclasses.replace(settings, **changes)))


@pytest.fixture
def run(settings: Settings, redis_client: redis.Redis) -> Iterator[Callable[..., live.Part]]:
    """``run(**settings)``: start a controller's process; all are ended with the test."""
    with contextlib.ExitStack() as stack:

        def start(**changes: Any) -> live.Part:
            part = live.controller(dataclasses.replace(settings, **changes))
            stack.callback(part.stop)
            return part

        yield start
