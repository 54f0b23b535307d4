"""What the tests of the REPL need: the command as a process, a bare client, a terminal with a screen."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyte

from app.commands.repl.link import ManagerClient, make_local_dial
from app.config import Settings
from queue_manager.control import listen
from tests.jobs import support

#: The command as a person starts it.
EVENTR = (sys.executable, "-m", "app", "repl")


def environment(settings: Settings) -> dict[str, str]:
    return {**os.environ, "EVENTR_HOME": str(settings.home), "PYTHONPATH": str(support.REPO)}


def run(settings: Settings, *args: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``eventr repl`` with these arguments; ``given`` is what it reads from a pipe."""
    return subprocess.run(
        [*EVENTR, *args],
        cwd=support.REPO,
        env=environment(settings),
        input=given if given is not None else "",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def ask(settings: Settings, command: str) -> Any:
    """Return the result of one command, through the command line's own connection."""
    with contextlib.closing(ManagerClient(make_local_dial(settings, None))) as link:
        return link.run_command(command.split())


def audit(process: support.Process) -> list[str]:
    """The lines that tell of commands in a manager's log."""
    return [line for line in process.log.read_text().splitlines() if " repl_command " in line]


class Client:
    """Speaks to the socket without any of our client's manners."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        line.settimeout(30)
        self._stream = line.makefile("rb")

    def send(self, data: bytes) -> None:
        self.line.sendall(data)

    def read(self) -> Any:
        """One message; None at the end."""
        line = self._stream.readline()
        return json.loads(line) if line else None

    def ask(self, *words: str, number: int = 1) -> Any:
        self.send(json.dumps({"id": number, "cmd": words}).encode() + b"\n")
        return self.read()

    def rest(self) -> bytes:
        """All that still comes until the manager hangs up."""
        parts = []
        with contextlib.suppress(ConnectionError):
            while part := self.line.recv(1 << 16):
                parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        self._stream.close()
        self.line.close()


@contextlib.contextmanager
def client(settings: Settings, pid: int) -> Iterator[Client]:
    """A bare client of a manager's socket."""
    with contextlib.closing(Client(listen.connect(listen.get_socket_path(settings, pid)))) as made:
        yield made


@contextlib.contextmanager
def greeted(settings: Settings, pid: int) -> Iterator[Client]:
    """The same, after the manager's first words."""
    with client(settings, pid) as made:
        hello = made.read()
        assert hello["ok"], hello
        yield made


class _Screen(pyte.Screen):
    """A screen that answers when it is asked where its cursor is."""

    def __init__(self, columns: int, lines: int, answer: Callable[[bytes], None]) -> None:
        super().__init__(columns, lines)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data.encode())


#: Makes the terminal at its input the one whose Ctrl-C reaches it, then becomes the program.
_OWN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A process in a terminal of its own: keys go in, and the screen is what a person would see."""

    def __init__(self, settings: Settings, *args: str, columns: int = 120, lines: int = 40) -> None:
        self._master, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _OWN_TERMINAL, *EVENTR, *args],
            cwd=support.REPO,
            env={**environment(settings), "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._screen = _Screen(columns, lines, self._write)
        self._stream = pyte.ByteStream(self._screen)
        self._drawing = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def type(self, keys: str) -> None:
        """Press keys."""
        self._write(keys.encode())

    def text(self) -> str:
        """What is on the screen now."""
        with self._drawing:
            return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def prompts(self) -> list[str]:
        """What stands behind the prompts, the line that is being edited last."""
        return re.findall(r"^eventr \d+> ?(.*)$", self.text(), re.MULTILINE)

    def end(self) -> int:
        """Wait for the end of the process and return its exit code."""
        code = self.process.wait(30)
        self._reader.join(30)
        return code

    def close(self) -> None:
        self.process.kill()
        self.end()
        os.close(self._master)

    def _write(self, data: bytes) -> None:
        os.write(self._master, data)

    def _read(self) -> None:
        # EIO: the process has closed its side.
        with contextlib.suppress(OSError):
            while data := os.read(self._master, 1 << 16):
                with self._drawing:
                    self._stream.feed(data)


@contextlib.contextmanager
def terminal(settings: Settings, *args: str) -> Iterator[Terminal]:
    """A REPL in a terminal; killed at the end if it still runs."""
    with contextlib.closing(Terminal(settings, *args)) as made:
        yield made


def mode(path: Path) -> int:
    """Permission bits."""
    return path.stat().st_mode & 0o777


def values(rows: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """Rows by their name."""
    return {row[name]: row for row in rows}
