"""What administrators see of real processes: a manager with its workers, a controller, what gets done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.bootstrap.services import Services
from app.config import Settings
from app.models.accounts.actor import Actor, Role
from app.models.jobs.jobs import Job, Queue, Task
from tests.support import live, manager

Eventually = Callable[..., Any]
ROOT = Actor(1, Role.ADMIN)


@pytest.fixture
def settings(settings: Settings) -> Iterator[Settings]:
    with live.homed(settings) as own:
        yield own


def test_managers_workers_controllers_and_their_work_are_seen(
    services: Services, settings: Settings, eventually: Eventually
) -> None:
    assert services.operations.get_engine(ROOT).managers == ()
    part = live.controller(settings)
    with manager.running(settings):
        eventually(lambda: _ready(services))
        (one,) = services.operations.get_engine(ROOT).managers
        assert one.groups[0].serving >= 1
        # The manager looks at memory now and then, and tells of it with its next sign of life.
        eventually(lambda: _measured(services))
        services.jobs.enqueue(Job(Task.SLEEP, {"seconds": 25.0}, Queue.PULL))
        eventually(lambda: any(w.runs for w in services.operations.get_engine(ROOT).workers))
        (running,) = services.operations.list_running(ROOT)
        assert (running.task, running.queue, running.state) == ("selftest.sleep", "feed-pull", "started")
        services.jobs.enqueue(Job(Task.ECHO, {"key": 1}, Queue.PULL))
        eventually(lambda: sum(m.jobs for m in services.operations.get_throughput(ROOT).minutes))
        (controller,) = services.operations.get_engine(ROOT).controllers
        assert (controller.pid, controller.streams) == (part.pid, 0)
    part.stop()
    gone = services.operations.get_engine(ROOT)
    assert (gone.managers, gone.controllers) == ((), ())


def _ready(services: Services) -> bool:
    return any(worker.state == "ready" for worker in services.operations.get_engine(ROOT).workers)


def _measured(services: Services) -> bool:
    return any(worker.memory > 1 << 20 for worker in services.operations.get_engine(ROOT).workers)
