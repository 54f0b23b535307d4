"""One libcurl easy handle with its callbacks: limits while receiving, and the address check at connect (S08).

A handle is set up once and reused for many fetches. Per fetch, only the URL, header lines, pinned addresses
and the connect timeout change.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pycurl

from app.config import Settings
from app.errors import FetchError
from app.feeds.fetch.address_policy import Policy
from app.feeds.fetch.headers import read_lines
from app.feeds.fetch.transfer import HopResult, Transfer, get_first_byte_timeout
from app.models.feeds.fetched import Purpose

#: Tests only: ``(ip, port)`` → a connected socket, or None to refuse.
Connector: TypeAlias = Callable[[str, int], socket.socket | None]

MAX_LINE = 8190
MAX_FIELDS = 128
#: A body that isn't needed (of an error or a redirect) is read up to this size, to keep the connection.
_DISCARD = 64 << 10

#: Limit for the wire bodies of all transfers together; beyond it the long ones fail. Otherwise 200 slow
#: bodies of 10 MiB at once would kill the worker. Feeds of ordinary length are never affected.
BUFFERED = 128 << 20
_LONG = 1 << 20

#: libcurl scans all cached names at the end of each transfer; with thousands of hosts that takes as long
#: as connecting. So most transfers never expire names, and every 500th clears out all old ones: long
#: lists slow libcurl down, and the resolver has its own cache.
TIDY = 500
_REMEMBER, _FOREVER = 1, -1  # seconds

#: Bytes that libcurl receives at once.
RECEIVE = 128 << 10

_ABORT = 0  # accepting fewer bytes than given makes libcurl end the transfer

_WORDS = {
    pycurl.E_COULDNT_RESOLVE_HOST: "dns_failed",
    pycurl.E_COULDNT_RESOLVE_PROXY: "dns_failed",
    pycurl.E_COULDNT_CONNECT: "connect_failed",
    pycurl.E_SEND_ERROR: "connect_failed",
    pycurl.E_RECV_ERROR: "connect_failed",
    pycurl.E_OPERATION_TIMEDOUT: "timeout",
    pycurl.E_PARTIAL_FILE: "bad_encoding",
    pycurl.E_SSL_CONNECT_ERROR: "https_failed",
    pycurl.E_PEER_FAILED_VERIFICATION: "tls_failed",
    pycurl.E_SSL_CERTPROBLEM: "tls_failed",
    pycurl.E_SSL_CIPHER: "https_failed",
    pycurl.E_SSL_ISSUER_ERROR: "tls_failed",
    pycurl.E_SSL_INVALIDCERTSTATUS: "tls_failed",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Proxy:
    """The admin's proxy, split into its parts."""

    url: str
    host: str
    port: int


@dataclasses.dataclass(slots=True)
class Buffered:
    """The number of body bytes held right now."""

    bytes: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Setup:
    """The configuration that all handles of a fetcher share."""

    settings: Settings
    policies: Mapping[Purpose, Policy]
    cafile: str
    user_agent: str
    proxy: Proxy | None = None
    connector: Connector | None = None
    buffered: Buffered = dataclasses.field(default_factory=Buffered)

    @property
    def allows_private(self) -> bool:
        """Whether requests for any purpose may reach private addresses."""
        return any(policy.allows_private for policy in self.policies.values())


def is_permitted(setup: Setup, transfer: Transfer, ip: str, port: int) -> bool:
    """Return whether a socket may connect to this address: the second check, at connect (S08)."""
    if ip not in transfer.pinned:
        return False
    if setup.proxy is not None:
        return port == setup.proxy.port
    endpoint = transfer.endpoint
    if port != endpoint.port:
        return False
    try:
        transfer.policy.check_address(ip, endpoint.host, port, requested=transfer.requested)
    except FetchError:
        return False
    return True


class Slot:
    """A slot for one running transfer.

    A 304 runs none of our Python code but :meth:`_on_open`. libcurl appends the head's lines to a
    list, which :meth:`find_stall` and :meth:`end` check. libcurl itself ends a head of 300 KB, so the
    list can't grow beyond that between two checks.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.transfer: Transfer | None = None
        self._lines: list[bytes] = []
        self._pieces: list[bytes] = []
        self._patience = self._began = self._quiet_until = 0.0
        self._phase = ""
        self._fresh = self._tidy = self._keep = self._enough = self._posting = self._over = False
        self._wire = self._progress = 0
        self._error: FetchError | None = None
        self.curl = _handle(setup)
        self.curl.setopt(pycurl.OPENSOCKETFUNCTION, self._on_open)
        self.curl.setopt(pycurl.HEADERFUNCTION, self._lines.append)
        self.curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        if setup.connector is not None:
            self.curl.setopt(pycurl.SOCKOPTFUNCTION, lambda *_: pycurl.SOCKOPT_ALREADY_CONNECTED)

    def begin(self, transfer: Transfer, *, forget_dns: bool = False) -> None:
        """Set up the handle for a transfer whose addresses are pinned.

        Args:
            forget_dns: let libcurl clear out old names at the end.
        """
        self._reset()
        self.transfer = transfer
        endpoint, setup, curl = transfer.endpoint, self._setup, self.curl
        curl.setopt(pycurl.URL, endpoint.url)
        # Bytes, as received: pycurl accepts only ASCII in str, but RFC 9110 (5.5) allows more.
        curl.setopt(pycurl.HTTPHEADER, [line.encode("latin-1") for line in transfer.build_header_lines()])
        form = transfer.request.form
        if form is not None:
            curl.setopt(pycurl.POSTFIELDS, form)
            self._posting = True
        elif self._posting:
            curl.setopt(pycurl.HTTPGET, 1)
            self._posting = False
        # The TLS handshake gets its own timeout; libcurl counts both as connecting.
        patience = setup.settings.fetch_connect_timeout * (2 if endpoint.scheme == "https" else 1)
        if patience != self._patience:
            self._patience = patience
            curl.setopt(pycurl.CONNECTTIMEOUT_MS, int(patience * 1000))
        # Only requests that may open a connection to a private address may reuse one.
        is_other = transfer.request.purpose is not Purpose.FETCH
        fresh = (is_other or not transfer.requested) and setup.allows_private
        if fresh != self._fresh:
            self._fresh = fresh
            curl.setopt(pycurl.FRESH_CONNECT, fresh)
            curl.setopt(pycurl.FORBID_REUSE, fresh)
        if forget_dns != self._tidy:
            self._tidy = forget_dns
            curl.setopt(pycurl.DNS_CACHE_TIMEOUT, _REMEMBER if forget_dns else _FOREVER)
        if setup.proxy is not None:
            curl.setopt(pycurl.RESOLVE, [_pin(setup.proxy.host, setup.proxy.port, transfer.pinned)])
        elif not endpoint.is_ip_literal:
            curl.setopt(pycurl.RESOLVE, [_pin(endpoint.host, endpoint.port, transfer.pinned)])
        self._began = time.monotonic()
        self._phase, self._quiet_until = "connect", self._began + patience

    def find_stall(self, now: float) -> str | None:
        """Return the phase that timed out; None while the transfer makes progress (X06)."""
        progress = self._wire + len(self._lines)
        if progress != self._progress:
            self._progress = progress
            self._phase, self._quiet_until = "next byte", now + self._setup.settings.fetch_idle_timeout
        if progress > MAX_FIELDS and self._error is None:
            self._error = _head_error(self._lines, self._setup.settings)
            return None if self._error is None else "end of the headers"
        if now < self._quiet_until:
            return None
        if (
            self._phase == "connect"
            and self.transfer
            and (asked := self.curl.getinfo(pycurl.PRETRANSFER_TIME))
        ):
            patience = get_first_byte_timeout(self.transfer.request, self._setup.settings)
            self._phase, self._quiet_until = "first byte", self._began + asked + patience
        return None if now < self._quiet_until else self._phase

    def end(self, code: int, message: str) -> HopResult:
        """Return the result of the hop; ``code`` is libcurl's, 0 for success."""
        status, fields = read_lines(self._lines)
        error = self._error or _head_error(self._lines, self._setup.settings)
        if error is None and code and not self._enough:
            error = FetchError(_WORDS.get(code, "bad_response"), f"{message} (curl {code})")
        wire = b"".join(self._pieces) if self._pieces and error is None else b""
        return HopResult(status, fields, wire, self._wire, error, is_over=self._over)

    def clear(self) -> None:
        """Release the transfer and its body; :meth:`begin` resets the rest."""
        self.transfer = None
        if self._pieces:
            self._setup.buffered.bytes -= self._wire
            self._pieces.clear()

    def _reset(self) -> None:
        self._error = None
        self._lines.clear()
        self._wire = self._progress = 0
        self._keep = self._enough = self._over = False

    # -- called by libcurl

    def _on_open(self, _purpose: int, address: Any) -> int:
        ip, port = address.addr[0], address.addr[1]
        transfer = self.transfer
        if transfer is None or not is_permitted(self._setup, transfer, ip, port):
            self._error = FetchError("refused", f"{ip} isn't one of the checked addresses")
            return pycurl.SOCKET_BAD
        opened: socket.SocketType | None
        try:
            if self._setup.connector is not None:
                opened = self._setup.connector(ip, port)
            else:
                opened = socket.SocketType(address.family, address.socktype, address.protocol)
        except OSError:
            opened = None  # libcurl tries the next address, or can't connect
        # Return the bare descriptor, which libcurl owns now. A socket object would be duplicated first.
        return pycurl.SOCKET_BAD if opened is None else opened.detach()

    def _on_body(self, piece: bytes) -> int:
        transfer = self.transfer
        if transfer is None or (not self._wire and not self._start(transfer)):
            return _ABORT
        size = len(piece)
        if not self._keep:
            self._wire += size
            self._enough = self._wire > _DISCARD
            return _ABORT if self._enough else size
        if self._wire + size > transfer.max_bytes and transfer.keeps_start:
            piece = piece[: transfer.max_bytes - self._wire]
            self._over = self._enough = True
        elif self._wire + size > transfer.max_bytes:
            self._error = FetchError("too_large", f"more than {transfer.max_bytes} bytes sent")
            return _ABORT
        buffered = self._setup.buffered
        if buffered.bytes > BUFFERED and self._wire > _LONG:
            self._error = FetchError("too_large", "too many large responses at once")
            return _ABORT
        self._wire += len(piece)
        buffered.bytes += len(piece)
        self._pieces.append(piece)
        return _ABORT if self._over else size

    def _start(self, transfer: Transfer) -> bool:
        """Check the head before the first byte of a body; False ends the transfer."""
        # libcurl's getinfo isn't allowed inside its callbacks.
        status, fields = read_lines(self._lines)
        self._keep = 200 <= status < 300 and transfer.keeps_body
        announced = [line[15:].strip() for line in fields if line[:15].lower() == b"content-length:"]
        if self._keep and len(announced) == 1 and announced[0].isdigit():
            size = announced[0][:20].decode("ascii")
            if float(size) > transfer.max_bytes and not transfer.keeps_start:
                self._error = FetchError("too_large", f"{size} bytes announced")
                return False
        return True


def _handle(setup: Setup) -> pycurl.Curl:
    """Return an easy handle with all options that never change."""
    curl = pycurl.Curl()
    curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
    curl.setopt(pycurl.FOLLOWLOCATION, 0)
    curl.setopt(pycurl.NOSIGNAL, 1)
    # All handles of a multi share one buffer; with the default 16 KiB a body of 36 KB costs 47 µs more.
    curl.setopt(pycurl.BUFFERSIZE, RECEIVE)
    curl.setopt(pycurl.DNS_CACHE_TIMEOUT, _FOREVER)
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    curl.setopt(pycurl.USERAGENT, setup.user_agent)
    curl.setopt(pycurl.SSL_VERIFYPEER, 1)
    curl.setopt(pycurl.SSL_VERIFYHOST, 2)
    curl.setopt(pycurl.CAINFO, os.fsencode(setup.cafile))  # pycurl encodes str as ASCII
    # S10: an empty proxy keeps libcurl from reading http_proxy and similar variables; .netrc is never read.
    curl.setopt(pycurl.PROXY, setup.proxy.url if setup.proxy else "")
    curl.setopt(pycurl.NETRC, pycurl.NETRC_IGNORED)
    if setup.proxy is not None:
        curl.setopt(pycurl.NOPROXY, "")
    return curl


def _pin(host: str, port: int, addresses: tuple[str, ...]) -> str:
    # "+": libcurl may expire the entry later; otherwise its cache would grow forever.
    return f"+{host}:{port}:{','.join(addresses)}"


def _head_error(lines: list[bytes], settings: Settings) -> FetchError | None:
    """Check the limits of a head; all heads of a response (1xx) count together."""
    size = sum(map(len, lines))
    if size <= MAX_LINE and len(lines) <= MAX_FIELDS:
        return None
    if size > settings.fetch_max_header or max(map(len, lines)) > MAX_LINE:
        return FetchError("bad_response", "the headers are too long")
    too_many = len(read_lines(lines)[1]) > MAX_FIELDS
    return FetchError("bad_response", f"more than {MAX_FIELDS} headers") if too_many else None
