"""Discoveries of feeds behind an address: the search, and the cache of its results."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable

import xxhash

from app.errors import SPACE_IN_ADDRESS, InvalidError
from app.feeds import urls
from app.feeds.discover import Discoverer
from app.feeds.parse import Limits, parse
from app.mappers.feeds.discoveries import DiscoveryMapper
from app.models.feeds.discovery import Discovered, StoredDiscovery
from app.models.feeds.parsed import ParsedFeed
from app.ports import FetchStreamer

#: How long found feeds are cached.
TTL = dt.timedelta(hours=2)
#: How long "nothing found" is cached: the person may be fixing the site or the settings right now.
ERROR_TTL = dt.timedelta(minutes=1)


class DiscoveryGateway:
    """Runs searches, and caches their results.

    Args:
        max_requests: most requests of one search.
    """

    def __init__(self, rows: DiscoveryMapper, limits: Limits, max_requests: int) -> None:
        self._rows = rows
        self._limits, self._max_requests = limits, max_requests

    def get_or_create(self, address: str, now: dt.datetime) -> StoredDiscovery:
        """Return the search for an address; create one if none is cached.

        Raises:
            InvalidError: there is no web address in the text.
        """
        return self._rows.get_or_create(
            make_discovery_key(parse_addresses(address)), address.strip(), now, now + TTL
        )

    def find_by_address(self, address: str, now: dt.datetime) -> StoredDiscovery | None:
        """Return the cached or running search for an address.

        Raises:
            InvalidError: there is no web address in the text.
        """
        return self.find(make_discovery_key(parse_addresses(address)), now)

    def find(self, key: int, now: dt.datetime) -> StoredDiscovery | None:
        """Return a cached search, or None if it has expired."""
        return self._rows.find(key, now)

    async def search(
        self, row: StoredDiscovery, fetcher: FetchStreamer, report: Callable[[str], None]
    ) -> Discovered:
        """Search for the feeds of a stored search; ``report`` is called with the text of each step."""
        found = await Discoverer(fetcher, self._parse, self._max_requests).run(row.address, report)
        return dataclasses.replace(found, address=row.address)

    def _parse(self, body: bytes, *, url: str, content_type: str | None = None) -> ParsedFeed:
        return parse(body, url=url, content_type=content_type, limits=self._limits)

    def store_result(self, key: int, result: Discovered, now: dt.datetime) -> None:
        """Store the result of a search."""
        self._rows.store_result(key, result, now + (ERROR_TTL if result.error else TTL))


def parse_addresses(text: str) -> list[str]:
    """Return the addresses to try for a text that a person typed.

    Raises:
        InvalidError: there is no web address in the text.
    """
    tries = urls.normalise_address(text)
    if not tries and urls.has_inner_space(text):
        raise InvalidError(SPACE_IN_ADDRESS, field="address")
    if not tries:
        raise InvalidError(
            "This isn't a web address. Enter a site's address, such as example.org.", field="address"
        )
    return tries


def make_discovery_key(tries: list[str]) -> int:
    """Return a 53-bit key of a search; http and https differ, since they may find different feeds."""
    schemes = " ".join(url.partition(":")[0] for url in tries)
    return xxhash.xxh3_64_intdigest(f"{schemes} {urls.hash_url(tries[0])}".encode()) >> 11
