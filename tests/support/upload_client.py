"""A client for resumable uploads whose lines break, over raw sockets."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import random
import socket
from collections.abc import Callable, Collection, Sequence
from typing import Any

from tests.support.upload_server import PATIENCE, read_answer

PART = "application/offset+octet-stream"
#: A web server's first page, with all its imports.
START = 300.0


@dataclasses.dataclass(frozen=True)
class Content:
    """Random bytes that repeat, so that a large file needs little memory."""

    block: bytes
    size: int

    @classmethod
    def make(cls, seed: int, size: int) -> Content:
        """Return content of a size."""
        return cls(random.Random(seed).randbytes(min(size, 8 << 20)), size)

    def read(self, first: int, end: int) -> bytes:
        """Return the bytes from ``first`` to before ``end``."""
        start, count = first % len(self.block), end - first
        repeated = self.block * (1 + (start + count) // len(self.block))
        return repeated[start : start + count]

    def hash(self) -> bytes:
        """Return the SHA-256 of all bytes."""
        found = hashlib.sha256()
        for first in range(0, self.size, len(self.block)):
            found.update(self.read(first, min(self.size, first + len(self.block))))
        return found.digest()


@dataclasses.dataclass
class UploadClient:
    """A program with a token."""

    port: int
    token: str

    def connect(self) -> socket.socket:
        """Return a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def build(self, method: str, path: str, *fields: str, token: str | None = None) -> bytes:
        """Return the head of a request."""
        lines = (
            f"{method} {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            "Tus-Resumable: 1.0.0",
            f"Authorization: Bearer {self.token if token is None else token}",
            *fields,
        )
        return "".join(f"{line}\r\n" for line in (*lines, "")).encode()

    def build_part(
        self,
        path: str,
        offset: int,
        length: int | None,
        fields: Sequence[str] = (),
        token: str | None = None,
    ) -> bytes:
        """Return the head of a part; without a length, the fields say where it ends."""
        own = (f"Content-Type: {PART}", f"Upload-Offset: {offset}")
        size = () if length is None else (f"Content-Length: {length}",)
        return self.build("PATCH", path, *own, *size, *fields, token=token)

    def request(self, method: str, path: str, *fields: str) -> tuple[int, dict[str, str]]:
        """Send a request on a connection of its own; status 0 if it was refused or cut."""
        try:
            with contextlib.closing(self.connect()) as sock:
                sock.sendall(self.build(method, path, *fields))
                return read_answer(sock, method)[:2]
        except OSError:
            return 0, {}

    def is_served(self) -> bool:
        """Return whether the server answers."""
        return self.request("GET", "/healthz")[0] == 200

    def create(self, size: int) -> str:
        """Begin an upload, and return its path."""
        status, fields = self.request("POST", "/api/v1/uploads", f"Upload-Length: {size}")
        assert status == 201, (status, fields)
        return fields["location"]

    def send_part(self, path: str, offset: int, data: bytes) -> tuple[int, dict[str, str]]:
        """Send a whole part; return status and headers, status 0 if the line was cut."""
        with contextlib.closing(self.connect()) as sock:
            # If it is refused before its end, the answer may still be there.
            with contextlib.suppress(ConnectionError):
                sock.sendall(self.build_part(path, offset, len(data)) + data)
            try:
                return read_answer(sock)[:2]
            except OSError:
                return 0, {}

    def read_progress(self, path: str) -> dict[str, str]:
        """Return the headers that describe an upload; none while the server doesn't answer."""
        status, fields = self.request("HEAD", path)
        return fields if status == 200 else {}

    def send_with_cuts(
        self,
        path: str,
        content: Content,
        part: int,
        cuts: Collection[int],
        kills: Collection[int],
        kill: Callable[[], Any],
        eventually: Callable[..., Any],
    ) -> None:
        """Send a file in parts whose line breaks at some of its bytes, and check what the server has then.

        Args:
            part: bytes of a part.
            cuts: bytes at which the line breaks.
            kills: those of them at which the server is killed.
            kill: kills the server; it starts again by itself.
        """
        left, offset = set(kills), 0
        for cut in (*sorted(cuts), content.size):
            while offset < cut:
                end = min(offset + part, content.size)
                sent = min(end, cut)
                killer = kill if sent in left else None
                left.discard(sent)
                confirmed = self._send_part(path, content, offset, sent, end, kill=killer)
                found = int(eventually(lambda: self.read_progress(path), START)["upload-offset"])
                assert confirmed <= found <= sent, "nothing confirmed is lost"
                if killer is None:
                    assert found == sent, "what came over a line that broke counts"
                offset = found

    def _send_part(
        self,
        path: str,
        content: Content,
        offset: int,
        sent: int,
        end: int,
        *,
        kill: Callable[[], Any] | None,
    ) -> int:
        """Send a part up to ``sent``; return the offset that was confirmed."""
        with contextlib.closing(self.connect()) as sock:
            try:
                sock.sendall(self.build_part(path, offset, end - offset) + content.read(offset, sent))
                if kill is not None:
                    kill()
                elif sent < end:
                    sock.shutdown(socket.SHUT_WR)
                status, fields, _ = read_answer(sock)
            except ConnectionError:
                return offset
            return int(fields["upload-offset"]) if status == 204 else offset
