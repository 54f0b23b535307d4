"""``.ci/fonts`` installs fonts for pictures of screens, and says what is missing without failing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bare_machine import NOTHING, BareMachine

ALL = "#!/bin/bash\necho Noto"
NO_EMOJI = "#!/bin/bash\n[[ $1 == *lang* ]] && echo Noto; exit 0"
INSTALL = "install -qq -y --no-install-recommends fontconfig fonts-noto-cjk fonts-noto-color-emoji"


@pytest.fixture
def machine(tmp_path: Path) -> BareMachine:
    return BareMachine(tmp_path / "bin", "fonts")


def test_fonts_that_are_there_are_enough(machine: BareMachine) -> None:
    machine.has("fc-list", ALL)
    machine.brings("fc-list", as_script=ALL)
    assert machine.run() == (0, "")
    assert machine.calls == []


@pytest.mark.parametrize("before", [NOTHING, NO_EMOJI, None], ids=["none", "no emoji", "no list"])
def test_missing_fonts_are_installed(machine: BareMachine, before: str | None) -> None:
    if before:
        machine.has("fc-list", before)
    machine.brings("fc-list", as_script=ALL)
    assert machine.run() == (0, "")
    assert machine.calls[-1] == INSTALL


@pytest.mark.parametrize("root", [True, False])
def test_pictures_are_drawn_without_fonts_that_cannot_be_had(machine: BareMachine, root: bool) -> None:
    if not root:
        machine.has("id", "#!/bin/bash\necho 1000")
    machine.brings(works=False)
    code, said = machine.run()
    assert code == 0
    assert "apt-get install fonts-noto-cjk fonts-noto-color-emoji" in said
    assert bool(machine.calls) is root
