"""One worker process as its manager sees it: the process, its socket, its jobs and figures."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import multiprocessing
import os
import re
import signal
import socket
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from app import logs
from app.config import Settings
from app.models.jobs.workers import (
    Began,
    Ended,
    Leaving,
    Ready,
    Tick,
    WorkerSpec,
    decode_message,
    encode_orders,
)
from queue_manager.fork_server import copy_this_process
from queue_manager.policy import UNKNOWN_EXIT, WorkerView

_log = logs.get(__name__)

#: The worker's code, by name: only the fork server loads it, once; the manager never does.
ENTRY = "workers.main"
_LOADED = "workers.preload"
_PRELOADED = [_LOADED, __name__]
_PACKET = 4096
_RESIDENT = re.compile(rb"^Rss(?:Anon|Shmem):\s+(\d+) kB$", re.MULTILINE)
_context = multiprocessing.get_context("forkserver")


def copy_fork_server() -> None:
    """Start the fork server as a copy of this process, if it has no other thread yet; doesn't wait for it.

    Raises:
        OSError: A process couldn't be created.
    """
    copy_this_process(_PRELOADED)


def warm_up() -> None:
    """Start the fork server and wait until it has loaded everything that workers need; takes 1–2 seconds.

    Each worker then starts in 20 ms and shares these memory pages.

    Raises:
        OSError, EOFError: A process couldn't be created.
    """
    _context.set_forkserver_preload(_PRELOADED)
    first = _context.Process(target=_nothing, daemon=True)
    first.start()
    first.join()
    first.close()


def _nothing() -> None:
    """Do nothing; the fork is the purpose."""


def measure_memory(process: psutil.Process) -> int:
    """Return a process' resident bytes.

    On Linux, mapped files such as the search index don't count: the system can take their memory back. Shared
    memory without a file counts. Source: proc(5), ``/proc/pid/status``.

    Raises:
        psutil.NoSuchProcess: it has ended.
    """
    with contextlib.suppress(OSError):
        found = _RESIDENT.findall(Path(f"/proc/{process.pid}/status").read_bytes())
        if len(found) == 2:
            return sum(map(int, found)) << 10
    return int(process.memory_info().rss)


@dataclasses.dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that runs in a worker; times are monotonic seconds."""

    id: str
    task: str
    queue: str
    since: float
    deadline: float


class WorkerProcess:
    """A worker process, used only by the manager's event loop."""

    def __init__(self, spec: WorkerSpec, settings: Settings) -> None:
        self.spec = spec
        self._settings = settings
        self.line, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.line.setblocking(False)
        self._pipe, self._lifeline = _context.Pipe(duplex=False)
        self._process = _context.Process(
            target=enter, args=(ENTRY, spec, settings, self._theirs, self._pipe), name=spec.name, daemon=True
        )
        self.pid = 0
        self._watched: psutil.Process | None = None
        self._born = self._sign = time.monotonic()
        self._running: dict[str, RunningJob] = {}
        self.done = 0
        self._ready = False
        self._rss = 0
        self._leaving: float | None = None
        self._reason: str | None = None
        self.killed: str | None = None

    def start(self) -> None:
        """Start the process; blocks for the fork, about 20 ms.

        Raises:
            OSError, EOFError: The process couldn't be created; nothing is left open.
        """
        with self._theirs, self._pipe:
            try:
                self._process.start()
            except (OSError, EOFError):
                self._close()
                raise
        assert self._process.pid is not None  # noqa: S101 — it has been started
        self.pid = self._process.pid

    @property
    def sentinel(self) -> int:
        """A descriptor that becomes readable when the process has ended."""
        return self._process.sentinel

    def build_view(self, now: float) -> WorkerView:
        """Return the values that the policy needs."""
        return WorkerView(
            name=self.spec.name,
            group=self.spec.group,
            born=self._born,
            last_sign=self._sign,
            rss=self._rss,
            ready=self._ready,
            mode=self.spec.mode,
            deadlines=tuple(run.deadline for run in self._running.values()),
            leaving=self._leaving,
            reason=self._reason,
            killed=self.killed,
        )

    def measure(self) -> None:
        """Measure the resident memory; takes 25 µs."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._watched = self._watched or psutil.Process(self.pid)
            self._rss = measure_memory(self._watched)

    def read_messages(self) -> None:
        """Read all messages that have arrived."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while packet := self.line.recv(_PACKET):
                self._sign = time.monotonic()
                self._heed(packet)

    def _heed(self, packet: bytes) -> None:
        try:
            message = decode_message(packet)
        except ValueError:
            _log.warning("message_unreadable", worker=self.spec.name, length=len(packet))
            return
        match message:
            case Ready():
                self._ready = True
            case Began(job_id, limit, task, queue):
                if self.spec.mode == "solo":
                    self._running.clear()  # one job at a time: a start implies the end of the last
                self._running[job_id] = RunningJob(job_id, task, queue, self._sign, self._sign + limit)
            case Ended(job_id):
                self._running.pop(job_id, None)
            case Tick(done):
                self.done = done
            case Leaving():
                self._leaving = self._leaving or self._sign

    def extend_deadlines(self, seconds: float) -> None:
        """Allow more time for the worker's next sign of life, its jobs and its end."""
        self._sign = min(time.monotonic(), self._sign + seconds)
        if self._leaving is not None:
            self._leaving = min(time.monotonic(), self._leaving + seconds)
        self._running = {
            job_id: dataclasses.replace(run, deadline=run.deadline + seconds)
            for job_id, run in self._running.items()
        }

    def send_orders(self, spec: WorkerSpec) -> None:
        """Send new orders; a worker that can't read them now gets the next ones."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            self.line.send(encode_orders(spec))
            self.spec = spec

    def stop(self, reason: str) -> None:
        """Ask the worker to end."""
        self._leaving, self._reason = time.monotonic(), reason
        self._signal(signal.SIGTERM)

    def kill(self, reason: str) -> None:
        """Kill the worker now."""
        self.killed = reason
        self._signal(signal.SIGKILL)

    def reap_process(self) -> int | None:
        """Return the exit code of the ended process, and free its resources."""
        self.read_messages()
        self._process.join()
        code = self._process.exitcode
        # If the fork server dies, its children live on but count as ended, so kill them.
        if code == UNKNOWN_EXIT:
            self._signal(signal.SIGKILL)
        self._process.close()
        self._close()
        return code

    def _close(self) -> None:
        self.line.close()
        self._lifeline.close()

    @property
    def was_ready(self) -> bool:
        return self._ready

    @property
    def is_calm(self) -> bool:
        """Whether it is ready, runs no job, and wasn't told to end."""
        return self._ready and not self._running and self._leaving is None and self.killed is None

    @property
    def running(self) -> list[RunningJob]:
        """The jobs that the worker runs, or was running when it ended."""
        return list(self._running.values())

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


def enter(entry: str, spec: WorkerSpec, settings: Settings, line: socket.socket, pipe: Connection) -> None:
    """Run the worker's code in the child process."""
    # Ctrl-C reaches the whole process group. Until the worker can end cleanly, only its manager decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    module: Any = importlib.import_module(entry)
    module.run(spec, settings, line, pipe)
