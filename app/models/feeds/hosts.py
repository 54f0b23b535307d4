"""Host rate limits: how often a host may be requested, and which hosts share a limit. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from app.config import Settings
from app.models.feeds.ip_addresses import is_public, parse_address

#: Prefix of the name under which a host's pictures have a rate limit of their own.
PICTURE_PREFIX = "img:"
#: Names cached with their rate, so that each name is looked up once.
_CACHE = 50_000


@dataclasses.dataclass(frozen=True, slots=True)
class HostRate:
    """The rate limit of one host, or of a group of hosts.

    Attributes:
        group: hosts of one group share the limit; a host without a group is a group of its own.
        rate: requests per second; 0: unlimited.
        burst: requests at once after a pause.
    """

    group: str
    rate: float
    burst: int


class HostRates:
    """The rate of each host, from the settings ``fetch_host_rate``, ``…_burst`` and ``…_rates``.

    A row ``name=rate`` applies to one host, ``*.name=rate`` to a name and all names below it together. A
    row's burst covers as many seconds as that of all other hosts. Our own hosts, which only ``fetch_allow``
    permits, have no limit unless a row names them. The pictures of a host have the rate and burst
    ``pictures``, under the host's name after :data:`PICTURE_PREFIX`.

    Raises:
        ValueError: a row can't be parsed.
    """

    def __init__(
        self,
        rate: float,
        burst: int,
        rows: Sequence[str] = (),
        own: Sequence[str] = (),
        *,
        pictures: tuple[float, int] = (10.0, 60),
    ) -> None:
        self._rate, self._burst = rate, burst
        self._pictures = pictures
        self._rows = dict(_row(text) for text in rows)
        self._own = frozenset(entry.rpartition(":")[0].strip("[]").lower() for entry in own if ":" in entry)
        self._found: dict[str, HostRate] = {}

    @classmethod
    def from_settings(cls, settings: Settings) -> HostRates:
        """Read the rates from the settings."""
        return cls(
            settings.fetch_host_rate,
            settings.fetch_host_burst,
            settings.fetch_host_rates,
            settings.fetch_allow,
            pictures=(settings.fetch_picture_rate, settings.fetch_picture_burst),
        )

    def get_rate(self, host: str) -> HostRate:
        """Return the rate of a host, by its name in lower case."""
        found = self._found.get(host)
        if found is None:
            if len(self._found) >= _CACHE:
                self._found.clear()
            found = self._found[host] = self._look(host)
        return found

    def _look(self, host: str) -> HostRate:
        if host.startswith(PICTURE_PREFIX):
            name = host.removeprefix(PICTURE_PREFIX)
            if name in self._own or _is_private(name):
                return HostRate(host, 0, 0)
            return HostRate(host, *self._pictures)
        for name in _names(host):
            if (rate := self._rows.get(name)) is not None:
                return HostRate(name, rate, max(1, round(self._burst * rate / self._rate)) if rate else 0)
        if host in self._own or _is_private(host):
            return HostRate(host, 0, 0)
        return HostRate(host, self._rate, self._burst)


def _row(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    rate = float(number)
    if not name.strip() or not 0 <= rate <= 10_000:
        raise ValueError(text)
    return name.strip().lower(), rate


def _names(host: str) -> Iterator[str]:
    """Yield the rows that match a host, most specific first."""
    yield host
    yield f"*.{host}"
    while "." in host:
        host = host.partition(".")[2]
        yield f"*.{host}"


def _is_private(host: str) -> bool:
    """Return whether the host is an address that only ``fetch_allow`` permits."""
    if not (host[-1:].isdigit() or ":" in host):
        return False  # true for nearly all hosts; parsing a name as an address takes 5 µs
    try:
        return not is_public(parse_address(host))
    except ValueError:
        return False


def parse_host(url: str) -> str:
    """Return the host of an address in lower case, "" without one."""
    if url.startswith(("https://", "http://")):
        authority = url.split("/", 3)[2]
        host = authority.partition(":")[0]
        # True for nearly all hosts; this takes a fifth of the time.
        odd = not authority.isascii() or "@" in authority or "[" in authority or "]" in authority
        if not odd and host.replace(".", "").replace("-", "").isalnum():
            return host.lower()
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_same_site(old: str, new: str) -> bool:
    """Return whether what is sent to an address may be sent to another one: its origin, or that by https."""
    try:
        before, after = urlsplit(old), urlsplit(new)
        ports = [part.port or {"http": 80, "https": 443}.get(part.scheme, 0) for part in (before, after)]
    except ValueError:
        return False
    if before.hostname != after.hostname:
        return False
    schemes = (before.scheme, after.scheme)
    return (schemes[0] == schemes[1] and ports[0] == ports[1]) or (
        schemes == ("http", "https") and ports == [80, 443]
    )
