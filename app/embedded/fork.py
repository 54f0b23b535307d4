"""Children that begin as copies of this process, with all modules loaded.

Such a child starts in a few milliseconds, and its modules share the memory of this process. Everything else
is as in a new process: session, signals, environment, standard streams, and no inherited files.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from app.embedded import lifeline
from app.errors import StartupError
from app.runtime.private_file import open_private

#: Seconds between two looks of a wait with a time limit.
_STEP = 0.01


class ForkedProcess:
    """A child made by fork, with the methods of :class:`subprocess.Popen` that a supervisor needs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs; negative: the signal that ended it."""
        return self._reap(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code.

        Raises:
            subprocess.TimeoutExpired: the process still runs after ``timeout`` seconds.
        """
        if timeout is None:
            self._reap(0)
        else:
            pause, deadline = threading.Event(), time.monotonic() + timeout
            while self.poll() is None:
                if time.monotonic() >= deadline:
                    raise subprocess.TimeoutExpired(str(self.pid), timeout)
                pause.wait(_STEP)
        assert self.returncode is not None  # noqa: S101 — reaped above
        return self.returncode

    def terminate(self) -> None:
        """Ask the process to end."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.poll() is None:  # not reaped, so the id can't belong to another process
            os.kill(self.pid, number)

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # the kernel reaps children of a process that ignores SIGCHLD
                self.returncode = 0
                return self.returncode
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def can_fork() -> bool:
    """Return whether a copy of this process works: on Linux, and while no other thread holds locks."""
    try:
        return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def wait_until_alone(seconds: float) -> bool:
    """Wait until the other threads of this process have ended; return whether they have.

    A driver that was closed ends its threads a little later. Processes that are started meanwhile would be
    new programs, which share no memory.
    """
    deadline = time.monotonic() + seconds
    while not can_fork():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_STEP)
    return True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """What a copy of this process becomes.

    Attributes:
        run: its work; SystemExit sets the exit code.
        arguments: its ``sys.argv``.
        log: file for its output, appended to; it may be truncated while in use.
        env: its environment.
        death_signal: the signal it gets when this process dies.
    """

    run: Callable[[], object]
    arguments: Sequence[str]
    log: Path
    env: Mapping[str, str]
    death_signal: signal.Signals = signal.SIGKILL


def fork(child: Child) -> ForkedProcess:
    """Start a child that gets its signal when this process dies in any way.

    Call it from the main thread: the kernel sends the signal when the forking thread ends.

    Raises:
        StartupError: the log isn't writable or the process can't be created.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    try:
        output = open_private(child.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
    except OSError as e:
        raise StartupError(f"Can't start {child.arguments[0]} ({e.strerror}: {e.filename}).") from e
    try:
        # A signal between fork and reset must neither run our handlers in the child nor get lost.
        with _all_signals_blocked() as mask:
            pid = os.fork()
            if pid == 0:
                _become(child, parent, output, mask)
    except OSError as e:
        raise StartupError(f"Can't start {child.arguments[0]} ({e.strerror}).") from e
    finally:
        os.close(output)
    return ForkedProcess(pid)


@contextlib.contextmanager
def _all_signals_blocked() -> Iterator[set[signal.Signals]]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield {signal.Signals(number) for number in before}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _become(child: Child, parent: int, output: int, mask: set[signal.Signals]) -> NoReturn:
    """Turn this copy into the child, do its work, and end.

    It never returns: the parent's frames below must not run their clean-up here.
    """
    code = 1
    try:
        os.setsid()  # Ctrl-C in a terminal must reach only the parent
        _reset_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        lifeline.die_with_parent(parent, child.death_signal)
        _replace_files(output)
        os.environ.clear()
        os.environ.update(child.env)
        sys.argv[:] = child.arguments
        # multiprocessing would load the parent's program in new processes.
        sys.modules["__main__"] = types.ModuleType("__main__")
        child.run()
        code = 0
    except SystemExit as e:
        code = _get_exit_code(e)
    except BaseException:  # noqa: BLE001 — this is where the interpreter would report it
        sys.excepthook(*sys.exc_info())
    finally:
        _end(code)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _replace_files(output: int) -> None:
    """Let the standard streams be those of a new process, and close all other files."""
    for handler in logging.getLogger().handlers[:]:
        logging.getLogger().removeHandler(handler)
        handler.close()
    null = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((null, output, output)):
        os.dup2(descriptor, number)
    # Their objects are in frames that stay, so none of them closes a number that is used again.
    os.closerange(3, 1 + max(map(int, os.listdir("/proc/self/fd"))))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _get_exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


def _end(code: int) -> NoReturn:
    """End as the interpreter does: wait for threads, run exit functions, flush; but leave no frame."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
