"""A machine with nothing on its PATH but what a test puts there, for the scripts in ``.ci``."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.imports import REPO

NOTHING = "#!/bin/bash"


class BareMachine:
    """Runs one of the scripts in ``.ci`` as root, with programs of the test's own.

    Args:
        folder: becomes the only folder on the PATH; created.
        script: name of the script.
    """

    def __init__(self, folder: Path, script: str) -> None:
        folder.mkdir()
        self.folder, self._script = folder, REPO / ".ci" / script
        (folder / "bash").symlink_to(shutil.which("bash") or "/bin/bash")
        self.has("id", "#!/bin/bash\necho 0")

    def has(self, name: str, script: str = NOTHING) -> None:
        """Put a program on the PATH."""
        (self.folder / name).write_text(script + "\n")
        (self.folder / name).chmod(0o755)

    def brings(self, *programs: str, as_script: str = NOTHING, works: bool = True) -> None:
        """Let ``apt-get`` log its calls and install these programs; it can't update its lists."""
        self.has("package", as_script)
        copies = "".join(f"{shutil.which('cp')} {self.folder}/package {self.folder}/{p}\n" for p in programs)
        logs = f'#!/bin/bash\necho "$*" >> {self.folder}/calls\n[[ $1 == install ]] || exit 100\n'
        self.has("apt-get", f"{logs}{copies}{'' if works else 'exit 100'}")

    def run(self, **environment: str) -> tuple[int, str]:
        """Run the script and return its exit code and stderr."""
        variables = [f"{name}={value}" for name, value in environment.items()]
        command = ["/usr/bin/env", "-i", f"PATH={self.folder}", *variables, str(self.folder / "bash")]
        done = subprocess.run(
            [*command, str(self._script)], capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stderr

    @property
    def calls(self) -> list[str]:
        """The arguments of each call of ``apt-get``."""
        calls = self.folder / "calls"
        return calls.read_text().splitlines() if calls.exists() else []
