"""``.ci/chromium`` installs a browser where there is none, and says in a sentence why it cannot."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.bare_machine import NOTHING, BareMachine
from tests.support.imports import REPO

RUNS = "#!/bin/bash\necho Chromium 1"
STUB = "#!/bin/bash\necho 'This needs a snap' >&2; exit 1"


@pytest.fixture
def machine(tmp_path: Path) -> BareMachine:
    return BareMachine(tmp_path / "bin", "chromium")


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_a_browser_that_runs_is_enough(machine: BareMachine, name: str) -> None:
    machine.has(name, RUNS)
    machine.brings("chromium", as_script=RUNS)
    assert machine.run() == (0, "")
    assert machine.calls == []


@pytest.mark.parametrize("can", [RUNS, None], ids=["there", "nowhere to be had"])
def test_a_browser_of_debian_gets_its_windowless_build_beside_it(
    machine: BareMachine, can: str | None
) -> None:
    machine.has("chromium", RUNS)
    machine.has("dpkg-query", RUNS)
    machine.brings("chromium", as_script=can or NOTHING, works=can is not None)
    assert machine.run() == (0, "")
    assert machine.calls[-1] == "install -qq -y --no-install-recommends chromium-headless-shell"
    machine.has("chromium-headless-shell", RUNS)
    known = machine.calls
    assert machine.run() == (0, "")
    assert machine.calls == known


def test_what_the_setting_names_has_to_be_a_program(machine: BareMachine, tmp_path: Path) -> None:
    machine.has("own", RUNS)
    assert machine.run(EVENTR_CHROMIUM=str(machine.folder / "own")) == (0, "")
    for wrong in (tmp_path, tmp_path / "missing"):
        code, said = machine.run(EVENTR_CHROMIUM=str(wrong))
        assert (code, said) == (1, f"EVENTR_CHROMIUM is {wrong}, which isn't an executable program.\n")


@pytest.mark.parametrize("stub", [False, True], ids=["nothing there", "a stub that does not run"])
def test_the_package_is_installed_also_with_old_lists(machine: BareMachine, stub: bool) -> None:
    if stub:
        machine.has("chromium-browser", STUB)
    machine.brings("chromium", as_script=RUNS)
    code, _ = machine.run()
    assert code == 0
    assert machine.calls[0] == "update -qq"
    assert machine.calls[1].startswith("install -qq -y --no-install-recommends chromium ")


@pytest.mark.parametrize(
    ("package", "words"),
    [(None, "the installation failed"), (STUB, "the installed package doesn't run")],
)
def test_an_install_that_does_not_help_is_told(machine: BareMachine, package: str | None, words: str) -> None:
    machine.brings("chromium", as_script=package or NOTHING, works=package is not None)
    code, said = machine.run()
    assert code == 1
    assert words in said.splitlines()[-1]
    assert said.splitlines()[-1].startswith("The browser tests need Chromium: ")


def test_without_apt_or_root_it_says_what_to_install(machine: BareMachine) -> None:
    code, said = machine.run()
    assert (code, said.count("\n")) == (1, 1)
    assert "install your distribution's package" in said
    machine.brings("chromium", as_script=RUNS)
    machine.has("id", "#!/bin/bash\necho 1000")
    assert machine.run() == (code, said)
    assert machine.calls == []


def test_the_script_of_this_machine_finds_its_browser() -> None:
    done = subprocess.run([REPO / ".ci" / "chromium"], env=os.environ, timeout=120, check=False)
    assert done.returncode == 0
