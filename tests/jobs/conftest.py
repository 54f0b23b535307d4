"""Fixtures of the job tests."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import pytest
import redis

from app import embedded
from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from tests.jobs import support
from workers import registry

#: Quick back-offs, a short grace; nobody reads meanwhile for whom workers would stand back.
QUICK = {"job_backoff": 0.05, "stop_grace": 1.0, "worker_nice": 0}


@pytest.fixture(autouse=True, scope="session")
def _tasks() -> None:
    """The registry, as a worker process fills it."""
    registry.load_tasks()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Quick, and with one small group of workers."""
    quick = dataclasses.replace(settings, **QUICK)
    return dataclasses.replace(quick, queues_file=support.groups(quick))


@pytest.fixture
def jobs(settings: Settings, redis_client: redis.Redis) -> Iterator[RedisJobs]:
    with contextlib.closing(RedisJobs(settings)) as port:
        yield port


@dataclasses.dataclass(frozen=True, slots=True)
class Engine:
    """A running queue manager, and what is needed to use it."""

    settings: Settings
    manager: support.Process
    jobs: RedisJobs
    client: redis.Redis


@pytest.fixture(scope="module")
def engine(
    request: pytest.FixtureRequest,
    servers: embedded.EmbeddedServers,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Engine]:
    """One manager for all tests of a module, because a start costs two seconds.

    A module may set ``SETTINGS`` (replaced fields) and ``GROUPS`` (more TOML). Its tests share Redis,
    so they look at their own jobs only.
    """
    changes = {**QUICK, **getattr(request.module, "SETTINGS", {})}
    settings = dataclasses.replace(servers.settings, home=tmp_path_factory.mktemp("engine"), **changes)
    table = support.groups(settings, extra=getattr(request.module, "GROUPS", ""))
    settings = dataclasses.replace(settings, queues_file=table, mongodb_name="test_engine")
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(redis.Redis.from_url(settings.redis_url))
        client.flushall()
        stack.callback(client.flushall)
        manager = stack.enter_context(support.running("queue_manager.main", settings, "manager"))
        yield Engine(settings, manager, stack.enter_context(contextlib.closing(RedisJobs(settings))), client)
