"""The guards are guarded: with one of them switched off, its own tests fail.

Each mutation is a plugin that the tests of the guard load in a process of their own; it edits the text of
a script of ours as it is read, so that no hook is needed in what runs.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.system import LONG
from tests.support.imports import REPO

_PLUGIN = """
from importlib import resources
from pathlib import Path

_read = Path.read_text

def read_text(path, *args, **options):
    text = _read(path, *args, **options)
    if path.name == {file!r}:
        assert {old!r} in text, "the guard has moved"
        text = text.replace({old!r}, {new!r})
    return text

Path.read_text = read_text
"""
_LEASE = """
from workers import lease

def write(self, fill):
    with self._client.pipeline(transaction=True) as pipe:
        fill(pipe)
        return pipe.execute()

lease.Lease.write = write
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Mutation:
    """A guard that is taken away, and the test that must see it.

    Attributes:
        plugin: Python that takes it away.
        test: name of the guard's own test.
    """

    plugin: str
    test: str


def _of(file: str, old: str, new: str, test: str) -> Mutation:
    return Mutation(_PLUGIN.format(file=file, old=old, new=new), test)


ENQUEUE, UPDATER = "tests/jobs/test_enqueue.py", "tests/jobs/test_updater.py"
MUTATIONS = {
    "identity: a waiting job is queued again": _of(
        "enqueue.lua",
        "if status == 'queued' or status == 'started' or",
        "if",
        f"{ENQUEUE}::test_the_same_job_is_queued_once",
    ),
    "identity: what was pushed twice runs twice": _of(
        "take.lua",
        "'status') == 'queued' then",
        "'status') then",
        f"{ENQUEUE}::test_ids_pushed_twice_run_once",
    ),
    "fencing: anybody may end a job": _of(
        "finish.lua",
        " or redis.call('LREM', KEYS[2], 1, id) == 0",
        "",
        f"{ENQUEUE}::test_only_the_worker_that_holds_a_job_can_end_it",
    ),
    "fencing: an earlier attempt may end a later one": _of(
        "finish.lua",
        "row[1] ~= ARGV[2] or ",
        "",
        f"{ENQUEUE}::test_an_earlier_attempt_cannot_end_a_later_one",
    ),
    "lease: who lost it writes all the same": Mutation(
        _LEASE, f"{UPDATER}::test_a_zombie_queues_nothing_even_between_its_last_check_and_its_writing"
    ),
}


def _run(test: str, folder: Path, plugin: str) -> subprocess.CompletedProcess[str]:
    (folder / "mutation.py").write_text(plugin)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "mutation",
            "-p",
            "no:randomly",
            "-p",
            "no:cacheprovider",
            test,
        ],
        cwd=REPO,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{REPO}"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


#: Each is a start of pytest with its services: the short form takes one of each kind.
CHOSEN = [
    "identity: a waiting job is queued again",
    "fencing: an earlier attempt may end a later one",
    "lease: who lost it writes all the same",
]


@pytest.mark.parametrize("name", MUTATIONS if LONG else CHOSEN)
def test_a_guard_that_is_switched_off_is_missed(name: str, tmp_path: Path) -> None:
    mutation = MUTATIONS[name]
    done = _run(mutation.test, tmp_path, mutation.plugin)
    # Failed, not "nothing was found" or "could not be read".
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-3000:]
    assert "1 failed" in done.stdout, done.stdout[-3000:]
    assert "the guard has moved" not in done.stdout


def test_without_a_mutation_the_same_tests_pass(tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "mutation.py").write_text("")
    tests = [MUTATIONS[name].test for name in (MUTATIONS if LONG else CHOSEN)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutation", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{REPO}"}
    done = subprocess.run(command, cwd=REPO, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
