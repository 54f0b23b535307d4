"""The supervisor on real child processes."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import psutil
import pytest

from app.commands.up import LogFile
from app.embedded import supervisor
from app.embedded.child import spawn
from app.embedded.signals import watch_signals
from app.embedded.supervisor import ProcessSpec, Supervisor, build_process_spec
from app.errors import StartupError
from app.runtime.private_file import open_private

Eventually = Callable[..., object]
_WRITES_WHEN_TOLD_TO_END = """
import signal, sys, pathlib
def end(*_):
    with open(sys.argv[2], "a") as f: f.write(sys.argv[1] + " ")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[3]).touch()
while True: signal.pause()
"""
_DEAF = """
import signal, sys, pathlib
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[3]).touch()
while True: signal.pause()
"""


class Children:
    """Makes parts whose processes say when they are ready and note when they were told to end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ended = folder / "ended"

    def part(self, name: str, code: str = _WRITES_WHEN_TOLD_TO_END, grace: float = 10) -> ProcessSpec:
        sign = self.folder / f"{name}.ready"
        command = [sys.executable, "-c", code, name, str(self.ended), str(sign)]
        log = self.folder / f"{name}.log"
        return build_process_spec(name, command, log_file=log, ready=lambda pid: sign.exists(), grace=grace)

    def order(self) -> list[str]:
        return self.ended.read_text().split()


@pytest.fixture
def children(tmp_path: Path) -> Children:
    return Children(tmp_path)


@pytest.fixture
def watch() -> Iterator[Callable[..., Supervisor]]:
    """Makes started supervisors and kills what they left."""
    made: list[Supervisor] = []

    def make(*parts: ProcessSpec, ready: bool = True) -> Supervisor:
        made.append(Supervisor(parts))
        made[-1].start(made[-1].parts)
        assert not ready or made[-1].wait_ready(30)
        return made[-1]

    yield make
    for each in made:
        each.stop(tuple(each.parts), cancelled=lambda: True)


def test_parts_end_one_after_the_other_in_the_given_order(
    children: Children, watch: Callable[..., Supervisor]
) -> None:
    watched = watch(children.part("a"), children.part("b"), children.part("c"))
    watched.stop(("b", "absent", "c", "a"))
    assert children.order() == ["b", "c", "a"]


def test_a_killed_part_is_started_again(
    children: Children, watch: Callable[..., Supervisor], eventually: Eventually
) -> None:
    watched = watch(children.part("a"), children.part("b"))
    before, other = watched.get_pid("a"), watched.get_pid("b")
    assert before
    os.kill(before, signal.SIGKILL)

    def back() -> bool:
        watched.restart_dead()
        return watched.get_pid("a") not in (None, before)

    eventually(back)
    assert watched.get_pid("b") == other


def test_a_death_ends_the_wait_for_signals_even_if_it_comes_first() -> None:
    with watch_signals() as signals:
        first = subprocess.Popen([sys.executable, "-c", ""])
        os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
        assert signals.wait(60), "it died before the wait"
        first.wait()
        second = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        assert not signals.wait(0), "each death ends one wait"
        second.kill()
        assert signals.wait(60), "it died during the wait"
        second.wait()
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
    assert signal.set_wakeup_fd(-1) == -1


def test_supervisor_pauses_until_the_next_start_or_the_next_look_at_the_logs(tmp_path: Path) -> None:
    now = [0.0]
    broken = build_process_spec(
        "a", [sys.executable, "-c", ""], log_file=tmp_path / "a.log", ready=lambda pid: False, grace=1
    )
    watched = Supervisor([broken], clock=lambda: now[0])
    watched.start(["a"])
    assert watched.get_pause() == supervisor.ROTATE_EVERY
    for wait in (0, 2 * supervisor.BACKOFF_FIRST, 4 * supervisor.BACKOFF_FIRST):
        process = watched.get_process("a")
        assert process is not None
        process.wait()
        watched.restart_dead()  # the first restart is immediate
        assert watched.get_pause() == (wait or supervisor.ROTATE_EVERY)
        now[0] += wait
        watched.restart_dead()
    watched.stop(["a"])


def test_restarts_of_what_dies_at_once_get_rarer(children: Children, tmp_path: Path) -> None:
    now = [0.0]
    broken = build_process_spec(
        "a", [sys.executable, "-c", ""], log_file=tmp_path / "a.log", ready=lambda pid: False, grace=1
    )
    watched = Supervisor([broken], clock=lambda: now[0])
    watched.start(["a"])
    starts = []
    while len(starts) < 9:
        process = watched.get_process("a")
        if process:
            process.wait()
            starts.append(now[0])
        watched.restart_dead()
        now[0] += 0.25
    first, *gaps = [b - a for a, b in itertools.pairwise(starts)]
    assert first <= 0.5, "the first restart is at once"
    assert gaps == sorted(gaps)
    assert gaps[-1] >= supervisor.BACKOFF_LONGEST > gaps[0]
    assert gaps[-1] <= 12, "nobody waits much longer for a part than for what it died of"
    watched.stop(["a"])


def test_what_cannot_be_started_for_hours_is_tried_on(tmp_path: Path) -> None:
    now, tries = [0.0], list[float]()

    def start() -> subprocess.Popen[bytes]:
        tries.append(now[0])
        if len(tries) > 1:
            raise StartupError("There is no room.")
        return subprocess.Popen([sys.executable, "-c", ""])

    part = ProcessSpec("a", start, lambda pid: False, tmp_path / "a.log", grace=1)
    watched = Supervisor([part], clock=lambda: now[0])
    watched.start(["a"])
    process = watched.get_process("a")
    assert process is not None
    process.wait()
    while len(tries) < 1100:
        watched.restart_dead()
        now[0] += supervisor.BACKOFF_LONGEST
    assert tries[-1] - tries[-2] == supervisor.BACKOFF_LONGEST


def test_what_lived_for_half_a_minute_is_back_at_once_whatever_was_before(tmp_path: Path) -> None:
    now = [0.0]
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    part = build_process_spec("a", command, log_file=tmp_path / "a.log", ready=lambda pid: True, grace=1)
    watched = Supervisor([part], clock=lambda: now[0])

    def dies(age: float) -> None:
        """Let it die at this age, and see it back at once or after its back-off."""
        process = watched.get_process("a")
        assert process is not None
        now[0] += age
        process.kill()
        process.wait()
        watched.restart_dead()

    watched.start(["a"])
    for _ in range(5):
        dies(1)
        now[0] += supervisor.BACKOFF_LONGEST
        watched.restart_dead()
    dies(1)
    assert watched.get_process("a") is None, "it died again and again"
    now[0] += supervisor.BACKOFF_LONGEST
    watched.restart_dead()
    for _ in range(3):
        dies(40)
        assert watched.get_pid("a") is not None, "a death per half a minute costs no wait"
        assert watched.count_deaths("a") == 1
    watched.stop(["a"])


def test_a_part_that_dies_at_start_is_named_with_its_last_words(
    children: Children, watch: Callable[..., Supervisor]
) -> None:
    watched = watch(children.part("web", "import sys; sys.exit('no port left')"), ready=False)
    with pytest.raises(StartupError, match=r'web process exits right after it starts \("no port left"\)'):
        watched.wait_ready(30)


def test_a_part_that_never_answers_is_named(tmp_path: Path, watch: Callable[..., Supervisor]) -> None:
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    silent = build_process_spec("web", command, log_file=tmp_path / "web.log", ready=lambda pid: False)
    with pytest.raises(StartupError, match="web process isn't responding"):
        watch(silent, ready=False).wait_ready(0.3)


def test_a_deaf_part_is_killed_after_its_grace(children: Children, watch: Callable[..., Supervisor]) -> None:
    watched = watch(children.part("a", _DEAF, grace=0.1))
    process = watched.get_process("a")
    watched.stop(["a"])
    assert process is not None
    assert process.returncode == -signal.SIGKILL


def test_a_second_request_to_stop_hurries(children: Children, watch: Callable[..., Supervisor]) -> None:
    watched = watch(children.part("a", _DEAF, grace=3600))
    process = watched.get_process("a")
    watched.stop(["a"], cancelled=lambda: True)
    assert process is not None
    assert process.returncode == -signal.SIGKILL


def test_children_die_with_a_killed_parent(tmp_path: Path, eventually: Eventually) -> None:
    sign = tmp_path / "pid"
    inner = f"import os, signal; open({str(sign)!r}, 'w').write(str(os.getpid())); signal.pause()"
    outer = (
        "import signal, sys, pathlib\nfrom app.embedded import child\n"
        f"child.spawn([sys.executable, '-c', {inner!r}], log=pathlib.Path({str(tmp_path / 'log')!r}))\n"
        "signal.pause()\n"
    )
    parent = psutil.Popen([sys.executable, "-c", outer])
    eventually(lambda: sign.exists() and sign.read_text())
    inner_process = psutil.Process(int(sign.read_text()))
    parent.kill()
    parent.wait()
    eventually(lambda: not inner_process.is_running() or inner_process.status() == psutil.STATUS_ZOMBIE)


def test_a_large_log_is_set_aside_while_it_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "web.log"
    with path.open("ab", buffering=0) as log:
        for generation in range(6):
            log.write(b"%d" % generation * 100)
            supervisor.rotate(path, limit=99)
        log.write(b"after")
    assert path.read_text() == "after"
    kept = {p.name: p.read_text()[0] for p in tmp_path.glob("web.log.*")}
    assert kept == {"web.log.1": "5", "web.log.2": "4", "web.log.3": "3"}
    supervisor.rotate(tmp_path / "absent.log")


@pytest.mark.parametrize("mode", [None, 0o644])
def test_V14_logs_are_readable_by_their_user_only(tmp_path: Path, mode: int | None) -> None:
    """Whatever the umask is, and those that an earlier version created for everyone, too."""
    for name in ("web.log", "up.log", "forked.log"):
        if mode is not None:
            (tmp_path / name).touch()
            (tmp_path / name).chmod(mode)
    before = os.umask(0)
    try:
        child = spawn([sys.executable, "-c", "print('x' * 200)"], log=tmp_path / "web.log")
        child.wait(60)
        supervisor.rotate(tmp_path / "web.log", limit=99)
        LogFile(tmp_path / "up.log", maxBytes=1, backupCount=1).close()
        os.close(open_private(tmp_path / "forked.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("web.log", "web.log.1", "up.log", "forked.log"), 0o600)


def test_V14_a_device_in_place_of_a_log_keeps_its_mode() -> None:
    before = os.stat(os.devnull).st_mode
    os.close(open_private(os.devnull, os.O_WRONLY))
    assert os.stat(os.devnull).st_mode == before


def test_on_a_full_disk_a_large_log_is_cut_and_nothing_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: BinaryIO, target: BinaryIO) -> None:
        target.write(source.read(50))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("app.embedded.supervisor.shutil.copyfileobj", full)
    path = tmp_path / "web.log"
    path.write_bytes(b"x" * 100)
    supervisor.rotate(path, limit=99)
    assert {p.name: p.stat().st_size for p in tmp_path.iterdir()} == {"web.log": 0}
