"""What a scripted server answers: replies as data, and as bytes (RFC 9112)."""

from __future__ import annotations

import dataclasses
import gzip as gzip_module
import hashlib
from collections.abc import Callable, Iterable, Mapping

Headers = tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """One answer and the way it is sent.

    Attributes:
        headers: sent besides Content-Length (or Transfer-Encoding), ETag, Last-Modified, Connection.
        etag: sent, and answered with 304 when the request repeats it; ``last_modified`` likewise.
        gzip: compress the body when the request accepts gzip.
        close: close the connection after this answer.
        delay: seconds before the first byte; ``forever`` for never.
        drip: bytes a piece and seconds between pieces; the whole answer is sent so.
        chunked: send the body in one chunk; ``unfinished`` leaves out the last chunk and waits.
        cut: close after so many bytes of the body, whatever Content-Length said.
        reset: end with RST instead of FIN, at ``cut`` or before the first byte.
        raw: exact bytes instead of a composed answer; the connection is closed after them.
        endless: after head (or ``raw``) repeat this until the client goes away, ``drip[1]`` apart.
    """

    status: int = 200
    headers: Headers = ()
    body: bytes = b""
    etag: str | None = None
    last_modified: str | None = None
    gzip: bool = False
    close: bool = False
    delay: float = 0.0
    drip: tuple[int, float] | None = None
    chunked: bool = False
    unfinished: bool = False
    cut: int | None = None
    reset: bool = False
    raw: bytes | None = None
    endless: bytes | None = None

    @property
    def plain(self) -> bool:
        """Whether the whole answer can be written at once."""
        odd = self.delay or self.drip or self.unfinished or self.reset or self.endless
        return not odd and self.cut is None and self.raw is None


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What the server saw: ``headers`` with names in lower case, ``connection`` counts from 1."""

    method: str
    path: str
    headers: Mapping[str, str]
    connection: int
    body: bytes = b""


Script = Reply | Callable[[Request], Reply]


@dataclasses.dataclass(slots=True)
class Composed:
    """A plain reply as bytes: full, compressed, and "not modified"."""

    full: bytes
    zipped: bytes | None
    not_modified: bytes | None
    etag: bytes | None
    last_modified: bytes | None
    close: bool

    @classmethod
    def of(cls, reply: Reply) -> Composed:
        common = [*reply.headers]
        common += [("ETag", reply.etag)] if reply.etag else []
        common += [("Last-Modified", reply.last_modified)] if reply.last_modified else []
        common += [("Connection", "close")] if reply.close else []
        zipped = None
        if reply.gzip:
            body = gzip_module.compress(reply.body, 6, mtime=0)
            zipped = compose(reply, [*common, ("Content-Encoding", "gzip")], body)
        conditional = reply.etag or reply.last_modified
        return cls(
            compose(reply, common, reply.body),
            zipped,
            head_bytes(304, common) if conditional else None,
            b"\r\nIf-None-Match: " + reply.etag.encode("latin-1") + b"\r\n" if reply.etag else None,
            b"\r\nIf-Modified-Since: " + reply.last_modified.encode("latin-1") + b"\r\n"
            if reply.last_modified
            else None,
            reply.close,
        )

    def answer(self, head: bytes) -> bytes:
        if self.etag is not None and b"\r\nIf-None-Match:" in head:
            if self.etag in head and self.not_modified is not None:
                return self.not_modified
        elif self.last_modified is not None and self.last_modified in head and self.not_modified is not None:
            return self.not_modified
        return self.zipped if self.zipped is not None and b"gzip" in head else self.full


def head_bytes(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def compose(reply: Reply, headers: Iterable[tuple[str, str]], body: bytes) -> bytes:
    if reply.chunked:
        chunk = f"{len(body):x}".encode() + b"\r\n" + body + b"\r\n" if body else b""
        end = b"" if reply.unfinished else b"0\r\n\r\n"
        return head_bytes(reply.status, [*headers, ("Transfer-Encoding", "chunked")]) + chunk + end
    return head_bytes(reply.status, [*headers, ("Content-Length", str(len(body)))]) + body


def played(reply: Reply, head: bytes) -> bytes:
    """Return the bytes of a scripted reply, cut where it says."""
    if reply.raw is not None:
        return reply.raw
    if reply.reset and reply.cut is None:
        return b""
    if reply.endless is not None and not reply.body:
        return head_bytes(reply.status, reply.headers)
    whole = Composed.of(reply).answer(head)
    if reply.cut is None:
        return whole
    return whole[: whole.index(b"\r\n\r\n") + 4 + reply.cut]


def file_reply(body: bytes, *, etag: bool = True, gzip: bool = True, close: bool = False) -> Reply:
    """Return the answer of a well-behaved static file server for these bytes."""
    mark = f'"{hashlib.blake2b(body, digest_size=8).hexdigest()}"' if etag else None
    return Reply(body=body, etag=mark, gzip=gzip, close=close, headers=(("Content-Type", _kind(body)),))


def _kind(body: bytes) -> str:
    start = body[:512].lstrip().lower()
    if start.startswith(b"{"):
        return "application/json"
    page = start.startswith((b"<!doctype html", b"<html"))
    return "text/html" if page else "application/xml"
