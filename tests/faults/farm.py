"""A farm of feeds on loopback that knows what it has told: nothing of it may be lost (R01)."""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from app.errors import ParseError
from app.feeds import identity
from app.feeds.parse import parse
from tests.support import corpus
from tests.support.rawserver import RawServer, Reply, Request, file_reply

#: Entries that a growing feed has at most: each answer holds all of them, so that none can be missed.
MOST = 60
_HEAD = b"<rss version='2.0'><channel><title>%s</title>"
_ITEM = b"<item><guid>%s-%d</guid><title>Entry %d</title><description>Text %d.</description></item>"


class Counting(RawServer):
    """Counts the connections to each of its addresses: limits hold as the server sees them."""

    def __init__(self) -> None:
        super().__init__(hosts=("0.0.0.0",))
        self._now: collections.Counter[str] = collections.Counter()
        self._most: collections.Counter[str] = collections.Counter()
        self._group_of: dict[str, str] = {}

    def watch(self, name: str, hosts: Iterable[str]) -> None:
        """Count the connections to these addresses together; before the first request to them."""
        self._group_of |= dict.fromkeys(hosts, name)

    def forget(self, name: str) -> None:
        """Let :meth:`most` begin anew."""
        self._most[name] = self._now[name]

    def most(self, name: str) -> int:
        """Return the most connections of a watched name that were open at once."""
        return self._most[name]

    def opened(self, connection: Any) -> None:
        super().opened(connection)
        if name := self._name(connection):
            self._now[name] += 1
            self._most[name] = max(self._most[name], self._now[name])

    def closed(self, connection: Any) -> None:
        super().closed(connection)
        if name := self._name(connection):
            self._now[name] -= 1

    def _name(self, connection: Any) -> str | None:
        # The local address is known to the transport even when its socket is closed.
        return self._group_of.get(connection.transport.get_extra_info("sockname")[0])


class Farm:
    """Feeds, each with an address of its own in 127.0.0.0/8, so that each is a host of its own.

    Corpus feeds answer with a captured document. Growing feeds have one entry more at each request, until
    :meth:`freeze`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._grown: dict[str, int] = {}
        self._frozen = False
        self._made = 0
        self._expected: dict[str, frozenset[bytes]] = {}
        self.server = Counting()

    def corpus(self, count: int) -> list[str]:
        """Return addresses of so many new feeds with documents of the corpus, in turn."""
        found = documents()
        urls = []
        for n in range(count):
            body, hashes = found[n % len(found)]
            urls.append(self._add(f"/corpus/{n % len(found)}", file_reply(body, close=True)))
            self._expected[urls[-1]] = hashes
        return urls

    def growing(self, count: int, delay: float = 0.0) -> list[str]:
        """Return addresses of so many new feeds that have news at each request, after so many seconds."""
        urls = []
        for _ in range(count):
            path = f"/growing/{self._made}"
            self._grown[path] = 0
            urls.append(self._add(path, functools.partial(self._grow, delay)))
        return urls

    def scripted(self, path: str, reply: Reply) -> str:
        """Return the address of a new feed that answers so; what it says is expected of nobody."""
        return self._add(path, reply)

    def freeze(self, frozen: bool = True) -> None:
        """Let no feed have more news; or let them again."""
        with self._lock:
            self._frozen = frozen

    def expected(self, url: str) -> frozenset[bytes]:
        """Return the hashes of all entries that this feed has told."""
        path = "/" + url.split("/", 3)[3]
        if path in self._grown:
            return _hashes(self._document(path, self._grown[path]))
        return self._expected.get(url, frozenset())

    def stop(self) -> None:
        self.server.stop()

    def _add(self, path: str, script: Reply | functools.partial[Reply] | object) -> str:
        self.server.set(path, script)  # type: ignore[arg-type]
        number, self._made = self._made, self._made + 1
        host = f"127.{1 + number // 62_500}.{number // 250 % 250}.{number % 250 + 1}"
        return self.server.url(path, host)

    def _grow(self, delay: float, request: Request) -> Reply:
        with self._lock:
            if not self._frozen:
                self._grown[request.path] = min(MOST, self._grown[request.path] + 1)
            count = self._grown[request.path]
        return dataclasses.replace(file_reply(self._document(request.path, count), close=True), delay=delay)

    @staticmethod
    def _document(path: str, count: int) -> bytes:
        name = path.encode()
        items = b"".join(_ITEM % (name, n, n, n) for n in range(count, 0, -1))
        return _HEAD % name + items + b"</channel></rss>"


@functools.cache
def documents() -> Sequence[tuple[bytes, frozenset[bytes]]]:
    """Return documents of the corpus that are feeds on their own, small ones first, and their hashes."""
    found = []
    for row in sorted(corpus.genuine_feeds(), key=lambda row: int(row.data["bytes"]))[:60]:
        body = row.read()
        try:
            hashes = _hashes(body)
            elsewhere = _hashes(body, "http://other.example/")
        except ParseError:
            continue
        # Some have no guids and relative links: what identifies those differs with the feed's address.
        if hashes and hashes == elsewhere:
            found.append((body, hashes))
    return found


def _hashes(body: bytes, url: str = "http://feed.example/feed") -> frozenset[bytes]:
    diff = identity.diff_feed(parse(body, url=url), b"")
    return frozenset(diff.get_hash(entry) for entry in diff.new)
