"""Fixtures of the tests of metrics, health and reports."""

from __future__ import annotations

import dataclasses

import pytest

from app.config import Settings
from tests.jobs import support
from tests.support.up import free_port
from workers import registry


@pytest.fixture(autouse=True, scope="session")
def _tasks() -> None:
    """The registry, as a worker process fills it."""
    registry.load_tasks()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Quick, with one small group of workers, and with the admin ports on."""
    quick = dataclasses.replace(settings, stop_grace=1.0, job_backoff=0.05)
    listen = f"127.0.0.1:{free_port(3)}"
    return dataclasses.replace(quick, queues_file=support.groups(quick), metrics_listen=listen)
