"""The guards are guarded: with one of them switched off, its own tests fail.

Each mutation is a plugin that the tests of the guard load in a process of their own; it edits the text of
a script of ours as it is read, or replaces a function, so that what runs needs no hook: nothing of it is
installed, and there is no switch that somebody could leave on.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.config import Settings
from tests.faults.system import LONG
from tests.support.imports import OURS, REPO

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
from workers.updater import lease

def write(self, fill):
    with self._client.pipeline(transaction=True) as pipe:
        fill(pipe)
        return pipe.execute()

lease.Lease.write = write
"""
_HELD_BY_ALL = """
from workers.updater import lease

assert "'NX', " in lease._HOLD, "the guard has moved"
lease._HOLD = lease._HOLD.replace("'NX', ", "")
"""
_LATE_STATE = """
from app.mappers.feeds import feeds

build_state_update = feeds.build_state_update

def unguarded(write):
    update = build_state_update(write)
    assert update._filter.pop("claim_token"), "the guard has moved"
    return update

feeds.build_state_update = unguarded
"""
_CLAIMED_TWICE = """
from app.mappers.feeds import feeds

take_over = feeds.FeedMapper._take_over

def unguarded(self, feed_ids, taken, now, dead_tokens):
    take_over(self, feed_ids, taken, taken["claimed_until"].replace(year=8000), dead_tokens)

feeds.FeedMapper._take_over = unguarded
"""

_MARKED_EARLY = """
from app.services.reading import indexing

commit = indexing.IndexService._commit

def unguarded(self, batch):
    self._gateway.mark_indexed(*batch.feeds.values())
    commit(self, batch)

indexing.IndexService._commit = unguarded
"""
_ADDED_TWICE = """
from app.adapters.search import tantivy_index

def add(self, entries):
    for entry in entries:
        self._writer.add_document(self._make(entry))

tantivy_index.IndexWriter.add = add
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
NUMBERING, SEARCH = "tests/feeds/test_entry_writer.py", "tests/reading/test_search_index.py"
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
    "fencing: an earlier run may end a later one": _of(
        "finish.lua",
        "since ~= tonumber(ARGV[15]) or ",
        "",
        f"{ENQUEUE}::test_an_earlier_run_cannot_end_a_later_one",
    ),
    "fencing: who lost his claim to a feed stores what it says": Mutation(
        _LATE_STATE, f"{NUMBERING}::test_a_late_writer_without_entries_changes_nothing_either"
    ),
    "lease: a feed that is claimed is claimed again": Mutation(
        _CLAIMED_TWICE, f"{NUMBERING}::test_a_claim_is_held_by_one_until_it_runs_out"
    ),
    "lease: a worker whose manager was lost goes on taking": _of(
        "take.lua",
        "if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then",
        "if false then",
        f"{ENQUEUE}::test_only_the_worker_that_holds_a_job_can_end_it",
    ),
    "lease: everybody holds it": Mutation(
        _HELD_BY_ALL, f"{UPDATER}::test_only_the_holder_of_the_lease_queues"
    ),
    "search: marks are removed before the commit": Mutation(
        _MARKED_EARLY, f"{SEARCH}::test_a_commit_that_fails_keeps_the_marks"
    ),
    "search: a changed entry is added again": Mutation(
        _ADDED_TWICE, f"{SEARCH}::test_the_index_has_what_a_naive_one_has_after_any_changes"
    ),
    "lease: who lost it writes all the same": Mutation(
        _LEASE, f"{UPDATER}::test_a_zombie_queues_nothing_even_between_its_last_check_and_its_writing"
    ),
}


def _run(names: Sequence[str], folder: Path, *, mutated: bool) -> subprocess.CompletedProcess[str]:
    """Run the tests of these guards, with or without the guards."""
    plugins = [MUTATIONS[name].plugin for name in names] if mutated else []
    # Each with names of its own: some wrap the same function.
    (folder / "mutation.py").write_text("\n".join(f"exec({plugin!r}, {{}})" for plugin in plugins))
    quiet = ["-q", "-p", "mutation", "-p", "no:randomly", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, *(MUTATIONS[name].test for name in names)],
        cwd=REPO,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{REPO}"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


#: Each is a start of pytest with its services: the short form takes one guard of each kind, all at once.
CHOSEN = (
    "identity: a waiting job is queued again",
    "fencing: an earlier attempt may end a later one",
    "lease: who lost it writes all the same",
)


@pytest.mark.parametrize("names", [(name,) for name in MUTATIONS] if LONG else [CHOSEN], ids="; ".join)
def test_a_guard_that_is_switched_off_is_missed(names: tuple[str, ...], tmp_path: Path) -> None:
    done = _run(names, tmp_path, mutated=True)
    # Failed, not "nothing was found" or "could not be read".
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-3000:]
    assert f"\n{len(names)} failed in" in done.stdout, done.stdout[-3000:]
    assert "the guard has moved" not in done.stdout


def test_without_a_mutation_the_same_tests_pass(tmp_path: Path) -> None:
    done = _run(tuple(MUTATIONS) if LONG else CHOSEN, tmp_path, mutated=False)
    assert done.returncode == 0, done.stdout[-3000:]


#: Words that a switch for these mutations would need in what is installed.
_SWITCHES = re.compile(r"mutation|sitecustomize|PYTEST|FAULTS")


def _switches(text: str) -> list[str]:
    return _SWITCHES.findall(text)


def test_nothing_that_is_installed_has_a_switch_for_its_guards() -> None:
    found = [
        f"{path}: {word}"
        for package in OURS
        for path in sorted((REPO / package).rglob("*"))
        if path.suffix in {".py", ".lua", ".toml"}
        for word in _switches(path.read_text("utf-8"))
    ]
    assert not found
    # Behaviour is set by settings alone, and none of them names a guard.
    guards = ("fenc", "guard", "ident", "unsafe", "test")
    assert not [f.name for f in dataclasses.fields(Settings) if any(word in f.name for word in guards)]


def test_a_switch_is_caught() -> None:
    assert _switches("if os.environ.get('FAULTS'): return") == ["FAULTS"]
