"""A screen that nobody sees, the programs on it, and a hand on the keyboard."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests.clients.programs.stage import PATIENCE, Eventually, program
from tests.support.up import kill_all

#: Wide enough for every column of every program.
_SCREEN = "1600x1000x24"


class Desk:
    """An X server of its own (Xvfb); ``home`` holds the folders and logs of the programs."""

    def __init__(self, home: Path, eventually: Eventually) -> None:
        self.home = home
        self._eventually = eventually
        self._programs: list[Run] = []

    def __enter__(self) -> Desk:
        reading, writing = os.pipe()
        with (self.home / "screen.log").open("w") as log:
            # It takes a number that is free, and says which when it is ready.
            command = [program("Xvfb"), "-displayfd", str(writing), "-screen", "0", _SCREEN]
            self._server = subprocess.Popen(
                [*command, "-nolisten", "tcp", "-noreset"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[writing],
            )
        os.close(writing)
        with os.fdopen(reading) as said:
            number = said.readline().strip()
        assert number, (self.home / "screen.log").read_text()
        self.display = f":{number}"
        return self

    def __exit__(self, *error: object) -> None:
        for each in self._programs:
            each.kill()
        self._server.terminate()
        self._server.wait(PATIENCE)
        for log in self.home.glob("*.log"):  # shown where the test has failed
            sys.stderr.write(f"--- {log.stem}\n{log.read_text('utf-8', 'replace')[-2000:]}\n")

    def start(self, *command: str, title: str, **environment: str) -> Run:
        """Start a program with a home, a session bus and nothing else of ours.

        Args:
            title: a regular expression of what stands above its window.
        """
        given = {"DISPLAY": self.display, **environment}
        run = Run([program("dbus-run-session"), "--", *command], title, self.home, given, self._eventually)
        self._programs.append(run)
        return run


class Run:
    """A program, its window and its end."""

    def __init__(
        self, command: list[str], title: str, home: Path, environment: dict[str, str], eventually: Eventually
    ) -> None:
        self._title, self._eventually, self._ended = title, eventually, False
        runtime = home / "runtime"
        runtime.mkdir(mode=0o700, exist_ok=True)
        self._environment = {
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PATH": os.environ["PATH"],
            "XDG_RUNTIME_DIR": str(runtime),
            # It asks nobody but the server: icons of sites and new versions of itself are not wanted.
            **dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9"),
            "no_proxy": "127.0.0.1",
            **environment,
        }
        self.log = home / f"{Path(command[2]).name}.log"
        with self.log.open("a") as out:
            self.process = subprocess.Popen(
                command,
                cwd=home,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def press(self, *keys: str) -> None:
        """Press keys in the program's window, as ``ctrl+n``."""
        self._eventually(self._focus, PATIENCE, f"{self.log.stem} has the keyboard")
        assert self._do("key", "--delay", "40", *keys).returncode == 0

    def window(self) -> None:
        """Wait until its window is seen."""
        self._eventually(self._windows, PATIENCE, f"a window of {self.log.stem}")

    def _windows(self) -> list[str]:
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        return self._do("search", "--onlyvisible", "--name", self._title).stdout.split()

    def _focus(self) -> bool:
        # What was found may be gone again: a program shows another window while it starts.
        found = self._windows()
        return bool(found) and self._do("windowfocus", "--sync", found[-1]).returncode == 0

    def _do(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program("xdotool"), *command],
            env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip

    def wait(self) -> None:
        """Wait until it has ended by itself."""
        self.process.wait(PATIENCE)
        self.kill()

    def kill(self) -> None:
        """End it with all that it has started; but once, since its number may be another one's then."""
        if self._ended:
            return
        self._ended = True
        group = self.process.pid
        kill_all([p for p in psutil.process_iter() if _group(p) == group])
        self.process.wait(PATIENCE)


def _group(process: psutil.Process) -> int:
    try:
        return os.getpgid(process.pid)
    except ProcessLookupError:
        return 0
