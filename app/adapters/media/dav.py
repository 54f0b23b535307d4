"""Files in a WebDAV folder, by libcurl: no package needed.

A shard is one flat collection. A file is sent under another name and then moved, so that a request that
breaks off leaves nothing that can be read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import email.utils
import io
import math
import secrets
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import BinaryIO
from urllib.parse import unquote

import certifi
import pycurl
from lxml import etree

from app.errors import EventrError, MediaStoreError, NoSpaceError, NotFoundError
from app.models.media.store import (
    SHARD,
    Piece,
    StoredFile,
    StoreSpace,
    clamp_range,
    from_file_name,
    to_file_name,
)
from app.models.media.store_address import StoreAddress

#: Bytes of a file that one request reads. A slow reader holds no connection between two of them.
READ_BYTES = 1 << 20
#: Longest answer that is read otherwise: the list of a shard.
_LIST_BYTES = 64 << 20
#: How much longer than a read a write may stall: servers flush a file before they answer.
WRITE_PATIENCE = 5
_SLOW_RATE = 1024
_DAV = "{DAV:}"
_LIST = (
    b'<?xml version="1.0"?><propfind xmlns="DAV:"><prop><getcontentlength/><getlastmodified/>'
    b"<resourcetype/></prop></propfind>"
)
_QUOTA = (
    b'<?xml version="1.0"?><propfind xmlns="DAV:"><prop><quota-available-bytes/><quota-used-bytes/>'
    b"</prop></propfind>"
)
_ABSENT = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


@dataclasses.dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    headers: dict[str, str]
    body: bytes


class DavStore:
    """Implements :class:`app.ports.MediaStore` on a WebDAV server.

    Args:
        timeout: seconds for connecting, and for one read.
    """

    is_local = False

    def __init__(self, address: StoreAddress, *, timeout: float) -> None:
        self._address, self._timeout = address, timeout
        #: Handles that aren't in use; each keeps its connection.
        self._handles: list[pycurl.Curl] = []
        self._shards: set[str] = set()

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._address.name

    def put(self, key: str, source: BinaryIO, size: int) -> None:
        """Store a file: whole, or not there under its name.

        Raises:
            NoSpaceError: the server has no room.
            MediaStoreError: the server isn't responding, or refuses.
        """
        shard, name = to_file_name(key)
        temporary = f"{shard}/{name}.{secrets.token_hex(4)}.tmp"
        self._require_shard(shard)
        try:
            reply = self._send(temporary, source, size)
            if reply.status in _ABSENT:
                self._shards.discard(shard)  # deleted on the server: the next attempt creates it
            _require(reply, HTTPStatus.CREATED, HTTPStatus.NO_CONTENT, HTTPStatus.OK)
            if source.read(1):
                raise MediaStoreError(reason="the source has another size")
            target = f"Destination: {self._build_url(f'{shard}/{name}')}"
            moved = self._request("MOVE", temporary, headers=(target, "Overwrite: T"), is_slow=True)
            _require(moved, HTTPStatus.CREATED, HTTPStatus.NO_CONTENT)
        except (MediaStoreError, NoSpaceError):
            with contextlib.suppress(MediaStoreError):
                self._request("DELETE", temporary)
            raise

    def _send(self, path: str, source: BinaryIO, size: int) -> _Reply:
        failed: list[Exception] = []

        def read(count: int) -> bytes | int:
            try:
                return source.read(count)
            except (EventrError, OSError) as e:
                failed.append(e)
                return pycurl.READFUNC_ABORT

        try:
            return self._request("PUT", path, read=read, size=size, is_slow=True)
        except MediaStoreError as e:
            raise (MediaStoreError(reason="the source failed") if failed else e) from e.__cause__

    def _require_shard(self, shard: str) -> None:
        """Create the collection of a shard, once per process."""
        if shard in self._shards:
            return
        reply = self._request("MKCOL", shard)
        if reply.status in _ABSENT:
            self._request("MKCOL", "")
            reply = self._request("MKCOL", shard)
        # One that exists is refused.
        _require(reply, HTTPStatus.CREATED, HTTPStatus.METHOD_NOT_ALLOWED)
        self._shards.add(shard)

    def open(self, key: str, first: int = 0, last: int | None = None) -> Piece:
        """Return a file, or its bytes from ``first`` to ``last`` inclusive.

        Raises:
            NotFoundError: there is no such file.
            MediaStoreError: the server isn't responding, refuses, or can't send a part of a file.
        """
        path = "/".join(to_file_name(key))
        total, chunk = self._read(path, first, last)
        length = clamp_range(first, last, total)
        return Piece(length, total, first=first, chunks=self._read_rest(path, first + length, first, chunk))

    def _read_rest(self, path: str, end: int, position: int, chunk: bytes) -> Iterator[bytes]:
        while True:
            position += len(chunk)
            yield chunk
            if position >= end:
                return
            _, chunk = self._read(path, position, end - 1)

    def _read(self, path: str, first: int, last: int | None) -> tuple[int, bytes]:
        """Return the size of a file, and at most :data:`READ_BYTES` of it."""
        stop = first + READ_BYTES - 1 if last is None else min(last, first + READ_BYTES - 1)
        reply = self._request("GET", path, headers=(f"Range: bytes={first}-{stop}",), limit=READ_BYTES)
        if reply.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            # An empty file has no range.
            reply = self._request("GET", path, limit=READ_BYTES)
        if reply.status == HTTPStatus.OK:
            # Small, or from a server that always sends all.
            body = reply.body[first:] if last is None else reply.body[first : last + 1]
            return len(reply.body), body
        if reply.status == HTTPStatus.NOT_FOUND:
            raise NotFoundError
        _require(reply, HTTPStatus.PARTIAL_CONTENT)
        span, _, total = reply.headers.get("content-range", "").partition("/")
        if not total.isdigit() or not span.startswith(f"bytes {first}-") or not reply.body:
            raise MediaStoreError(reason="wrong range")
        return int(total), reply.body

    def delete(self, key: str) -> None:
        """Delete a file; a missing one is a success.

        Raises:
            MediaStoreError: the server isn't responding, or refuses.
        """
        reply = self._request("DELETE", "/".join(to_file_name(key)), is_slow=True)
        _require(reply, HTTPStatus.NO_CONTENT, HTTPStatus.OK, HTTPStatus.NOT_FOUND)

    def list_files(self, shard: str) -> Iterator[StoredFile]:
        """Yield all files of a shard, temporary ones too.

        Raises:
            MediaStoreError: the server isn't responding, or refuses.
        """
        if not SHARD.fullmatch(shard):
            raise ValueError("not a shard")
        for response in self._find_properties(f"{shard}/", _LIST, 1):
            name = unquote(response.findtext(f"{_DAV}href", "")).rstrip("/").rpartition("/")[2]
            key = from_file_name(shard, name)
            size = response.findtext(f".//{_DAV}getcontentlength", "")
            changed = _parse_date(response.findtext(f".//{_DAV}getlastmodified", ""))
            if key is not None and size.isdigit() and changed is not None:
                yield StoredFile(key, int(size), changed)

    def measure_space(self) -> StoreSpace | None:
        """Return the space that the server reports (RFC 4331); None: it reports none."""
        for response in self._find_properties("", _QUOTA, 0):
            free = response.findtext(f".//{_DAV}quota-available-bytes", "")
            used = response.findtext(f".//{_DAV}quota-used-bytes", "")
            if free.isdigit() and used.isdigit():
                return StoreSpace(int(free), int(free) + int(used))
        return None

    def _find_properties(self, path: str, body: bytes, depth: int) -> list[etree._Element]:
        headers = (f"Depth: {depth}", "Content-Type: application/xml")
        source = io.BytesIO(body)
        reply = self._request(
            "PROPFIND",
            path,
            headers=headers,
            read=source.read,
            size=len(body),
            limit=_LIST_BYTES,
            is_slow=depth > 0,
        )
        if reply.status in (HTTPStatus.NOT_FOUND, HTTPStatus.NOT_IMPLEMENTED):
            return []
        _require(reply, HTTPStatus.MULTI_STATUS)
        parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True)
        try:
            return etree.fromstring(reply.body, parser).findall(f"{_DAV}response")
        except (etree.XMLSyntaxError, ValueError) as e:
            raise MediaStoreError(reason="invalid XML") from e

    def _build_url(self, path: str) -> str:
        return f"{self._address.url}/{path}"

    def _request(
        self,
        method: str,
        path: str,
        *,
        headers: tuple[str, ...] = (),
        read: Callable[[int], bytes | int] | None = None,
        size: int = 0,
        limit: int = READ_BYTES,
        is_slow: bool = False,
    ) -> _Reply:
        """Send a request; a body that exceeds ``limit`` bytes is an error.

        Args:
            is_slow: whether the server may need long, as long as something happens.
        """
        curl = self._take_handle()
        received: list[bytes] = []
        lines: list[bytes] = []
        room = limit

        def receive(chunk: bytes) -> int:
            nonlocal room
            room -= len(chunk)
            received.append(chunk)
            return len(chunk) if room >= 0 else 0  # fewer bytes end the transfer

        curl.setopt(pycurl.URL, self._build_url(path))
        curl.setopt(pycurl.CUSTOMREQUEST, method)
        curl.setopt(pycurl.HTTPHEADER, list(headers))
        curl.setopt(pycurl.WRITEFUNCTION, receive)
        curl.setopt(pycurl.HEADERFUNCTION, lines.append)
        if read is not None:
            curl.setopt(pycurl.UPLOAD, 1)
            curl.setopt(pycurl.READFUNCTION, read)
            curl.setopt(pycurl.INFILESIZE_LARGE, size)
        if is_slow:
            curl.setopt(pycurl.LOW_SPEED_LIMIT, _SLOW_RATE)
            curl.setopt(pycurl.LOW_SPEED_TIME, math.ceil(self._timeout * WRITE_PATIENCE))
        else:
            curl.setopt(pycurl.TIMEOUT_MS, int(self._timeout * 1000))
        try:
            curl.perform()
        except pycurl.error as e:
            reason = curl.errstr()
            curl.close()
            raise MediaStoreError(reason=reason) from e
        reply = _Reply(curl.getinfo(pycurl.RESPONSE_CODE), _parse_headers(lines), b"".join(received))
        self._handles.append(curl)
        return reply

    def _take_handle(self) -> pycurl.Curl:
        try:
            curl = self._handles.pop()
        except IndexError:
            curl = pycurl.Curl()
        curl.reset()
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.CAINFO, certifi.where())
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, int(self._timeout * 1000))
        if self._address.user:
            curl.setopt(pycurl.HTTPAUTH, pycurl.HTTPAUTH_BASIC)
            curl.setopt(pycurl.USERNAME, self._address.user)
            curl.setopt(pycurl.PASSWORD, self._address.password)
        return curl


def _require(reply: _Reply, *statuses: HTTPStatus) -> None:
    if reply.status == HTTPStatus.INSUFFICIENT_STORAGE:
        raise NoSpaceError
    if reply.status not in statuses:
        raise MediaStoreError(status=reply.status)


def _parse_headers(lines: list[bytes]) -> dict[str, str]:
    """Return the last response's headers; a ``100 Continue`` comes before it."""
    headers: dict[str, str] = {}
    for line in lines:
        if line.startswith(b"HTTP/"):
            headers.clear()
        name, colon, value = line.decode("latin-1").partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return headers


def _parse_date(text: str) -> dt.datetime | None:
    try:
        return email.utils.parsedate_to_datetime(text).astimezone(dt.UTC)
    except (TypeError, ValueError):
        return None
