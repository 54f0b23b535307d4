"""One running system for all faults of a test process; each test ends with the checks R01–R05.

``FAULTS=long`` runs the long form (``make faults``), which writes docs/reliability.md unless only some were
asked for (``ARGS=…``); ``FAULTS_SEED=n`` repeats a run.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import report
from tests.faults.system import LONG, System


@pytest.fixture(scope="package")
def _running(request: pytest.FixtureRequest) -> Iterator[System]:
    seed = int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"FAULTS_SEED={seed}")
    home = Path(tempfile.mkdtemp(prefix="eventr-faults-"))
    running = System(home, seed, poll_max=30 if LONG else 2)
    try:
        yield running
        if LONG and not request.session.testsfailed and _is_whole(request.config):
            report.write(running)
    finally:
        running.close()
        shutil.rmtree(home, ignore_errors=True)


def _is_whole(config: pytest.Config) -> bool:
    """Whether all faults were asked for: the page tells of a whole run, never of a part of it."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    left_out = terminal is None or terminal.stats.get("deselected")
    return not left_out and [Path(each).name for each in config.args] == ["faults"]


@pytest.fixture
def system(_running: System, request: pytest.FixtureRequest) -> Iterator[System]:
    """The system; after the test all that was promised is checked."""
    print(f"FAULTS_SEED={_running.seed}")
    failed = request.session.testsfailed
    yield _running
    if request.session.testsfailed > failed:
        print(_running.up.log("web")[-20_000:])  # the folder it lies in is removed
    _running.check()


@pytest.fixture(scope="session")
def scale() -> int:
    """1 for the short form, 10 for the long one."""
    return 10 if LONG else 1


@pytest.fixture(scope="session")
def in_a_row() -> int:
    """How often one part is killed in a row; later deaths only wait longer until it is started again."""
    return 5 if LONG else 1
