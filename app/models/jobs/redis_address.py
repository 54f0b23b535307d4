"""Addresses of Redis: one server (TCP, TLS, unix socket), or a set that Sentinels watch.

redis://[USER:PASSWORD@]HOST:PORT/DB          rediss://…?ssl_ca_certs=/etc/ca.pem          unix:///PATH
redis+sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT/SET[/DB][?sentinel_password=…]
rediss+sentinel://…                                     TLS to the Sentinels and to the servers
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping

SENTINEL_SCHEMES = ("redis+sentinel", "rediss+sentinel")
SCHEMES = ("redis", "rediss", "unix", *SENTINEL_SCHEMES)
SENTINEL_PORT = 26379
#: Options of the address for the Sentinels alone.
_OWN = {"sentinel_username": "username", "sentinel_password": "password"}


@dataclasses.dataclass(frozen=True, slots=True)
class SentinelSet:
    """A set of servers, and who knows its primary.

    Attributes:
        sentinels: Host and port of each Sentinel.
        name: What the Sentinels call the set.
        plain: An address with what holds for each server of the set: login, database, options of TLS.
        login: Of the Sentinels: ``username`` and ``password``, if they have any.
    """

    sentinels: tuple[tuple[str, int], ...]
    name: str
    plain: str
    login: Mapping[str, str]


def is_sentinel_url(url: str) -> bool:
    """Return whether an address names Sentinels."""
    return url.startswith(tuple(f"{scheme}://" for scheme in SENTINEL_SCHEMES))


def parse_sentinel_url(url: str) -> SentinelSet:
    """Return what an address of Sentinels says.

    Raises:
        ValueError: the address is incomplete; the message says what is missing.
    """
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    login, at, place = place.rpartition("@")
    hosts, _, path = place.partition("/")
    name, _, db = path.partition("/")
    if not name:
        raise ValueError("the name of the set is missing: redis+sentinel://HOST:PORT,HOST:PORT/SET")
    if db and not db.isdecimal():
        raise ValueError("the database must be a number")
    sentinels = tuple(_parse_host(host) for host in hosts.split(","))
    options = urllib.parse.parse_qsl(query, keep_blank_values=True)
    shared = urllib.parse.urlencode([pair for pair in options if pair[0] not in _OWN])
    plain = f"{scheme.removesuffix('+sentinel')}://{login}{at}{sentinels[0][0]}/{db}?{shared}"
    own = {_OWN[key]: value for key, value in options if key in _OWN}
    return SentinelSet(sentinels, urllib.parse.unquote(name), plain, own)


def find_address_problem(url: str) -> str | None:
    """Return what is wrong with an address, as the end of a sentence about the setting; None: nothing."""
    if not url or not url.startswith(tuple(f"{scheme}://" for scheme in SCHEMES)):
        return f"must start with {' or '.join(scheme + '://' for scheme in SCHEMES)}" if url else None
    if is_sentinel_url(url):
        try:
            parse_sentinel_url(url)
        except ValueError as e:
            return f"can't be read: {e}"
    return None


def _parse_host(text: str) -> tuple[str, int]:
    parts = urllib.parse.urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("the host name of a Sentinel is missing")
    return parts.hostname, parts.port or SENTINEL_PORT
