"""Lifecycle of one embedded server: start, wait until it responds, find again, stop."""

from __future__ import annotations

import abc
import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from app import logs
from app.config import Settings
from app.embedded import child, programs
from app.embedded.child import poll
from app.embedded.layout import Layout
from app.errors import StartupError

log = logs.get(__name__)

#: Longest start in seconds: after a crash MongoDB first replays its journal.
START_TIMEOUT = 60.0
#: Longest clean stop in seconds: MongoDB writes a last checkpoint.
STOP_TIMEOUT = 30.0
#: Seconds after which a server without its parent should have ended; one that still responds lives on.
ORPHAN_AFTER = 5.0


class Server(abc.ABC):
    """One server program on one data folder.

    The server inherits the lock file, so it holds the lock exactly as long as it lives.
    Two servers on one data folder are impossible, and no lock is ever stale.
    """

    name: ClassVar[str]
    requirement: ClassVar[programs.ProgramRequirement]

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.layout = Layout.from_settings(settings)
        self.data = self.layout.get_data_dir(self.name)
        self.log_file = self.layout.log / f"{self.name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.found = False
        self._lock_file = self.layout.get_lock_path(self.name)

    @property
    @abc.abstractmethod
    def address(self) -> str:
        """The address for clients."""

    @abc.abstractmethod
    def build_command(self, program: Path) -> Sequence[str]:
        """Return the command line that starts it in the foreground."""

    @abc.abstractmethod
    def is_responding(self) -> bool:
        """Return whether the server responds, with a short timeout."""

    @abc.abstractmethod
    def shut_down(self) -> None:
        """Shut down a server that isn't our child."""

    @abc.abstractmethod
    def clear(self) -> None:
        """Remove leftovers of the previous server that would disturb the start; no server runs now."""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Do what a start requires after the server responds.

        Raises:
            StartupError: it failed; the message names the log.
        """

    def start(self) -> None:
        """Start the server, or find one that already runs; doesn't wait until it responds.

        Raises:
            StartupError: the program is missing, or its data folder is in use and no server responds.
        """
        self.layout.make_folders()
        with self._usable():
            self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = self._wait_for_lock()
        self.found = descriptor is None
        if descriptor is None:
            log.info("server_found", server=self.name)
            return
        try:
            with self._usable():
                self.clear()
            program = programs.find_program(self.requirement)
            self.process = child.spawn(
                self.build_command(program),
                log=self.log_file,
                death_signal=signal.SIGTERM,
                keep_fds=(descriptor,),
            )
        finally:
            os.close(descriptor)

    def wait(self, timeout: float = START_TIMEOUT) -> None:
        """Wait until the server responds and is ready for use.

        Raises:
            StartupError: it ended or doesn't respond; the message names its log.
        """
        if not poll(lambda: self._ended() or self.is_responding(), timeout) or self._ended():
            raise self.build_failure()
        self.prepare()

    def build_failure(self) -> StartupError:
        """Return the error for a failed start."""
        return StartupError(
            f"The embedded {self.requirement.title} didn't start. Check its log: {self.log_file}."
        )

    def stop(self) -> None:
        """Stop the server cleanly, whether it is our child or was found running."""
        if self.found:
            self.shut_down()
            poll(self._is_free, STOP_TIMEOUT)
        elif self.process is not None and not child.stop(self.process, STOP_TIMEOUT):
            log.warning("server_killed", server=self.name)
        self.process, self.found = None, False

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except OSError as e:
            raise StartupError(f"Can't use {self.data} ({e.strerror}). {child.REMEDY}.") from e

    def _wait_for_lock(self) -> int | None:
        # If the lock is held, the parent was killed: the server is writing its last checkpoint, or (outside
        # Linux) it lives on and can be used as it is.
        descriptor = self._poll_lock(ORPHAN_AFTER)
        if descriptor is None and not self.is_responding():
            descriptor = self._poll_lock(STOP_TIMEOUT)
            if descriptor is None:
                raise StartupError(
                    f"Another process uses {self.data} and isn't responding. Stop that process, and "
                    "start Eventr again."
                )
        return descriptor

    def _poll_lock(self, timeout: float) -> int | None:
        found: list[int] = []

        def try_take_lock() -> bool:
            descriptor = child.try_lock(self._lock_file)
            found.extend([] if descriptor is None else [descriptor])
            return bool(found)

        return found[0] if poll(try_take_lock, timeout) else None

    def _is_free(self) -> bool:
        descriptor = child.try_lock(self._lock_file)
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is not None

    def _ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None
