"""``eventr up`` for real: comes up, answers, survives kills, stops cleanly, says what is wrong."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest

from app import embedded
from app.commands.up import PROCESSES, STOP_FIRST, STOP_LAST, LogFile
from app.config import Settings
from app.embedded import child
from tests.platform.test_log_growth import PER_HOUR
from tests.support.imports import REPO
from tests.support.up import Up, free_port, kill_all, living

Eventually = Callable[..., Any]
Start = Callable[..., Up]
PARTS = {*PROCESSES, "mongodb", "redis"}


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that does not exist yet."""
    folder = Path(tempfile.mkdtemp(prefix="eventr-up-"))
    yield folder / "var"
    shutil.rmtree(folder)


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Starts ``eventr up`` on the home; whatever is left at the end is killed."""
    with contextlib.ExitStack() as cleanup:

        def run(at: Path = home, **options: Any) -> Up:
            up = Up(at, **options)
            cleanup.callback(up.kill)
            return up

        yield run


def _doctor(up: Up) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "app", "doctor", "--json"],
        cwd=REPO,
        env={**os.environ, "EVENTR_HOME": str(up.home), "EVENTR_PORT": str(up.port)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if report["ok"] else 1)
    return report


def _words(report: dict[str, Any]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for finding in report["checks"]:
        found.setdefault(finding["check"], set()).add(finding["word"])
    return found


def _database(up: Up) -> pymongo.MongoClient[dict[str, Any]]:
    return pymongo.MongoClient(embedded.resolve_addresses(up.settings).mongodb_uri)


def _locks_are_free(home: Path) -> bool:
    for path in (home / "data").glob("*.lock"):
        descriptor = child.try_lock(path)
        if descriptor is None:
            return False
        os.close(descriptor)
    return True


def _assert_asleep(up: Up, eventually: Eventually) -> None:
    """While nothing happens, eventr up hardly ever wakes up, and the logs of all parts hardly grow."""
    logs = _wait_for_quiet_logs(up, eventually)
    before = _count_wakeups(up.process.pid)
    _wait_tenths(up, eventually, _TENTHS)
    assert _count_wakeups(up.process.pid) - before < _TENTHS / 4
    _assert_logs_grow_slowly(logs, _read_logs(up))


#: Tenths of a second in which a system at rest is watched.
_TENTHS = 60


def _wait_tenths(up: Up, eventually: Eventually, tenths: int) -> None:
    """Wait; Redis serves as clock, since it wakes up ten times a second."""
    before = _count_wakeups(up.pids()["redis"])
    eventually(lambda: _count_wakeups(up.pids()["redis"]) > before + tenths, message="Redis wakes up")


def _read_logs(up: Up) -> dict[str, list[str]]:
    """Return the lines of all logs, by name: of each part of Eventr, of MongoDB and of Redis."""
    found = sorted((up.home / "log").iterdir())
    return {path.name: path.read_text("utf-8", "replace").splitlines() for path in found if path.is_file()}


def _wait_for_quiet_logs(up: Up, eventually: Eventually) -> dict[str, list[str]]:
    """Wait until the parts have said all about their start; return the logs."""
    logs = _read_logs(up)
    assert len(logs) >= len(PARTS), logs.keys()

    def is_quiet() -> bool:
        nonlocal logs
        before, _ = logs, _wait_tenths(up, eventually, 10)
        logs = _read_logs(up)
        return logs == before

    eventually(is_quiet, message="the start is over")
    return logs


def _assert_logs_grow_slowly(before: dict[str, list[str]], after: dict[str, list[str]]) -> None:
    """Check R07 for all processes: at rest, their logs grow by 100 KB per hour in all.

    A line that comes once in the few seconds of this test comes each minute at most. A kind of line that
    comes twice would come hundreds of times an hour.
    """
    grown = [(name, line) for name, lines in after.items() for line in lines[len(before.get(name, ())) :]]
    kinds = Counter((name, re.sub(r"[0-9a-f]*[0-9][0-9a-f]*", "", line)) for name, line in grown)
    assert not [kind for kind, count in kinds.items() if count > 1], grown
    assert sum(len(line) for _, line in grown) * 60 <= PER_HOUR, grown


def _count_wakeups(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


@pytest.mark.timeout(400)
def test_up_runs_stops_on_ctrl_c_and_finds_its_data_again(
    home: Path, start: Start, eventually: Eventually
) -> None:
    up = start().wait_ready()
    assert f"http://127.0.0.1:{up.port}" in up.output
    assert str(home / "data") in up.output
    assert str(home / "log") in up.output
    assert up.status() == 200
    assert up.pids().keys() == PARTS
    report = _doctor(up)
    assert report["ok"], report
    assert _words(report)["processes"] == {"ok"}
    assert _words(report)["indexes"] == {"ok"}
    assert f"web is running on port {up.port}." in [finding["text"] for finding in report["checks"]]
    with _database(up) as client:
        client["kept"]["one"].insert_one({"_id": 1})
    processes = up.processes()
    assert len(processes) > len(PARTS)
    _assert_asleep(up, eventually)

    assert up.stop(signal.SIGINT) == 0, up.report()
    # The fork server of the manager notices that it has ended, and ends as well.
    eventually(lambda: living(processes) == [], message="nobody is left")
    assert _locks_are_free(home)
    assert up.status() is None
    stopped = re.findall(r"part_stopped part=(\w+)", up.log())
    assert tuple(stopped) == (*STOP_FIRST, *STOP_LAST), "explicit order; and nobody had to be killed"
    assert not _words(_doctor(up))["mongodb"] - {"fail"}

    key = (home / "secret_key").read_text()
    again = start().wait_ready()
    with _database(again) as client:
        assert client["kept"]["one"].find_one() == {"_id": 1}
    assert (home / "secret_key").read_text() == key
    assert again.stop(signal.SIGTERM) == 0


@pytest.mark.timeout(400)
def test_up_brings_back_each_part_that_is_killed(start: Start, eventually: Eventually) -> None:
    up = start().wait_ready()
    before = up.pids()
    below = [p for p in up.processes()[1:] if p.pid not in before.values()]
    assert below, "workers of the web tier and of the manager"
    kill_all(below)
    for part in sorted(PARTS):
        # One that ended with its children is being started again already.
        with contextlib.suppress(ProcessLookupError):
            os.kill(before[part], signal.SIGKILL)
        eventually(lambda part=part: up.pids()[part] != before[part], message=f"{part} is started again")

    def well() -> bool:
        report = _doctor(up)
        return up.status() == 200 and report["ok"] and _words(report)["processes"] == {"ok"}

    eventually(well, message="all is well again")
    assert up.process.poll() is None
    assert up.stop() == 0


@pytest.mark.timeout(400)
def test_up_comes_up_after_a_kill_of_everything(home: Path, start: Start, eventually: Eventually) -> None:
    up = start().wait_ready()
    with _database(up) as client:
        client["kept"]["one"].insert_one({"_id": 1})
    processes = up.processes()
    kill_all(processes)
    eventually(lambda: living(processes) == [])

    again = start(port=up.port).wait_ready()
    with _database(again) as client:
        assert client["kept"]["one"].find_one() == {"_id": 1}
    processes = again.processes()
    again.process.kill()
    eventually(lambda: living(processes) == [], message="children end with a killed parent")
    assert start(port=up.port).wait_ready().stop() == 0


def _sentence(up: Up) -> str:
    assert up.wait_ended() == 1
    lines = up.output.strip().splitlines()
    assert lines, "it says why"
    assert lines[-1].startswith("eventr: ")
    assert len([line for line in lines if line.startswith("eventr: ")]) == 1
    assert "Traceback" not in up.output
    return lines[-1]


def test_a_second_instance_says_which_one_runs(home: Path, start: Start) -> None:
    with embedded.hold_instance_lock(Settings(home=home)):
        sentence = _sentence(start())
    assert f"Eventr is already running in {home} (process {os.getpid()})" in sentence
    assert "EVENTR_HOME" in sentence
    assert not (home / "data" / "mongodb").exists(), "it has touched nothing"


def test_a_taken_port_is_named(start: Start) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        sentence = _sentence(start(port=port))
    assert f"Port {port} on 127.0.0.1 is already in use" in sentence
    assert "EVENTR_PORT" in sentence


def test_a_taken_admin_port_is_named(start: Start) -> None:
    first = free_port(3)
    with socket.socket() as other:
        other.bind(("127.0.0.1", first + 2))
        other.listen()
        sentence = _sentence(start(EVENTR_METRICS_LISTEN=f"127.0.0.1:{first}"))
    assert f"Port {first + 2} on 127.0.0.1 is already in use" in sentence
    assert "EVENTR_METRICS_LISTEN" in sentence


def test_a_port_that_nobody_may_have_is_named(start: Start) -> None:
    assert "EVENTR_HOST" in _sentence(start(EVENTR_HOST="192.0.2.1"))


def test_a_folder_that_cannot_be_written_is_named(home: Path, start: Start) -> None:
    # Below a file: that fails for the administrator too, whom permissions do not stop.
    home.write_text("a file")
    sentence = _sentence(start(home / "var"))
    assert f"Can't write to the folder {home / 'var'}" in sentence
    assert "EVENTR_HOME" in sentence


@pytest.mark.parametrize("name", ["log/up.log", "data/eventr.lock"])
def test_a_file_that_cannot_be_opened_is_named(home: Path, start: Start, name: str) -> None:
    # A folder in its place: that fails for the administrator, too.
    (home / name).mkdir(parents=True, mode=0o700)
    sentence = _sentence(start())
    assert f"Can't open {home / name} (Is a directory)" in sentence


def test_a_missing_library_is_named(home: Path, start: Start) -> None:
    shadow = home.parent / "shadow"
    shadow.mkdir()
    (shadow / "pycurl.py").write_text("raise ImportError('libcurl.so.4: cannot open shared object file')")
    sentence = _sentence(start(PYTHONPATH=str(shadow)))
    assert "pycurl can't be loaded (libcurl.so.4: cannot open shared object file)" in sentence
    assert "make run" in sentence


def test_a_wrong_setting_is_named(start: Start) -> None:
    assert "EVENTR_POLL_MIN is 'soon', but it must be a number" in _sentence(start(EVENTR_POLL_MIN="soon"))


@pytest.mark.parametrize("key", ["short", "a" * 64])
def test_W19_a_weak_key_ends_the_start(start: Start, key: str) -> None:
    assert "EVENTR_SECRET_KEY" in _sentence(start(EVENTR_SECRET_KEY=key))


def test_a_log_that_cannot_be_written_is_told_of_once_until_it_can_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The limit of a file's size stands for a full disk."""
    path = tmp_path / "up.log"
    path.write_bytes(bytes(1 << 16))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    record = logging.makeLogRecord({"msg": "part_died"})
    with contextlib.closing(LogFile(path, maxBytes=1 << 20)) as log:
        for _ in range(2):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
            try:
                log.handle(record)
                log.handle(record)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert capsys.readouterr().err == f"Can't write to the log {path}: File too large.\n"
            log.handle(record)
            assert capsys.readouterr().err == ""
    assert path.read_bytes().endswith(b"part_died\n")
