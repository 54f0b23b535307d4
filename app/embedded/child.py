"""Start child processes that leave nothing behind: lifeline, log file, lock, clean stop."""

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

from app.embedded import lifeline
from app.errors import StartupError

#: What helps against files that a command of somebody else has left.
REMEDY = "Change its owner to this user, or set EVENTR_HOME to another folder"


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    death_signal: signal.Signals = signal.SIGKILL,
    keep_fds: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start ``command`` as a child that gets ``at_death`` when this process dies in whatever way.

    Call it from the main thread: the kernel's promise is about the thread that forked.

    Args:
        command: absolute path of the program, and its arguments.
        log: file that takes its output, appended; may be cut while it is written to.
        at_death: signal at the death of this process.
        keep: file descriptors that the child inherits.
        env: its environment, by default ours.

    Raises:
        StartupError: the log cannot be written or the program cannot be started.
    """
    start = [sys.executable, "-I", "-S", lifeline.__file__, str(os.getpid()), str(int(death_signal))]
    try:
        with log.open("ab") as output:
            # A session of its own: Ctrl-C in a terminal must reach the parent alone, which then
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


def stop(
    process: subprocess.Popen[bytes], timeout: float, cancelled: Callable[[], bool] = lambda: False
) -> bool:
    """Ask a child to end and wait; kill it after ``timeout`` seconds or when ``cancelled``.

    Returns whether it went by itself.
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
    """Wait until ``condition`` holds, at most ``timeout`` seconds; returns whether it does."""
    pause = threading.Event()
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        pause.wait(step)
    return True


def try_lock(path: Path) -> int | None:
    """Take the lock file ``path`` and return its descriptor, or None while somebody holds it.

    The lock belongs to the open file and to all that inherit it, and ends with the last of them:
    it cannot be left over by a kill (flock(2)).

    Raises:
        StartupError: it cannot be opened, as one that the administrator left.
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

    Raises:
        StartupError: another process holds it, and ``busy`` makes the sentence of its process id; or it
            cannot be opened or written.
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
