"""The workers' fork server as a copy of the manager, so that they share the memory of its loaded modules.

multiprocessing starts its fork server and its resource tracker as new programs, which load everything again:
39 MB together. A copy is only possible while the manager has a single thread. Later, for example after the
fork server was killed, multiprocessing starts new programs as usual. So it does on each version of Python
with which nobody has tried this, because it needs parts of multiprocessing that aren't documented.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from multiprocessing import forkserver, util
from typing import Any

import setproctitle

#: The versions of Python whose multiprocessing this was tried with.
_TRIED = frozenset({(3, 11)})


def copy_this_process(preload: Sequence[str]) -> bool:
    """Start the fork server as a copy of this process, if that is possible; return whether it is one.

    It isn't with several threads, on another system than Linux, and on a Python that wasn't tried. If it
    isn't, nothing is started or changed here: multiprocessing starts a program when it needs one.

    Args:
        preload: the modules that the fork server loads.

    Raises:
        OSError: the process couldn't be created.
    """
    if not is_python_known() or not _has_one_thread():
        return False
    server: Any = forkserver
    functions: Any = util
    server.set_forkserver_preload([*preload])
    before = functions.spawnv_passfds
    functions.spawnv_passfds = _fork
    try:
        server.ensure_running()
    finally:
        functions.spawnv_passfds = before
    return True


def is_python_known() -> bool:
    """Return whether multiprocessing is as expected; even a later release of a version may change it."""
    return (
        sys.implementation.name == "cpython"
        and sys.version_info[:2] in _TRIED
        and callable(getattr(util, "spawnv_passfds", None))
        and hasattr(getattr(forkserver, "_forkserver", None), "_lock")
    )


def _has_one_thread() -> bool:
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False  # not Linux


def _fork(path: bytes, args: Sequence[str], kept: Iterable[int]) -> int:
    """Do what ``multiprocessing.util.spawnv_passfds`` does, but run the line of Python in a copy."""
    pid = os.fork()
    if pid == 0:
        _become(args[-1], {0, 1, 2, *kept})
    return pid


def _become(line: str, kept: set[int]) -> None:
    """Run the line, and end. The frames below must not run their clean-up here."""
    code = 1
    try:
        for descriptor in set(map(int, os.listdir("/proc/self/fd"))) - kept:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        # The caller holds this lock, and a worker may start processes of its own.
        forkserver._forkserver._lock = threading.Lock()  # type: ignore[attr-defined]
        setproctitle.setproctitle("eventr forkserver" if "forkserver" in line else "eventr resource_tracker")
        exec(line, {"__name__": "__main__"})  # noqa: S102 — multiprocessing's own line
        code = 0
    except SystemExit:
        code = 0  # all processes that use it have ended
    except BaseException:  # noqa: BLE001 — this is where the interpreter would report it
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)
