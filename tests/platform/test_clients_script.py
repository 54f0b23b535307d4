"""``.ci/clients`` installs the programs that tests drive where they are not, and says why it cannot."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.imports import REPO

SCRIPT = REPO / ".ci" / "clients"
PROGRAMS = ("newsboat", "liferea", "rssguard", "Xvfb", "xdotool", "dbus-run-session", "tmux")
NOTHING = "#!/bin/bash"


class Machine:
    """A PATH with nothing on it but what a test puts there; its user is root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bash").symlink_to(shutil.which("bash") or "/bin/bash")
        self.has("id", "#!/bin/bash\necho 0")

    def has(self, name: str, script: str = NOTHING) -> None:
        """Put a program there."""
        (self.folder / name).write_text(script + "\n")
        (self.folder / name).chmod(0o755)

    def installs(self, *programs: str, works: bool = True) -> None:
        """Let ``apt-get`` note its calls and bring these programs; its lists cannot be renewed."""
        self.has("nothing")
        bring = "".join(f"{shutil.which('cp')} {self.folder}/nothing {self.folder}/{p}\n" for p in programs)
        notes = f'#!/bin/bash\necho "$*" >> {self.folder}/calls\n[[ $1 == install ]] || exit 100\n'
        self.has("apt-get", f"{notes}{bring}{'' if works else 'exit 100'}")

    def run(self) -> tuple[int, str]:
        """Run the script; return its exit code and what it said on stderr."""
        done = subprocess.run(
            ["/usr/bin/env", "-i", f"PATH={self.folder}", str(self.folder / "bash"), str(SCRIPT)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    @property
    def calls(self) -> list[str]:
        """What ``apt-get`` was called with."""
        calls = self.folder / "calls"
        return calls.read_text().splitlines() if calls.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    folder = tmp_path / "bin"
    folder.mkdir()
    return Machine(folder)


def test_nothing_is_installed_where_all_are_there(machine: Machine) -> None:
    machine.installs()
    for name in PROGRAMS:
        machine.has(name)
    assert machine.run() == (0, "")
    assert machine.calls == []


def test_what_is_missing_is_installed_also_with_old_lists(machine: Machine) -> None:
    for name in PROGRAMS[1:5]:
        machine.has(name)
    machine.installs(*PROGRAMS)
    assert machine.run()[0] == 0
    assert machine.calls[0] == "update -qq"
    words = machine.calls[1].split()
    assert (words[0], words[-3:]) == ("install", ["newsboat", "dbus", "tmux"])


@pytest.mark.parametrize(
    ("brought", "works", "words"),
    [
        (PROGRAMS, False, "the installation failed"),
        (PROGRAMS[:-1], True, "the installed packages don't include them"),
    ],
)
def test_an_install_that_does_not_help_is_told(
    machine: Machine, brought: tuple[str, ...], works: bool, words: str
) -> None:
    machine.installs(*brought, works=works)
    code, said = machine.run()
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith("The client tests need ")
    assert words in said


def test_without_apt_or_root_it_says_what_to_install(machine: Machine) -> None:
    for name in PROGRAMS[:4]:
        machine.has(name)
    said = (
        "The client tests need xdotool dbus-run-session tmux: install your distribution's packages "
        "(on Debian: apt-get install xdotool dbus tmux).\n"
    )
    assert machine.run() == (1, said)
    machine.installs(*PROGRAMS)
    machine.has("id", "#!/bin/bash\necho 1000")
    assert machine.run() == (1, said)
    assert machine.calls == []


def test_the_script_of_this_machine_finds_its_programs() -> None:
    assert subprocess.run([SCRIPT], timeout=120, check=False).returncode == 0
