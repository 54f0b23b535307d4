"""A cache of a limited total weight, for values that differ in size from user to user."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class WeightedCache(Generic[K, V]):
    """The values used last, as many as fit; threads may share it.

    Args:
        weight_max: Largest sum of the weights; 0: keep nothing.
    """

    def __init__(self, weight_max: int) -> None:
        self._weight_max = weight_max
        self._lock = threading.Lock()
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._weight = 0

    @property
    def weight(self) -> int:
        """The sum of the weights of the kept values."""
        return self._weight

    def get(self, key: K) -> V | None:
        """Return a value, None: not kept."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def add(self, key: K, value: V, weight: int) -> None:
        """Keep a value instead of the key's last one; values that weren't used for longest make room."""
        weight = max(weight, 1)  # an empty value takes room, too
        with self._lock:
            _, before = self._values.pop(key, (None, 0))
            self._weight -= before
            if weight > self._weight_max:
                return
            self._values[key] = (value, weight)
            self._weight += weight
            while self._weight > self._weight_max:
                _, (_, gone) = self._values.popitem(last=False)
                self._weight -= gone
