"""A stage for programs: a server, and a screen for those that have windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.bootstrap.services import Services
from app.config import Settings
from tests.clients.programs.desk import Desk
from tests.clients.programs.stage import Eventually, Stage, running


@pytest.fixture
def stage(services: Services, settings: Settings, tmp_path: Path, eventually: Eventually) -> Iterator[Stage]:
    """A running server, and ann with feeds and a password for her app."""
    with running(services, settings, tmp_path, eventually) as found:
        yield found


@pytest.fixture
def desk(tmp_path: Path, eventually: Eventually) -> Iterator[Desk]:
    """A screen of its own, on which programs are run and keys pressed."""
    with Desk(tmp_path, eventually) as found:
        yield found
