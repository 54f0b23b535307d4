"""The ports that tests give to servers belong to one run of the tests, and to the process they started."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys

import pytest

from tests.support import up
from tests.support.imports import REPO

_HOLD = "from tests.support import up; print(up.free_port({}), flush=True); input()"


@pytest.mark.parametrize(("theirs", "ours"), [(1, 1), (3, 1), (1, 3)])
def test_a_port_that_another_run_of_the_tests_was_given_is_not_free(
    theirs: int, ours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also before anything listens there."""
    other = subprocess.Popen(
        [sys.executable, "-c", _HOLD.format(theirs)],
        cwd=REPO,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        first = int(other.stdout.readline())
        free = up.free_port(3)
        up.release_ports(3)
        offered = [first + theirs - 1, free]
        monkeypatch.setattr(random.SystemRandom, "randrange", lambda *_: offered.pop(0))
        assert up.free_port(ours) == free
    finally:
        other.communicate("\n")


def test_only_the_process_that_listens_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert up.is_listening(os.getpid(), port)
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        assert not up.is_listening(child.pid, port)
        child.communicate(b"\n")
    assert not up.is_listening(child.pid, port)
    assert not up.is_listening(os.getpid(), port)
