"""``.ci/clients`` installs the programs that tests drive where they are not, and says why it cannot."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.bare_machine import BareMachine
from tests.support.imports import REPO

SCRIPT = REPO / ".ci" / "clients"
PROGRAMS = ("newsboat", "liferea", "rssguard", "Xvfb", "xdotool", "dbus-run-session", "tmux", "strace")
NOTHING = "#!/bin/bash"


@pytest.fixture
def machine(tmp_path: Path) -> BareMachine:
    return BareMachine(tmp_path / "bin", "clients")


def test_nothing_is_installed_where_all_are_there(machine: BareMachine) -> None:
    machine.brings()
    for name in PROGRAMS:
        machine.has(name)
    assert machine.run() == (0, "")
    assert machine.calls == []


def test_what_is_missing_is_installed_also_with_old_lists(machine: BareMachine) -> None:
    for name in PROGRAMS[1:5]:
        machine.has(name)
    machine.brings(*PROGRAMS)
    assert machine.run()[0] == 0
    assert machine.calls[0] == "update -qq"
    words = machine.calls[1].split()
    assert (words[0], words[-3:]) == ("install", ["dbus", "tmux", "strace"])


@pytest.mark.parametrize(
    ("brought", "works", "words"),
    [
        (PROGRAMS, False, "the installation failed"),
        (PROGRAMS[:-1], True, "the installed packages don't include them"),
    ],
)
def test_an_install_that_does_not_help_is_told(
    machine: BareMachine, brought: tuple[str, ...], works: bool, words: str
) -> None:
    machine.brings(*brought, works=works)
    code, said = machine.run()
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith("The client tests need ")
    assert words in said


def test_without_apt_or_root_it_says_what_to_install(machine: BareMachine) -> None:
    for name in PROGRAMS[:4]:
        machine.has(name)
    said = (
        "The client tests need xdotool dbus-run-session tmux strace: install your distribution's packages "
        "(on Debian: apt-get install xdotool dbus tmux strace).\n"
    )
    assert machine.run() == (1, said)
    machine.brings(*PROGRAMS)
    machine.has("id", "#!/bin/bash\necho 1000")
    assert machine.run() == (1, said)
    assert machine.calls == []


def test_the_script_of_this_machine_finds_its_programs() -> None:
    assert subprocess.run([SCRIPT], timeout=120, check=False).returncode == 0
