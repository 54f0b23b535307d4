"""The fork server is a copy of the manager where that was tried, and elsewhere a program of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from queue_manager import fork_server
from tests.support.imports import REPO

#: Run in a program of its own, since a test's process has threads: what differs, then a worker's start.
_PROGRAM = """
import multiprocessing, os, sys, threading, types
import psutil
from multiprocessing import forkserver, resource_tracker, util
from queue_manager import fork_server

{difference}

print(fork_server.copy_this_process(["queue_manager.fork_server"]))
{then}
context = multiprocessing.get_context("forkserver")
process = context.Process(target=os.getpid)
process.start()
process.join()
print(process.exitcode)
names = [" ".join(each.cmdline()) for each in psutil.Process().children()]
print(sum("from multiprocessing" in name for name in names), sum("eventr " in name for name in names))
os.kill(os.getpid(), 9)  # the other thread of one of these tests never ends
"""
#: The other end of multiprocessing: it calls its functions by other names than it did.
_RENAMED = """
forkserver.util = resource_tracker.util = types.SimpleNamespace(**vars(util))
del util.spawnv_passfds
"""
_DEAD = """
for pid in (forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid):
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
"""


def _run(difference: str, then: str = "") -> list[str]:
    program = _PROGRAM.format(difference=difference, then=then)
    command = [sys.executable, "-W", "ignore", "-c", program]
    return subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=120).stdout.splitlines()


def test_it_is_a_copy_where_that_was_tried() -> None:
    tried = fork_server.is_python_known()
    assert tried or sys.version_info[:2] != (3, 11)
    assert _run("") == [str(tried), "0", "0 2" if tried else "2 0"]


@pytest.mark.parametrize(
    "difference",
    [
        "sys.version_info = (3, 12, 0, 'final', 0)",
        "sys.version_info = (3, 99, 0, 'final', 0)",
        "sys.implementation = types.SimpleNamespace(**vars(sys.implementation) | {'name': 'other'})",
        _RENAMED,
        "del forkserver._forkserver",
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
    ],
    ids=["next", "later", "other", "renamed", "moved", "threads"],
)
def test_it_is_a_program_where_a_copy_was_not_tried(difference: str) -> None:
    assert _run(difference) == ["False", "0", "2 0"]


def test_a_copy_that_fails_is_replaced_by_a_program() -> None:
    """As when a later release gives it a line that the copy can't run."""
    assert _run("fork_server._become = lambda *_: os._exit(1)", _DEAD) == ["True", "0", "2 0"]
