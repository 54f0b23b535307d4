"""Resources of a program with all of its processes, from /proc: CPU time, bytes written, memory."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil

_TICKS = os.sysconf("SC_CLK_TCK")
_MB = 1e6


class Family:
    """A process and its descendants, ended ones included as far as their parents waited for them.

    A process that has ended counts in its parent (``cutime`` and ``cstime``, and likewise in ``io``). So the
    sum over the living ones never shrinks.
    """

    def __init__(self, pid: int) -> None:
        self._top = psutil.Process(pid)

    def cpu(self) -> float:
        """Return the CPU seconds so far, user and system."""
        return sum(self.cpu_by_name().values())

    def cpu_by_name(self) -> dict[str, float]:
        """Return the CPU seconds so far by kind of process."""
        found: dict[str, float] = {}
        for process in self._living():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = (
                    Path(f"/proc/{process.pid}/stat").read_text("ascii", "replace").rsplit(")", 1)[1].split()
                )
                name = get_name(process)
                # utime, stime, cutime, cstime: fields 14 to 17 of proc(5), of which two are cut off.
                found[name] = found.get(name, 0.0) + sum(map(int, fields[11:15])) / _TICKS
        return found

    def written(self) -> int:
        """Return the bytes that were sent to the disk so far."""
        return sum(_read_number(f"/proc/{process.pid}/io", "write_bytes:") for process in self._living())

    def memory_by_name(self) -> dict[str, float]:
        """Return the memory in MB by kind of process: PSS, so shared pages count once."""
        return self._sum_memory("Pss:")

    def own_memory_by_name(self) -> dict[str, float]:
        """Return the memory in MB by kind of process that it has written and that no other one shares.

        That is USS without pages of files: those count as private or not depending on whether another program
        has the same file mapped.
        """
        return self._sum_memory("Private_Dirty:")

    def _sum_memory(self, label: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for process in self._living():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                kilobytes = _read_number(f"/proc/{process.pid}/smaps_rollup", label)
                name = get_name(process)
                found[name] = found.get(name, 0.0) + kilobytes * 1024 / _MB
        return found

    def files_by_name(self) -> dict[str, int]:
        """Return the number of open files by kind of process."""
        found: dict[str, int] = {}
        for process in self._living():
            with contextlib.suppress(psutil.Error, FileNotFoundError):
                name, count = get_name(process), process.num_fds()
                found[name] = found.get(name, 0) + count
        return found

    def memory(self) -> float:
        """Return the memory of all processes together in MB."""
        return sum(self.memory_by_name().values())

    @contextlib.contextmanager
    def peak(self, step: float = 1.0) -> Iterator[list[dict[str, float]]]:
        """Record the memory by kind of process every ``step`` seconds while the block runs."""
        samples, ended = [self.memory_by_name()], threading.Event()

        def watch() -> None:
            while not ended.wait(step):
                samples.append(self.memory_by_name())

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield samples
        finally:
            ended.set()
            thread.join()

    def _living(self) -> list[psutil.Process]:
        return [self._top, *self._top.children(recursive=True)]


def get_name(process: psutil.Process) -> str:
    """Return the kind of an Eventr process: a short name for notes."""
    try:
        line = process.cmdline()
    except psutil.Error:
        return "other"
    text = " ".join(line)
    if "gunicorn" in text:
        return "web"  # its title contains "worker"
    kinds = (
        "worker index",
        "mongod",
        "redis-server",
        "forkserver",
        "resource_tracker",
        "worker",
        "manager",
        "updater",
    )
    return next((kind for kind in (*kinds, "controller", "web") if kind in text), "up")


def _read_number(path: str, label: str) -> int:
    try:
        lines = Path(path).read_text("ascii").splitlines()
    except (OSError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(label)), 0)
