"""Child processes that leave nothing behind: lifeline, log file, lock, clean stop."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from app.embedded import lifeline
from app.errors import StartupError
from app.runtime.private_file import open_private

#: The remedy for files that a command of another user has left.
REMEDY = "Change its owner to this user, or set EVENTR_HOME to another folder"


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    death_signal: signal.Signals = signal.SIGKILL,
    keep_fds: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start ``command`` as a child that gets ``death_signal`` when this process dies in any way.

    Call it from the main thread: the kernel sends the signal when the forking thread ends.

    Args:
        command: absolute path of the program, and its arguments.
        log: file for its output, appended to; it may be truncated while in use.
        death_signal: the signal sent when this process dies.
        keep_fds: file descriptors that the child inherits.
        env: its environment, by default ours.

    Raises:
        StartupError: the log isn't writable or the program can't be started.
    """
    start = [sys.executable, "-I", "-S", lifeline.__file__, str(os.getpid()), str(int(death_signal))]
    try:
        with open(log, "ab", opener=open_private) as output:
            # A session of its own: Ctrl-C in a terminal must reach only the parent, which then
            # stops its children in the right order.
            return subprocess.Popen(  # noqa: S603 — no shell, and the command is ours
                [*start, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=tuple(keep_fds),
                env=env,
            )
    except OSError as e:
        raise StartupError(f"Can't start {command[0]} ({e.strerror}: {e.filename}).") from e


class ChildProcess(Protocol):
    """A child of this process: :class:`subprocess.Popen`, or :class:`app.embedded.fork.ForkedProcess`."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | Any: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


def stop(process: ChildProcess, timeout: float, cancelled: Callable[[], bool] = lambda: False) -> bool:
    """Terminate a child and wait; kill it after ``timeout`` seconds or when ``cancelled`` returns True.

    Returns whether the child exited without a kill.
    """
    if process.poll() is None:
        process.terminate()
    poll(lambda: process.poll() is not None or cancelled(), timeout)
    if process.poll() is not None:
        return True
    process.kill()
    process.wait()
    return False


def poll(condition: Callable[[], bool], timeout: float, step: float = 0.01) -> bool:
    """Wait until ``condition`` returns True, at most ``timeout`` seconds; return whether it did."""
    pause = threading.Event()
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        pause.wait(step)
    return True


def try_lock(path: Path) -> int | None:
    """Lock the file ``path`` and return its descriptor, or None while another process holds the lock.

    The lock belongs to the open file and all processes that inherit it, and ends with the last of them:
    a kill never leaves a stale lock (flock(2)).

    Raises:
        StartupError: the file can't be opened, for example one that the administrator left.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise StartupError(f"Can't open {path} ({e.strerror}). {REMEDY}.") from e
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


@contextlib.contextmanager
def hold_lock(path: Path, explain: Callable[[str], str]) -> Iterator[None]:
    """Hold the lock file ``path`` inside the block and write our process id into it.

    Args:
        path: the lock file.
        explain: returns the error message for the process id of the other holder.

    Raises:
        StartupError: another process holds it, or it can't be opened or written.
    """
    descriptor = try_lock(path)
    if descriptor is None:
        raise StartupError(explain(path.read_text().strip() or "?"))
    try:
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        except OSError as e:
            raise StartupError(f"Can't write {path} ({e.strerror}). Free up disk space there.") from e
        yield
    finally:
        os.close(descriptor)
