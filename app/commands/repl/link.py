"""The connection from the command line to one queue manager. Blocking; one command at a time."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from app.config import Settings
from app.errors import EventrError, InvalidError, StartupError, StoreError
from queue_manager.control import listen

#: Longest response, bytes; enough for a thousand dead tasks with their arguments.
_ANSWER_MAX = 128 << 20
#: Seconds. The manager responds within 30 s to any command; after that, it is frozen.
_PATIENCE = 40.0
_LOST = (
    "The manager closed the connection before it replied. The command may or may not "
    "have run. Check before you repeat it."
)

Dial = Callable[[], socket.socket]


class RemoteError(EventrError):
    """The manager reported an error."""

    def __init__(self, word: str, message: str) -> None:
        super().__init__(message)
        self._word = word

    @property
    def word(self) -> str:
        return self._word


class ManagerClient:
    """A connection to one manager, which reconnects after the manager has restarted.

    Args:
        dial: opens a connection, or raises StartupError with a message; called again after a loss.
    """

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._line: socket.socket | None = None
        self._rest = b""
        self._number = 0
        self._lock = threading.Lock()
        #: The manager's description of itself: ``manager``, ``host``, ``pid``, ``since``.
        self.manager: dict[str, Any] = {}

    def connect(self) -> bool:
        """Connect if needed; return whether the manager is a different one than before.

        Raises:
            StartupError: no manager is listening; the message says what to do.
            RemoteError: the manager accepts no more clients.
        """
        with self._lock:
            return self._connect()

    def run_command(self, command: Sequence[str]) -> Any:
        """Run a command and return its result.

        Raises:
            RemoteError: the manager refused the command, with its error word and message.
            StoreError: the manager closed the connection or isn't responding.
        """
        with self._lock:
            self._connect()
            return self._ask(command)

    def follow_events(self, command: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield events until the caller stops; then close the connection, which ends a tail.

        Raises: as :meth:`run_command`.
        """
        with self._lock:
            self._connect()
            try:
                self._ask(command)
                while True:
                    yield self._read(None)["event"]
            finally:
                self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._line is not None:
            self._line.close()
        self._line, self._rest = None, b""

    def _connect(self) -> bool:
        if self._line is not None and _is_open(self._line):
            return False
        self.close()
        before, self._line = self.manager.get("manager"), self._dial()
        try:
            self.manager = self._result(self._read(_PATIENCE))
        except BaseException:
            self.close()
            raise
        return before is not None and before != self.manager["manager"]

    def _ask(self, words: Sequence[str]) -> Any:
        self._number += 1
        text = json.dumps({"id": self._number, "cmd": list(words)})
        assert self._line is not None  # noqa: S101 — connected before
        try:
            self._line.sendall(text.encode() + b"\n")
            return self._result(self._read(_PATIENCE))
        except OSError as e:
            self.close()
            raise StoreError(_LOST) from e
        except KeyboardInterrupt:
            self.close()  # the next command would receive this command's response
            raise

    def _result(self, answer: dict[str, Any]) -> Any:
        if answer["ok"]:
            return answer["result"]
        raise RemoteError(answer["error"]["word"], answer["error"]["message"])

    def _read(self, timeout: float | None) -> dict[str, Any]:
        assert self._line is not None  # noqa: S101 — connected before
        self._line.settimeout(timeout)
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            try:
                part = self._line.recv(1 << 16)
            except TimeoutError as e:
                self.close()
                raise StoreError("The manager isn't responding and may be frozen. Check its log.") from e
            except ConnectionError as e:
                self.close()
                raise StoreError(_LOST) from e
            if not part or sum(map(len, parts)) > _ANSWER_MAX:
                self.close()
                raise StoreError(_LOST)
            parts.append(part)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        document = json.loads(line)
        if not isinstance(document, dict):
            raise StoreError("This isn't a queue manager.")
        return document


def _is_open(line: socket.socket) -> bool:
    """Return whether the manager hasn't closed the connection, as it does after five silent minutes."""
    # An unsolicited message is the reason why the manager closes the connection.
    return not select.select([line], [], [], 0)[0]


def make_local_dial(settings: Settings, pid: int | None) -> Dial:
    """Return the dial function for a manager on this host: by process id, or the only one."""

    def dial() -> socket.socket:
        chosen = pid if pid is not None else _only(listen.list_running(settings))
        path = listen.get_socket_path(settings, chosen)
        try:
            return listen.connect(path)
        except (FileNotFoundError, ConnectionRefusedError) as e:
            raise StartupError(
                f"No manager is running as process {chosen}. To list all managers, run 'eventr repl --list'."
            ) from e
        except PermissionError as e:
            raise StartupError(
                f"Only root and the user who runs the manager can open {path}. Run this command "
                "as one of them."
            ) from e
        except OSError as e:
            raise StartupError(f"The manager at {path} isn't responding: {e.strerror or e}.") from e

    return dial


def make_remote_dial(settings: Settings, address: str, token_file: Path | None) -> Dial:
    """Return the dial function for a manager's loopback port, here or through a tunnel.

    Raises:
        InvalidError: the address has no port.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidError(f"{address} isn't a valid address. Use HOST:PORT.")
    path = token_file or listen.get_token_path(settings)

    def dial() -> socket.socket:
        try:
            token = path.read_text().strip()
        except OSError as e:
            raise StartupError(f"Can't read the token in {path}: {e.strerror}.") from e
        try:
            line = socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE)
        except OSError as e:
            raise StartupError(f"No manager is listening at {address}: {e.strerror or e}.") from e
        line.sendall(f"AUTH {token}\n".encode())
        try:
            if line.recv(1, socket.MSG_PEEK):
                return line
        except OSError:
            pass
        line.close()
        raise StartupError(f"The manager at {address} rejected the token in {path}.")

    return dial


def _only(pids: list[int]) -> int:
    if not pids:
        raise StartupError(
            "No manager is running here. Start one with 'eventr up' or 'eventr manager', or set EVENTR_HOME."
        )
    if len(pids) > 1:
        raise StartupError(
            f"{len(pids)} managers are running here (processes {', '.join(map(str, pids))}). "
            "Choose one with --manager."
        )
    return pids[0]


def list_managers(settings: Settings) -> list[dict[str, Any]]:
    """Return the managers on this host, each with its own description."""
    found = []
    for pid in listen.list_running(settings):
        link = ManagerClient(make_local_dial(settings, pid))
        try:
            link.connect()
            found.append(link.manager)
        except EventrError as e:
            found.append({"manager": e.message, "host": "", "pid": pid, "since": ""})
        finally:
            link.close()
    return found


def make_private_file(path: Path) -> None:
    """Create a file that only this user can read, or restrict an existing one.

    Raises:
        OSError: the file can't be created.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
