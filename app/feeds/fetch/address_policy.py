"""Address policy: which addresses may be fetched, as a function of URL, resolved address and settings.

A URL is split once, strictly, and rebuilt from its checked parts, so that no second parser can read it
differently. A URL that doesn't fit is refused, never repaired (security.md S02–S07, S11, S12). Nothing
here opens a socket or queries a resolver.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import quote, urljoin

import idna

from app.config import Settings, build_env_name
from app.errors import FetchError, InvalidError, SettingsError
from app.models.feeds.fetched import Purpose
from app.models.feeds.ip_addresses import ISATAP, Address, Network, is_public, parse_address, parse_networks

MAX_URL = 2048
MAX_HEADERS = 16
MAX_HEADER_VALUE = 1024

# RFC 3986 appendix B, for two schemes; the authority is parsed separately. ASCII: else "ſ" matches "s".
_URL = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.IGNORECASE | re.DOTALL | re.ASCII)
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_IPV6 = re.compile(r"\[([0-9A-Fa-f:.]{2,45})\](?::([0-9]{1,5}))?")
_NAME = re.compile(r"([^:\[\]]+)(?::([0-9]{1,5}))?")
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
_UPPER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_SAFE = "%/?:@!$&'()*+,;=~-._"
_PLAIN = re.compile(r"[A-Za-z0-9%/?:@!$&'()*+,;=~._-]*")

_DEFAULT_PORT = {"http": 80, "https": 443}

#: S05: names that only have a meaning inside a network, or outside of DNS.
LOCAL_SUFFIXES = frozenset(
    ["localhost", "localdomain", "local", "internal", "lan", "corp", "home", "intranet", "onion", "i2p"]
)


# Mapped and compatible addresses and NAT64 (RFC 4291 §2.5.5, RFC 6052, RFC 8215) end in an IPv4 address.
_IPV4_BEHIND = parse_networks("::/64 64:ff9b::/96 64:ff9b:1::/48")

#: S11: hosts of the machine's own credentials; a wide allow-list must not open them.
METADATA = frozenset(
    network[0]
    for network in parse_networks(
        "169.254.169.254 169.254.169.253 169.254.170.2 169.254.170.23 169.254.0.23 100.100.100.200 "
        "168.63.129.16 192.0.0.192 fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fe80::a9fe:a9fe"
    )
)

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_VALUE = re.compile(r"[\x20-\x7e\xa0-\xff]*")
# S12, and the headers that the fetcher itself sets.
_OWN_HEADERS = re.compile(
    "host|content-length|transfer-encoding|connection|upgrade|forwarded|x-real-ip|(x-)?remote-user|te|"
    "trailer|keep-alive|expect|range|accept-encoding|via|x-original-url|x-rewrite-url|if-.*|proxy-.*|"
    "sec-.*|x-forwarded-.*|x-webauth-.*"
)


class Endpoint(NamedTuple):
    """A checked address; a tuple because a frozen class costs three times as much, for every fetch.

    Attributes:
        host: ASCII, lower case, no trailing dot; an IPv6 literal without brackets.
        url: rebuilt from the checked parts, without the fragment.
        is_ip_literal: whether the host is an IP address, so there is nothing to resolve.
    """

    scheme: str
    host: str
    port: int
    url: str
    is_ip_literal: bool

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port: credentials for this address may only go to the same origin."""
        return self.scheme, self.host, self.port


class Policy:
    """The address rules with this installation's ports and the allow-list for one purpose.

    ``requested`` means that the host is the one that the request named. The allow-list applies to that
    host only, never to a host that a redirect or another host's page names (S11).

    Raises:
        SettingsError: the allow-list contains an entry that isn't a CIDR network or host:port.
    """

    def __init__(self, settings: Settings, purpose: Purpose = Purpose.FETCH) -> None:
        self._ports = frozenset(settings.fetch_ports)
        lists = {
            Purpose.FETCH: settings.fetch_allow,
            Purpose.HUB: settings.hub_allow,
            Purpose.PUSH: settings.push_allow,
            Purpose.SEND: settings.send_allow,
        }
        self._networks, self._pairs = _allow_list(lists[purpose], f"{purpose}_allow")
        # A policy lives as long as its process; so do the caches.
        self._verdict = functools.lru_cache(8192)(self._judge)
        self._endpoint = functools.lru_cache(2048)(self._check)

    @property
    def allows_private(self) -> bool:
        """Whether the allow-list has any entries."""
        return bool(self._networks or self._pairs)

    def check_url(self, url: str, *, requested: bool = True) -> Endpoint:
        """Split a URL and check everything that is visible without a resolver.

        Raises:
            FetchError: ``invalid_url`` for a form that isn't accepted, ``login_in_url`` for a URL with a
                user name, ``refused`` for a forbidden port, name or address.
        """
        return self._endpoint(url, requested)

    def _check(self, url: str, requested: bool) -> Endpoint:
        scheme, authority, rest = _split(url)
        host, port, address = _authority(authority, scheme)
        listed = bool(self._pairs) and requested and (host, port) in self._pairs
        if port not in self._ports and not listed:
            raise FetchError("refused", f"port {port} isn't allowed")
        if address is None and not listed:
            _check_name(host)
        shown = f"[{host}]" if ":" in host else host
        place = shown if port == _DEFAULT_PORT[scheme] else f"{shown}:{port}"
        endpoint = Endpoint(scheme, host, port, f"{scheme}://{place}{rest}", address is not None)
        if address is not None:
            self.check_address(host, host, port, requested=requested)
        return endpoint

    def check_address(self, ip: str, host: str, port: int, *, requested: bool = True) -> None:
        """Check one resolved address of a host.

        Raises:
            FetchError: ``refused``: the address isn't public and not on the allow-list.
        """
        problem = self._verdict(ip, host, port, requested)
        if problem:
            raise FetchError("refused", problem)

    def check_target(self, base: Endpoint, target: str, *, requested: bool) -> Endpoint:
        """Check an address that ``base`` names: the target of a redirect, or a link on a page.

        Args:
            requested: whether ``base`` itself is the requested host; then the target is too, if it has
                the same host.

        Raises:
            FetchError: as :meth:`check_url`.
        """
        # urljoin silently drops tabs and line ends, so check for them first.
        if _FORBIDDEN.search(target) or len(target) > MAX_URL:
            raise FetchError(
                "invalid_url", "the target contains spaces or control characters, or is too long"
            )
        if _SCHEME.match(target):
            url = target
        elif target.startswith("//"):
            url = f"{base.scheme}:{target}"
        else:
            url = urljoin(base.url, target)
        if not requested:
            return self.check_url(url, requested=False)
        scheme, authority, _ = _split(url)
        return self.check_url(url, requested=_authority(authority, scheme)[0] == base.host)

    def _judge(self, ip: str, host: str, port: int, requested: bool) -> str | None:
        try:
            address = parse_address(ip)
        except ValueError:
            return f"{ip[:64]!r} isn't an IP address"
        if is_public(address):
            return None
        if not requested:
            return f"{address} isn't public"
        allowed = [network for network in self._networks if address in network]
        exact = any(network.prefixlen == network.max_prefixlen for network in allowed)
        if not exact and not METADATA.isdisjoint(_meanings(address)):
            return f"{address} is a metadata address"
        return None if allowed or (host, port) in self._pairs else f"{address} isn't public"


def _meanings(address: Address) -> set[Address]:
    """Return an address and the IPv4 addresses that a router or kernel may read in it."""
    if isinstance(address, ipaddress.IPv4Address):
        return {address}
    low = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    hidden = any(address in n for n in _IPV4_BEHIND) or (int(address) >> 32) & 0xFFFFFFFF in ISATAP
    found = (address, low if hidden else None, address.sixtofour, *(address.teredo or ()))
    return {one for one in found if one is not None}


def check_headers(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Check the request headers that a person set for a feed (S12) and return them.

    Raises:
        InvalidError: a header isn't allowed, is too long, or there are too many; the message says which.
    """
    checked = tuple(headers)
    if len(checked) > MAX_HEADERS:
        raise InvalidError("You can set at most %(most)s headers.", field="headers", most=MAX_HEADERS)
    for name, value in checked:
        # CGI and WSGI read "_" as "-", so both must be refused.
        plain = name.lower().replace("_", "-")
        if not _TOKEN.fullmatch(name) or len(value) > MAX_HEADER_VALUE or not _VALUE.fullmatch(value):
            raise InvalidError(
                "A header is too long or contains characters that HTTP doesn't allow.", field="headers"
            )
        if _OWN_HEADERS.fullmatch(plain):
            raise InvalidError("You can't set the header %(header)s.", field="headers", header=name)
    return checked


def _split(url: str) -> tuple[str, str, str]:
    """Return the scheme, the authority, and the percent-encoded path with query, without the fragment."""
    if len(url) > MAX_URL:
        raise FetchError("invalid_url", f"longer than {MAX_URL} characters")
    if _FORBIDDEN.search(url):
        raise FetchError("invalid_url", "contains spaces, control characters or a backslash")
    match = _URL.fullmatch(url)
    if match is None:
        raise FetchError("invalid_url", "isn't http:// or https://")
    path, query = match[3] or "/", match[4] or ""
    rest = path + query
    if not _PLAIN.fullmatch(rest):
        try:
            rest = quote(rest, safe=_SAFE)
        except UnicodeEncodeError as e:
            raise FetchError("invalid_url", "contains an incomplete character") from e
    return match[1].lower(), match[2], rest


@functools.lru_cache(4096)
def _authority(authority: str, scheme: str) -> tuple[str, int, Address | None]:
    """Return the host, the port, and the IP address if the host is one."""
    if "@" in authority:
        raise FetchError("login_in_url", "contains a user name before the host")
    if "%" in authority:
        raise FetchError("invalid_url", "contains a percent escape before the path")
    match = _IPV6.fullmatch(authority)
    if match is None:
        match = _NAME.fullmatch(authority)
        if match is None:
            raise FetchError("invalid_url", "has no valid host")
        host, address = _name(match[1])
    else:
        address = _literal(match[1])
        host = str(address)
    port = int(match[2]) if match[2] else _DEFAULT_PORT[scheme]
    if not 0 < port < 65536:
        raise FetchError("invalid_url", f"has the invalid port {port}")
    return host, port, address


def _literal(text: str) -> Address:
    try:
        return ipaddress.IPv6Address(text)
    except ValueError as e:
        raise FetchError("invalid_url", "has an invalid IPv6 address") from e


def _name(text: str) -> tuple[str, Address | None]:
    """Return the host in ASCII, and its address if it is a strict dotted quad (S03, S04)."""
    # Only A–Z: str.lower() also maps the Kelvin sign to "k", which IDNA2008 forbids.
    host = text.translate(_UPPER)
    dotted = host.endswith(".")
    host = host[:-1] if dotted else host
    if not host.isascii() or "xn--" in host:
        try:
            host = idna.encode(host, strict=True, uts46=False).decode("ascii")
        except idna.IDNAError as e:
            raise FetchError("invalid_url", "has a host that IDNA doesn't allow") from e
    if not _HOST.fullmatch(host):
        raise FetchError("invalid_url", "has a host that isn't a DNS name")
    if _NUMERIC.fullmatch(host.rpartition(".")[2]):
        try:
            if not dotted:
                return host, parse_address(host)
        except ValueError:
            pass
        raise FetchError("invalid_url", "has a numeric host that isn't an IPv4 address")
    return host, None


def _check_name(host: str) -> None:
    """Refuse names that only a local network or another system resolves (S05)."""
    labels = host.split(".")
    if len(labels) == 1 or labels[-1] in LOCAL_SUFFIXES or labels[-2:] == ["home", "arpa"]:
        raise FetchError("refused", f"{host} is a local name")


def _allow_list(rows: Sequence[str], setting: str) -> tuple[tuple[Network, ...], frozenset[tuple[str, int]]]:
    networks: list[Network] = []
    pairs: set[tuple[str, int]] = set()
    for row in rows:
        try:
            networks.append(ipaddress.ip_network(row))
        except ValueError:
            pairs.add(_pair(row, setting))
    return tuple(networks), frozenset(pairs)


def _pair(row: str, setting: str) -> tuple[str, int]:
    try:
        host, port, _ = _authority(row, "http")
        if row.endswith(f":{port}"):
            return host, port
    except FetchError:
        pass  # the message below explains it better
    raise SettingsError(
        f"{build_env_name(setting)} contains {row!r}, which isn't a network like 192.168.1.0/24 or a "
        "host:port.",
        setting=setting,
    )
