"""Children that begin as copies of this process: as separate as those of a new program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.embedded import child, fork

Eventually = Callable[..., object]

#: Run in a program of its own, since a test's process has threads. It holds a lock and a log, handles signals
#: and forks a child that runs the given lines; then it prints the exit code, or waits to be killed.
_PROGRAM = """
import json, logging, os, pathlib, signal, sys, time
from app.embedded import child, fork, signals
folder = pathlib.Path(sys.argv[1])
logging.getLogger().addHandler(logging.FileHandler(folder / "parent.log"))
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda *_: None)
lock = child.try_lock(folder / "lock")
secret = "of the parent"

def run():
    LINES

def clean_up():
    (folder / "cleaned-up").write_text(str(os.getpid()))

assert fork.can_fork()
try:
    with signals.watch_signals() as waiter:
        env = {"PATH": os.environ["PATH"], "NAME": "value"}
        wanted = fork.Child(run=run, arguments=["eventr", "part"], log=folder / "child.log", env=env)
        started = fork.fork(wanted)
        print(started.pid, flush=True)
        if "stay" in sys.argv:
            signal.pause()
        while started.poll() is None:
            waiter.wait(60)
        print(started.returncode)
finally:
    clean_up()
"""


def _start(folder: Path, lines: str, *arguments: str) -> subprocess.Popen[str]:
    code = _PROGRAM.replace("LINES", "\n    ".join(lines.strip().splitlines()))
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder), *arguments], stdout=subprocess.PIPE, text=True
    )


def _run(folder: Path, lines: str) -> tuple[int, str]:
    """Return the child's exit code and log."""
    with _start(folder, lines) as parent:
        assert parent.stdout is not None
        pid, code = parent.stdout.read().split()
    assert (folder / "cleaned-up").read_text() == str(parent.pid) != pid, (
        "the child runs no code of its parent"
    )
    return int(code), (folder / "child.log").read_text()


def test_child_is_as_separate_as_a_new_process(tmp_path: Path) -> None:
    code, log = _run(
        tmp_path,
        """
print(json.dumps({
    "argv": sys.argv,
    "env": dict(os.environ),
    "leader": os.getsid(0) == os.getpid(),
    "files": sorted(map(int, os.listdir("/proc/self/fd"))),
    "stdin": os.readlink("/proc/self/fd/0"),
    "handlers": len(logging.getLogger().handlers),
    "handled": [n.name for n in signal.valid_signals() if callable(signal.getsignal(n))],
    "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "wakeup": signal.set_wakeup_fd(-1),
}))
print("to the log", file=sys.stderr)
""",
    )
    told: dict[str, Any] = json.loads(log.splitlines()[0])
    assert code == 0
    # The last file is the folder that is being listed.
    assert told == {
        "argv": ["eventr", "part"],
        "env": {"PATH": os.environ["PATH"], "NAME": "value"},
        "leader": True,
        "files": [0, 1, 2, 3],
        "stdin": "/dev/null",
        "handlers": 0,
        "handled": ["SIGINT"],
        "blocked": 0,
        "wakeup": -1,
    }
    assert log.splitlines()[1:] == ["to the log"]


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        ("sys.exit(7)", 7, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit('no port left')", 1, "no port left\n"),
        ("raise ValueError(secret)", 1, "ValueError: of the parent\n"),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
        ("import atexit; atexit.register(print, 'bye')", 0, "bye\n"),
    ],
)
def test_child_ends_as_a_new_process_does(tmp_path: Path, lines: str, code: int, said: str) -> None:
    assert _run(tmp_path, lines)[0] == code
    assert (tmp_path / "child.log").read_text().endswith(said)


def test_child_dies_with_its_killed_parent_and_holds_none_of_its_locks(
    tmp_path: Path, eventually: Eventually
) -> None:
    parent = _start(tmp_path, "print('up', flush=True); signal.pause()", "stay")
    assert parent.stdout is not None
    with parent:
        started = psutil.Process(int(parent.stdout.readline()))
        eventually(lambda: (tmp_path / "child.log").read_text() == "up\n")
        parent.kill()
    eventually(lambda: not started.is_running() or started.status() == psutil.STATUS_ZOMBIE)
    descriptor = child.try_lock(tmp_path / "lock")
    assert descriptor is not None
    os.close(descriptor)


def test_a_process_with_threads_is_not_copied() -> None:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        assert not fork.can_fork()
    finally:
        ended.set()
        thread.join()


#: Run in a program of its own, too.
_WAITING = """
import threading
from app.embedded import fork
ended = threading.Event()
threading.Thread(target=ended.wait).start()
assert not fork.wait_until_alone(0.02)
threading.Timer(0.05, ended.set).start()
assert fork.wait_until_alone(60)
"""


def test_threads_that_are_about_to_end_are_waited_for() -> None:
    subprocess.run([sys.executable, "-c", _WAITING], check=True)


def test_a_forked_process_is_waited_for_and_never_signaled_after_its_end() -> None:
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    process = fork.ForkedProcess(os.posix_spawn(sys.executable, command, os.environ))
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0)
    process.kill()
    assert process.wait(60) == process.poll() == -signal.SIGKILL
    process.kill()
    process.terminate()
