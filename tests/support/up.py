"""Runs a real ``eventr up`` in a home of its own, and sees what it leaves behind."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import psutil

from app.config import Settings
from app.embedded.child import poll
from tests.support.imports import REPO

#: A first start with all its imports, on a machine that has other things to do.
START = 150.0
#: The start of the line that ``eventr up`` prints when all parts answer.
_RUNNING = "Eventr is running at"


class Up:
    """One ``eventr up``; ``environment`` adds to its settings, and an empty value leaves a setting's default.

    Args:
        command: the program to run, by default that of this checkout.
        folder: its working directory.
    """

    def __init__(
        self,
        home: Path,
        port: int = 0,
        *,
        command: Sequence[str] = (sys.executable, "-u", "-m", "app", "up"),
        folder: Path = REPO,
        **environment: str,
    ) -> None:
        self.home = home
        self.port = port or free_port()
        given = {
            "EVENTR_HOME": str(home),
            "EVENTR_PORT": str(self.port),
            "EVENTR_WEB_WORKERS": "1",
            "EVENTR_EMBEDDED_CACHE": str(1 << 28),
            **environment,
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("EVENTR_")}
        self.process = subprocess.Popen(
            list(command),
            cwd=folder,
            env={**kept, **{name: value for name, value in given.items() if value}},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._lines: list[str] = []
        # Read all the time: a full pipe would stop the process under test.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def settings(self) -> Settings:
        return Settings(home=self.home, port=self.port)

    @property
    def output(self) -> str:
        return "".join(self._lines)

    def wait_ready(self) -> Up:
        poll(lambda: _RUNNING in self.output or self.process.poll() is not None, START, step=0.05)
        assert _RUNNING in self.output, self.report()
        return self

    def wait_ended(self, timeout: float = 90.0) -> int:
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        return code

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.wait_ended()

    def processes(self) -> list[psutil.Process]:
        """Return ``eventr up`` and all its descendants."""
        top = psutil.Process(self.process.pid)
        return [top, *top.children(recursive=True)]

    def log(self, name: str = "up") -> str:
        path = self.home / "log" / f"{name}.log"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def pids(self) -> dict[str, int]:
        """Return the newest process of each part, as the log tells it."""
        return {m["part"]: int(m["pid"]) for m in _STARTED.finditer(self.log())}

    def status(self, path: str = "/healthz") -> int | None:
        """Return the status of a GET, or None where nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except OSError:
            return None
        finally:
            connection.close()

    def report(self) -> str:
        logs = {path.name: path.read_text("utf-8", "replace")[-1500:] for path in self.home.glob("log/*.log")}
        return "\n".join([self.output, *(f"--- {name}\n{text}" for name, text in logs.items())])

    def kill(self) -> None:
        """End everything, for the end of a test that went wrong."""
        if self.process.poll() is None:
            kill_all(self.processes())
        self.wait_ended()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.append(line)


_STARTED = re.compile(r"part_started part=(?P<part>\w+) pid=(?P<pid>\d+)")


def free_port(count: int = 1) -> int:
    """Return the first of so many ports in a row on which nobody listens.

    Not one that the system would choose: those it hands out to any connection of anybody, so that they may
    be taken before they are used. Until this process ends, no other run of the tests gets the same ports.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    dice = random.SystemRandom()
    while True:
        first = dice.randrange(lowest // 2, lowest - count)
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            for number in range(count):
                probe = probes.enter_context(socket.socket())
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
                probe.bind(("127.0.0.1", first + number))
            _reserve_ports(range(first, first + count))
            return first


#: Descriptors of the locks of the ports that this process was given.
_reserved: list[int] = []


def _reserve_ports(ports: range) -> None:
    """Lock ports against other runs of the tests on this machine, until this process ends.

    Raises:
        OSError: another run has one of them.
    """
    folder = Path(tempfile.gettempdir()) / f"eventr-test-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.ExitStack() as opened:
        locks = []
        for port in ports:
            locks.append(os.open(folder / str(port), os.O_WRONLY | os.O_CREAT, 0o600))
            opened.callback(os.close, locks[-1])
            fcntl.flock(locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        opened.pop_all()
        _reserved.extend(locks)


def release_ports(count: int) -> None:
    """Give back the last ports that this process was given."""
    for _ in range(count):
        os.close(_reserved.pop())


def is_listening(pid: int, port: int) -> bool:
    """Return whether a process or one of its descendants listens on a port, and not just anybody."""
    try:
        top = psutil.Process(pid)
        processes = [top, *top.children(recursive=True)]
        sockets = [each for process in processes for each in process.net_connections("tcp")]
    except psutil.NoSuchProcess:
        return False
    return any(s.status == psutil.CONN_LISTEN and s.laddr.port == port for s in sockets)


def kill_all(processes: list[psutil.Process]) -> None:
    """Send SIGKILL to all, parents first, before any of them can react."""
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue  # it died with its parent


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return those that still run; a zombie that nobody has reaped yet does not."""
    return [p for p in processes if p.is_running() and _status(p) != psutil.STATUS_ZOMBIE]


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return str(psutil.STATUS_ZOMBIE)
