"""The desktop around a browser: a session bus on which a server of notifications lives, and who clicks there.

    with Desktop() as desktop:
        playwright.chromium.launch(env={**os.environ, **desktop.env})
        ...
        note = desktop.shown[-1]        # title and body as the desktop got them
        desktop.click(note)             # a real click: the browser lets its worker open windows

Speaks as much of D-Bus (https://dbus.freedesktop.org/doc/dbus-specification.html) and of the Desktop
Notifications Specification as browsers ask for; whatever else they look for on a bus is not there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import socket
import struct
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_SERVICE, _PATH = "org.freedesktop.Notifications", "/org/freedesktop/Notifications"
#: The connection by which the service is known.
_OWNER = ":1.99"
_CALL, _RETURN, _ERROR, _SIGNAL = 1, 2, 3, 4
#: Header fields and their types.
_FIELDS = {1: "o", 2: "s", 3: "s", 4: "s", 5: "u", 6: "s", 7: "s", 8: "g", 9: "u"}
_NO_REPLY = 1


@dataclasses.dataclass(frozen=True)
class Shown:
    """A notification on the screen; ``replaces``: the id of one whose place it takes, 0: of none."""

    id: int
    title: str
    body: str
    replaces: int
    browser: _Connection


class Desktop:
    """A session bus in threads of this process.

    Attributes:
        env: what a program is started with that belongs to this desktop.
        shown: notifications in the order in which they came.
        closed: ids of those that were taken away again.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="bus"))
        path = self._folder / "s"
        self.env = {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={path}"}
        self.shown: list[Shown] = []
        self.closed: list[int] = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._connections: list[_Connection] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._socket.close()
        for each in self._connections:
            each.close()
        shutil.rmtree(self._folder)

    def click(self, note: Shown) -> None:
        """Click on a notification."""
        note.browser.signal("ActionInvoked", "us", note.id, "default")

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                made = _Connection(self, self._socket.accept()[0], len(self._connections) + 1)
                made.start()
                self._connections.append(made)


class _Connection(threading.Thread):
    def __init__(self, desktop: Desktop, connected: socket.socket, number: int) -> None:
        super().__init__(daemon=True)
        self._desktop, self.socket, self._at = desktop, connected, f":1.{number}"
        self._stream = connected.makefile("rb")
        self._serial = 0
        self._writing = threading.RLock()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # who was there has gone before
            self.socket.shutdown(socket.SHUT_RDWR)
        self.join()

    def run(self) -> None:
        with self.socket, self._stream, contextlib.suppress(OSError, ValueError):
            self._log_in()
            while (message := self._read()) is not None:
                self._take(*message)

    def _log_in(self) -> None:
        while (line := self._stream.readline().lstrip(b"\0").split()) and line[0] != b"BEGIN":
            known = line[:2] == [b"AUTH", b"EXTERNAL"]
            refused = b"REJECTED EXTERNAL" if line[0] == b"AUTH" else b"ERROR"
            self.socket.sendall((b"OK 0123456789abcdef0123456789abcdef" if known else refused) + b"\r\n")

    def _read(self) -> tuple[int, int, int, dict[int, Any], _Reader] | None:
        head = self._stream.read(16)
        if len(head) < 16:
            return None
        _, kind, flags, _, length, serial, fields = struct.unpack("<BBBBIII", head)
        data = head + self._stream.read(-(-fields // 8) * 8)
        reader, found = _Reader(data, 16), {}
        while reader.at < 16 + fields:
            reader.align(8)
            code = reader.byte()
            found[code] = reader.value(reader.value("g"))
        return kind, flags, serial, found, _Reader(self._stream.read(length), 0)

    def _take(self, kind: int, flags: int, serial: int, fields: dict[int, Any], body: _Reader) -> None:
        if kind != _CALL or flags & _NO_REPLY:
            return
        sender = _OWNER if fields.get(6) in (_SERVICE, _OWNER) else "org.freedesktop.DBus"
        about = {5: serial, 6: self._at, 7: sender}
        # Who sees a notification may click at once: the browser must know its id before that.
        with self._writing:
            answer = self._answer(fields.get(3, ""), fields.get(6, ""), body)
            if answer is None:
                self._send(_ERROR, {4: "org.freedesktop.DBus.Error.NameHasNoOwner", **about}, "s", "not here")
            else:
                self._send(_RETURN, about, *answer)

    def _answer(self, member: str, whom: str, body: _Reader) -> tuple[Any, ...] | None:
        """Return signature and values of an answer, None: there is nothing of this kind."""
        if whom in (_SERVICE, _OWNER):
            return self._notify(member, body)
        if whom != "org.freedesktop.DBus":
            return None
        match member:
            case "Hello":
                return "s", self._at
            case "AddMatch" | "RemoveMatch":
                return ("",)
            case "NameHasOwner":
                return "b", body.value("s") == _SERVICE
            case "GetNameOwner":
                return ("s", _OWNER) if body.value("s") == _SERVICE else None
            case "ListNames" | "ListActivatableNames":
                return "as", [_SERVICE]
            case "StartServiceByName":
                return ("u", 2) if body.value("s") == _SERVICE else None
        return None

    def _notify(self, member: str, body: _Reader) -> tuple[Any, ...] | None:
        desktop = self._desktop
        match member:
            case "GetCapabilities":
                return "as", ["actions", "body"]
            case "GetServerInformation":
                return "ssss", "desktop", "tests", "1", "1.2"
            case "Notify":
                _, replaces, _, title, text = (body.value(kind) for kind in "susss")
                shown = Shown(len(desktop.shown) + 1, title, text, replaces, self)
                desktop.shown.append(shown)
                return "u", shown.id
            case "CloseNotification":
                closed = body.value("u")
                desktop.closed.append(closed)
                self.signal("NotificationClosed", "uu", closed, 3)
                return ("",)
        return None

    def signal(self, member: str, signature: str, *values: Any) -> None:
        """Let the other end hear of something."""
        self._send(_SIGNAL, {1: _PATH, 2: _SERVICE, 3: member, 7: _OWNER}, signature, *values)

    def _send(self, kind: int, fields: dict[int, Any], signature: str, *values: Any) -> None:
        body, head = _Writer(), _Writer()
        for value_kind, value in zip(signature.replace("as", "a"), values, strict=True):
            body.put(value_kind, value)
        for code, value in {**fields, **({8: signature} if signature else {})}.items():
            head.align(8)
            head.data += bytes([code])
            head.put("g", _FIELDS[code])
            head.put(_FIELDS[code], value)
        with self._writing:
            self._serial += 1
            start = struct.pack(
                "<BBBBIII", 0x6C, kind, _NO_REPLY, 1, len(body.data), self._serial, len(head.data)
            )
            head.align(8)
            self.socket.sendall(start + bytes(head.data) + bytes(body.data))


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def align(self, size: int) -> None:
        self.at = -(-self.at // size) * size

    def byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def value(self, kind: str) -> Any:
        if kind == "g":
            length = self.byte()
        else:
            self.align(4)
            (length,) = struct.unpack_from("<I", self._data, self.at)
            self.at += 4
            if kind in "ub":
                return length
        start, self.at = self.at, self.at + length + 1
        return self._data[start : start + length].decode()


class _Writer:
    def __init__(self) -> None:
        self.data = bytearray()

    def align(self, size: int) -> None:
        self.data += bytes(-len(self.data) % size)

    def put(self, kind: str, value: Any) -> None:
        """Append a value; of kind ``a`` a list of strings."""
        if kind == "g":
            self.data += bytes([len(value)]) + value.encode() + b"\0"
            return
        self.align(4)
        if kind in "ub":
            self.data += struct.pack("<I", value)
        elif kind == "a":
            inner = _Writer()
            for each in value:
                inner.put("s", each)
            self.data += struct.pack("<I", len(inner.data)) + inner.data
        else:
            self.data += struct.pack("<I", len(value.encode())) + value.encode() + b"\0"
