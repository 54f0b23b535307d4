"""Host queues: which transfer starts next; one queue per host, at most N at once each, in turn."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclasses.dataclass(slots=True)
class _Host(Generic[T]):
    active: int = 0
    waiting: deque[T] = dataclasses.field(default_factory=deque)


class HostQueues(Generic[T]):
    """Waiting items, by host.

    A host is in the ring ``_ready`` exactly when it has waiting items and a free slot.

    Args:
        get_limit: returns the number of slots of a host.
    """

    def __init__(self, get_limit: Callable[[str], int]) -> None:
        self._get_limit = get_limit
        self._hosts: dict[str, _Host[T]] = {}
        self._ready: deque[str] = deque()

    def add(self, host: str, item: T) -> None:
        """Append an item to its host's queue."""
        queue = self._hosts.setdefault(host, _Host())
        queue.waiting.append(item)
        if len(queue.waiting) == 1 and queue.active < self._get_limit(host):
            self._ready.append(host)

    @property
    def ready(self) -> bool:
        """Whether :meth:`pop_next` has an item to return."""
        return bool(self._ready)

    def pop_next(self) -> T:
        """Remove and return the next item whose host has a free slot, and occupy that slot."""
        host = self._ready.popleft()
        queue = self._hosts[host]
        item = queue.waiting.popleft()
        queue.active += 1
        if queue.waiting and queue.active < self._get_limit(host):
            self._ready.append(host)
        return item

    def release(self, host: str) -> None:
        """Free a slot. A host that was full comes next, so that its open connection is reused."""
        queue = self._hosts[host]
        was_full = queue.active == self._get_limit(host)
        queue.active -= 1
        if queue.waiting:
            if was_full:
                self._ready.appendleft(host)
        elif not queue.active:
            del self._hosts[host]

    def remove(self, host: str, item: T) -> bool:
        """Remove a waiting item; return False if it isn't waiting."""
        queue = self._hosts.get(host)
        if queue is None or item not in queue.waiting:
            return False
        queue.waiting.remove(item)
        if not queue.waiting:
            if queue.active < self._get_limit(host):
                self._ready.remove(host)
            if not queue.active:
                del self._hosts[host]
        return True
