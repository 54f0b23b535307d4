"""DNS lookups in threads: libc's resolver blocks, and a dead DNS server blocks it for a long time."""

from __future__ import annotations

import dataclasses
import os
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

#: ``(host, port)`` → addresses as text, in the order to try them; raises OSError when there are none.
Lookup: TypeAlias = Callable[[str, int], Sequence[str]]

MAX_ADDRESSES = 4
#: Seconds. One answer serves all feeds of a host in a batch; a longer TTL would pin hosts that moved.
TTL = 60.0
_FAILURE_TTL = 5.0
_CACHE = 4096
_THREADS = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """The result of a lookup: every address, or the reason why there is none."""

    addresses: tuple[str, ...]
    problem: str | None = None


def lookup_host(host: str, port: int) -> list[str]:
    """Look up A and AAAA records with the system's resolver, sorted as RFC 6724 requires.

    Raises:
        OSError: the name has no address, or no server answered.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(entry[4][0]) for entry in found]


def choose_addresses(addresses: Sequence[str]) -> tuple[str, ...]:
    """Return at most four addresses to connect to, from both families if both exist."""
    distinct = list(dict.fromkeys(addresses))
    first_two = [a for version in (True, False) for a in [x for x in distinct if (":" in x) is version][:2]]
    rest = [a for a in distinct if a not in first_two]
    chosen = {*first_two, *rest[: MAX_ADDRESSES - len(first_two)]}
    return tuple(a for a in distinct if a in chosen)


class Resolver:
    """Looks up names in daemon threads and hands the answers to one reader.

    ``fd`` becomes readable when answers wait; :meth:`collect_answers` returns them. The threads are daemons
    because a process must be able to exit while libc still waits for a dead name server.

    Args:
        lookup: the lookup function; replaced in tests.
    """

    def __init__(self, lookup: Lookup | None = None) -> None:
        self._lookup = lookup or lookup_host
        self._cache: dict[str, tuple[float, Answer]] = {}
        self._asked: set[str] = set()
        self._jobs: queue.SimpleQueue[tuple[str, int] | None] = queue.SimpleQueue()
        self._done: deque[tuple[str, Answer]] = deque()
        self._threads = 0
        self._closing = threading.Lock()
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def get_cached(self, host: str) -> Answer | None:
        """Return a cached answer that is still fresh, else None."""
        found = self._cache.get(host)
        return found[1] if found and found[0] > time.monotonic() else None

    def start_lookup(self, host: str, port: int) -> None:
        """Look up a host unless a lookup is running; :meth:`collect_answers` returns the answer."""
        if host in self._asked:
            return
        self._asked.add(host)
        self._jobs.put((host, port))
        if self._threads < min(_THREADS, len(self._asked)):
            self._threads += 1
            threading.Thread(target=self._work, name="resolver", daemon=True).start()

    def collect_answers(self) -> list[tuple[str, Answer]]:
        """Return the answers that arrived, as (host, answer)."""
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return []
        taken = [self._done.popleft() for _ in range(len(self._done))]
        for host, answer in taken:
            self._asked.discard(host)
            self._keep(host, answer)
        return taken

    def close(self) -> None:
        for _ in range(self._threads):
            self._jobs.put(None)
        # A thread still in libc must not write to a descriptor that has been reused for another file.
        with self._closing:
            os.close(self.fd)
            self.fd = -1

    def _keep(self, host: str, answer: Answer) -> None:
        if len(self._cache) >= _CACHE:
            del self._cache[next(iter(self._cache))]
        self._cache.pop(host, None)
        ttl = _FAILURE_TTL if answer.problem else TTL
        self._cache[host] = (time.monotonic() + ttl, answer)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            host, port = job
            try:
                answer = Answer(tuple(self._lookup(host, port)))
            except (OSError, UnicodeError) as e:
                answer = Answer((), str(e) or "no answer")
            self._done.append((host, answer))
            with self._closing:
                if self.fd >= 0:
                    os.eventfd_write(self.fd, 1)
