"""Supervisor of child processes: start, wait until ready, restart after a crash, stop in order."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from app import logs
from app.embedded import child
from app.embedded.child import ChildProcess, poll
from app.errors import StartupError
from app.runtime.private_file import open_private

log = logs.get(__name__)

#: First and longest wait in seconds before a dead child is restarted; doubles each time. The longest is
#: short, so that a child that waits for an external store is back soon after the store. Its starts then
#: use at most a tenth of a core.
BACKOFF_FIRST = 0.5
BACKOFF_LONGEST = 10.0
#: Seconds after which a child counts as healthy: longer than it needs to notice a missing store.
HEALTHY_AFTER = 30.0
#: Deaths during the first start after which the supervisor gives up.
DEATHS_AT_START = 3
#: Seconds between two looks at the sizes of the logs.
ROTATE_EVERY = 5.0
#: A larger log file is rotated; this many old ones are kept.
LOG_BYTES = 10 << 20
LOGS_KEPT = 3
_ERROR = re.compile(r"[\w.]+(Error|Exception)\b|eventr: ")


@dataclasses.dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process to keep alive.

    Attributes:
        name: its name in logs and messages.
        start: starts it and returns the process, or None if a running one was found.
        ready: returns whether it responds, given its process id.
        log_file: the file for its output.
        grace: seconds that it gets to exit.
    """

    name: str
    start: Callable[[], ChildProcess | None]
    ready: Callable[[int | None], bool]
    log_file: Path
    grace: float


def build_process_spec(
    name: str,
    command: Sequence[str],
    *,
    log_file: Path,
    ready: Callable[[int | None], bool],
    grace: float = 10.0,
    env: Mapping[str, str] | None = None,
) -> ProcessSpec:
    """Return the spec of a process that runs ``command``."""

    def start() -> ChildProcess:
        return child.spawn(command, log=log_file, env=env)

    return ProcessSpec(name, start, ready, log_file, grace)


@dataclasses.dataclass(slots=True)
class _State:
    process: ChildProcess | None = None
    started: float = 0.0
    deaths: int = 0
    next_start: float | None = None


class Supervisor:
    """Keeps its processes alive. It runs in the main thread only.

    The caller calls :meth:`restart_dead` after each death of a child, and when :meth:`get_pause` has passed.

    Args:
        parts: in start order.
        clock: monotonic seconds; for tests.
    """

    def __init__(self, parts: Sequence[ProcessSpec], clock: Callable[[], float] = time.monotonic) -> None:
        self._states = {part.name: _State() for part in parts}
        self._clock = clock
        self.parts = {part.name: part for part in parts}

    def get_process(self, name: str) -> ChildProcess | None:
        """Return the process of a part, if it is our child and not known to be dead."""
        return self._states[name].process

    def get_pid(self, name: str) -> int | None:
        """Return the process id of a part that lives as our child."""
        process = self._states[name].process
        return process.pid if process is not None and process.poll() is None else None

    def count_deaths(self, name: str) -> int:
        """Return how often a part died unexpectedly since it was last healthy."""
        return self._states[name].deaths

    def start(self, names: Iterable[str]) -> None:
        """Start parts, in this order.

        Raises:
            StartupError: a part can't be started.
        """
        for name in names:
            self._start(name)

    def wait_ready(self, timeout: float, cancelled: Callable[[], bool] = lambda: False) -> bool:
        """Wait until every part responds, restarting dead ones; return False when canceled.

        Raises:
            StartupError: a part died three times or doesn't respond; the message names it and its log.
        """
        waiting = set(self.parts)

        def is_settled() -> bool:
            self.restart_dead()
            for name in sorted(waiting):
                if self._states[name].deaths >= DEATHS_AT_START:
                    return True
                if self.parts[name].ready(self.get_pid(name)):
                    waiting.discard(name)
            return not waiting or cancelled()

        poll(is_settled, timeout, step=0.05)
        if waiting and not cancelled():
            raise StartupError(self._why(min(waiting, key=lambda name: -self._states[name].deaths)))
        return not waiting

    def restart_dead(self) -> None:
        """Restart dead parts, each after its back-off, and rotate logs that are too large."""
        now = self._clock()
        for name, state in self._states.items():
            rotate(self.parts[name].log_file)
            if state.process is not None and (code := state.process.poll()) is not None:
                self._note_death(name, state, code, now)
            if state.process is None and state.next_start is not None and now >= state.next_start:
                self._restart(name, state, now)

    def get_pause(self) -> float:
        """Return the seconds until :meth:`restart_dead` has something to do even if no child dies."""
        starts = [state.next_start for state in self._states.values() if state.next_start is not None]
        return max(0.0, min([self._clock() + ROTATE_EVERY, *starts]) - self._clock())

    def stop(self, order: Sequence[str], cancelled: Callable[[], bool] = lambda: False) -> None:
        """Stop the parts one after the other, in ``order``.

        Args:
            order: names of parts; those that don't run are skipped.
            cancelled: returns True after a second request to stop; then the remaining parts are killed.
        """
        for name in filter(self._states.__contains__, order):
            state = self._states[name]
            state.next_start = None
            process, state.process = state.process, None
            if process is None:
                continue
            if child.stop(process, self.parts[name].grace, cancelled):
                log.info("part_stopped", part=name, pid=process.pid, code=process.returncode)
            else:
                log.warning("part_killed", part=name, pid=process.pid)

    def _start(self, name: str) -> None:
        state = self._states[name]
        state.process = self.parts[name].start()
        state.started, state.next_start = self._clock(), None
        log.info("part_started", part=name, pid=state.process.pid if state.process else None)

    def _restart(self, name: str, state: _State, now: float) -> None:
        try:
            self._start(name)
        except StartupError as e:
            log.error("part_not_started", part=name, why=e.message)
            state.deaths += 1
            self._back_off(state, now)

    def _note_death(self, name: str, state: _State, code: int, now: float) -> None:
        state.deaths = 1 if now - state.started > HEALTHY_AFTER else state.deaths + 1
        self._back_off(state, now)
        log.warning("part_died", part=name, code=code, deaths=state.deaths)

    def _back_off(self, state: _State, now: float) -> None:
        # The first restart is immediate: most deaths are a kill or a crash that doesn't repeat.
        # The exponent is limited too, because hours of deaths would exceed any float.
        longer = BACKOFF_FIRST * 2 ** min(state.deaths - 1, 16)
        wait = min(longer, BACKOFF_LONGEST) if state.deaths > 1 else 0
        state.next_start = now + wait
        state.process = None

    def _why(self, name: str) -> str:
        part, what = self.parts[name], "isn't responding"
        if self._states[name].deaths >= DEATHS_AT_START:
            what = "exits right after it starts"
        return f"The {part.name} process {what}{_last_words(part.log_file)} Check its log: {part.log_file}."


def _last_words(path: Path) -> str:
    try:
        lines = path.read_text("utf-8", "replace").strip().splitlines()[-60:]
    except OSError:
        return "."
    # A traceback's last line names the error; lines that a server adds below it don't.
    errors = [line for line in lines if _ERROR.match(line)]
    said = (errors or lines or [""])[-1][:300]
    return f' ("{said}").' if said else "."


def rotate(path: Path, limit: int = LOG_BYTES) -> None:
    """Rotate a log to NAME.1, .2 … when it is larger than ``limit`` bytes.

    The log is copied and truncated, not renamed. The child keeps writing to the open file; it appends, so
    its next line goes to the new end. A line written in between can be lost, and on a full disk the
    whole log: a log must not keep a disk full.
    """
    try:
        if path.stat().st_size <= limit:
            return
    except FileNotFoundError:
        return
    for number in range(LOGS_KEPT - 1, 0, -1):
        older = _numbered(path, number)
        if older.exists():
            older.replace(_numbered(path, number + 1))
    try:
        with open(path, "rb") as log_file, open(_numbered(path, 1), "wb", opener=open_private) as kept:
            shutil.copyfileobj(log_file, kept)
    except OSError as e:
        log.warning("log_not_kept", file=path.name, why=e.strerror)
        _numbered(path, 1).unlink(missing_ok=True)
    os.truncate(path, 0)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
