"""One libcurl easy handle with its callbacks: limits while it receives, and the guard at connect (S08).

A handle is set up once and used for many fetches; per fetch only URL, header lines, pinned addresses
and the connect timeout change.
"""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import pycurl

from app.config import Settings
from app.errors import FetchError
from app.feeds.fetch.headers import REDIRECTS, read_status
from app.feeds.fetch.transfer import Received, Transfer
from app.feeds.net import Policy

#: Tests only: ``(ip, port)`` → a connected socket, or None to refuse.
Connector: TypeAlias = Callable[[str, int], socket.socket | None]

MAX_LINE = 8190
MAX_FIELDS = 128
#: A body nobody reads (of an error or a redirect) is read so far, to keep the connection.
_DISCARD = 64 << 10

_ABORT = 0  # fewer bytes taken than given: libcurl ends the transfer

_WORDS = {
    pycurl.E_COULDNT_RESOLVE_HOST: "dns_failed",
    pycurl.E_COULDNT_RESOLVE_PROXY: "dns_failed",
    pycurl.E_COULDNT_CONNECT: "connect_failed",
    pycurl.E_SEND_ERROR: "connect_failed",
    pycurl.E_RECV_ERROR: "connect_failed",
    pycurl.E_OPERATION_TIMEDOUT: "timeout",
    pycurl.E_PARTIAL_FILE: "bad_encoding",
    pycurl.E_SSL_CONNECT_ERROR: "tls_failed",
    pycurl.E_PEER_FAILED_VERIFICATION: "tls_failed",
    pycurl.E_SSL_CERTPROBLEM: "tls_failed",
    pycurl.E_SSL_CIPHER: "tls_failed",
    pycurl.E_SSL_ISSUER_ERROR: "tls_failed",
    pycurl.E_SSL_INVALIDCERTSTATUS: "tls_failed",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Proxy:
    """The admin's proxy, taken apart."""

    url: str
    host: str
    port: int


@dataclasses.dataclass(frozen=True, slots=True)
class Setup:
    """What all handles of a fetcher share."""

    settings: Settings
    policy: Policy
    cafile: str
    user_agent: str
    proxy: Proxy | None = None
    connector: Connector | None = None


def permitted(setup: Setup, transfer: Transfer, ip: str, port: int) -> bool:
    """The second wall (S08): decide on the very address a socket is about to be connected to."""
    if ip not in transfer.pinned:
        return False
    if setup.proxy is not None:
        return port == setup.proxy.port
    endpoint = transfer.endpoint
    if port != endpoint.port:
        return False
    try:
        setup.policy.check_address(ip, endpoint.host, port, requested=transfer.requested)
    except FetchError:
        return False
    return True


class Slot:
    """A place for one running transfer."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._patience = setup.settings.fetch_idle_timeout
        self._max_head = setup.settings.fetch_max_header
        self.transfer: Transfer | None = None
        self._socket: socket.socket | None = None
        self._reset()
        self.curl = _handle(setup)
        self.curl.setopt(pycurl.OPENSOCKETFUNCTION, self._on_open)
        self.curl.setopt(pycurl.PREREQFUNCTION, self._on_connected)
        self.curl.setopt(pycurl.HEADERFUNCTION, self._on_header)
        self.curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        if setup.connector is not None:
            self.curl.setopt(pycurl.SOCKOPTFUNCTION, lambda *_: pycurl.SOCKOPT_ALREADY_CONNECTED)

    def begin(self, transfer: Transfer) -> None:
        """Set the handle up for a transfer whose addresses are pinned."""
        self.transfer = transfer
        self._reset()
        endpoint, setup, curl = transfer.endpoint, self._setup, self.curl
        curl.setopt(pycurl.URL, endpoint.url)
        curl.setopt(pycurl.HTTPHEADER, transfer.header_lines())
        # TLS has a time of its own; libcurl counts both as connecting.
        patience = setup.settings.fetch_connect_timeout * (2 if endpoint.scheme == "https" else 1)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, int(patience * 1000))
        if setup.proxy is not None:
            curl.setopt(pycurl.RESOLVE, [_pin(setup.proxy.host, setup.proxy.port, transfer.pinned)])
        elif not endpoint.literal:
            curl.setopt(pycurl.RESOLVE, [_pin(endpoint.host, endpoint.port, transfer.pinned)])
        transfer.phase = "connect"
        transfer.quiet_until = time.monotonic() + patience

    def end(self, code: int, message: str) -> Received:
        """Return what the hop brought; ``code`` is libcurl's, 0 for success."""
        self._close_socket()
        error = self._error or (None if self._enough or not code else _curl_error(code, message))
        wire = b"".join(self._pieces) if error is None else b""
        return Received(self._status, self._lines, wire, self._wire, error)

    def clear(self) -> None:
        """Let go of the transfer and all it brought."""
        self.transfer = None
        self._close_socket()
        self._reset()

    def _reset(self) -> None:
        self._error: FetchError | None = None
        self._status = 0
        self._lines: list[bytes] = []
        self._head_bytes = 0
        self._in_head = True
        self._pieces: list[bytes] = []
        self._wire = 0
        self._keep = True
        self._enough = False

    def _close_socket(self) -> None:
        # libcurl has a duplicate; ours must not keep the connection alive beyond its own.
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # -- called by libcurl

    def _on_open(self, _purpose: int, address: Any) -> Any:
        self._close_socket()
        ip, port = address.addr[0], address.addr[1]
        transfer = self.transfer
        if transfer is None or not permitted(self._setup, transfer, ip, port):
            self._error = FetchError("refused", f"{ip} is not an address that was checked")
            return pycurl.SOCKET_BAD
        try:
            if self._setup.connector is not None:
                self._socket = self._setup.connector(ip, port)
            else:
                self._socket = socket.socket(address.family, address.socktype, address.protocol)
        except OSError:
            return pycurl.SOCKET_BAD  # the next address, or "could not connect"
        return pycurl.SOCKET_BAD if self._socket is None else self._socket

    def _on_connected(self, ip: str, _local: str, port: int, _local_port: int) -> int:
        # Also called when an open connection is used again, which no socket callback sees.
        self._close_socket()
        transfer = self.transfer
        if transfer is None or not permitted(self._setup, transfer, ip, port):
            self._error = FetchError("refused", f"connected to {ip}, which was not checked")
            return pycurl.PREREQFUNC_ABORT
        transfer.phase = "first byte"
        transfer.quiet_until = time.monotonic() + self._setup.settings.fetch_first_byte_timeout
        return pycurl.PREREQFUNC_OK

    def _on_header(self, line: bytes) -> int:
        # Called for every line of every answer: four lines of a 304 cost as much as all else here.
        self.transfer.quiet_until = time.monotonic() + self._patience  # type: ignore[union-attr]
        size = len(line)
        self._head_bytes += size
        if self._head_bytes > self._max_head or size > MAX_LINE:
            return self._abort("bad_response", "the head is too long")
        if line.startswith(b"HTTP/"):
            # A new head after 1xx; the bytes of all heads count together.
            self._status, self._in_head = read_status(line), True
            self._lines.clear()
        elif size <= 2:
            self._in_head = False
        elif self._in_head:
            self._lines.append(line)
            if len(self._lines) > MAX_FIELDS:
                return self._abort("bad_response", f"more than {MAX_FIELDS} fields")
        return size

    def _on_body(self, piece: bytes) -> int:
        transfer = self.transfer
        if transfer is None:
            return _ABORT
        transfer.phase = "body"
        transfer.quiet_until = time.monotonic() + self._patience
        if not self._wire and not self._start(transfer):
            return _ABORT
        self._wire += len(piece)
        if not self._keep:
            self._enough = self._wire > _DISCARD
            return _ABORT if self._enough else len(piece)
        if self._wire > transfer.max_bytes:
            return self._abort("too_large", f"more than {transfer.max_bytes} bytes sent")
        self._pieces.append(piece)
        return len(piece)

    def _start(self, transfer: Transfer) -> bool:
        """Look at the head before the first byte of a body; False ends the transfer."""
        self._keep = 200 <= self._status < 300 and self._status not in REDIRECTS
        announced = self.curl.getinfo(pycurl.CONTENT_LENGTH_DOWNLOAD)
        if self._keep and announced > transfer.max_bytes:
            self._abort("too_large", f"{int(announced)} bytes announced")
            return False
        return True

    def _abort(self, word: str, detail: str) -> int:
        self._error = FetchError(word, detail)
        return _ABORT


def _handle(setup: Setup) -> pycurl.Curl:
    """Return an easy handle with all that never changes."""
    curl = pycurl.Curl()
    curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
    curl.setopt(pycurl.FOLLOWLOCATION, 0)
    curl.setopt(pycurl.NOSIGNAL, 1)
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    curl.setopt(pycurl.USERAGENT, setup.user_agent)
    curl.setopt(pycurl.SSL_VERIFYPEER, 1)
    curl.setopt(pycurl.SSL_VERIFYHOST, 2)
    curl.setopt(pycurl.CAINFO, setup.cafile)
    # S10: an empty proxy keeps libcurl from reading http_proxy and its kin; .netrc is never read.
    curl.setopt(pycurl.PROXY, setup.proxy.url if setup.proxy else "")
    curl.setopt(pycurl.NETRC, pycurl.NETRC_IGNORED)
    if setup.proxy is not None:
        curl.setopt(pycurl.NOPROXY, "")
    return curl


def _pin(host: str, port: int, addresses: tuple[str, ...]) -> str:
    # "+": libcurl may forget the entry later, else its cache would grow for ever.
    return f"+{host}:{port}:{','.join(addresses)}"


def _curl_error(code: int, message: str) -> FetchError:
    return FetchError(_WORDS.get(code, "bad_response"), f"{message} (curl {code})")
