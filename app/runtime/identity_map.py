"""Documents that one request or job has already read, so that it doesn't read them twice.

A map lives as long as its scope; outside a scope nothing is kept. The store reports each write of the scope
(:mod:`app.mappers.mongo.write_listener`), and the map drops the values that the write can have changed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar, cast

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: Most values in one map; a job that reads more starts with an empty map again.
VALUES_MAX = 50_000
#: Kinds whose keys are document ids: a write that names its documents leaves the others in the map.
BY_ID = frozenset(("card", "comment", "share", "signature", "user"))
_ABSENT: Any = object()


class IdentityMap:
    """Values by collection, kind and key; ``None`` for documents that don't exist.

    The threads of a request or job share its map.

    Args:
        max_age: seconds after which the map is emptied, for long jobs; None: never.
        shared: whether reads may use values that earlier requests of this process have read.
    """

    def __init__(self, max_age: float | None = None, *, shared: bool = False) -> None:
        self._max_age = max_age
        self.shared = shared
        #: What this request knows about other processes' writes; see app.mappers.mongo.shared_cache.
        self.view: Any = None
        self._ends = time.monotonic() + (max_age or 0)
        self._lock = threading.Lock()
        self._values: dict[str, dict[tuple[str, Hashable], Any]] = {}
        self._count = 0
        self._writes: Counter[str] = Counter()
        self._resets = 0

    def get_values(self, collection: str) -> Mapping[tuple[str, Hashable], Any]:
        """Return the values of a collection, by (kind, key)."""
        if self._max_age is not None and time.monotonic() > self._ends:
            self.drop_all()
            self._ends = time.monotonic() + self._max_age
        return self._values.get(collection, {})

    def get_version(self, collection: str) -> int:
        """Return the number of writes to a collection so far; :meth:`add` compares it."""
        return self._writes[collection] + self._resets

    def add(self, collection: str, version: int, values: Mapping[tuple[str, Hashable], Any]) -> None:
        """Keep values, unless the collection was written to since ``version``."""
        with self._lock:
            if version != self.get_version(collection):
                return
            if self._count + len(values) > VALUES_MAX:
                self._clear()
            self._values.setdefault(collection, {}).update(values)
            self._count += len(values)

    def drop_written(self, collection: str, ids: Collection[int] | None = None) -> None:
        """Drop the values of a collection after a write.

        Args:
            ids: of the documents that may have changed; None: any.
        """
        with self._lock:
            self._writes[collection] += 1
            values = self._values.pop(collection, {})
            if ids is not None and values:
                kept = {k: v for k, v in values.items() if k[0] in BY_ID and k[1] not in ids}
                self._values[collection] = kept

    def drop_all(self) -> None:
        """Drop all values."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        self._resets += 1
        self._values = {}
        self._count = 0


_current: ContextVar[IdentityMap | None] = ContextVar("identity_map", default=None)
#: Whether reads ignore the map.
_bypassed: ContextVar[bool] = ContextVar("identity_map_bypassed", default=False)


@contextlib.contextmanager
def open_scope(max_age: float | None = None, *, shared: bool = False) -> Iterator[IdentityMap]:
    """Open a map for this request or job, and for the threads that it starts in its own context.

    Args:
        max_age: as for :class:`IdentityMap`.
        shared: as for :class:`IdentityMap`.
    """
    scope = IdentityMap(max_age, shared=shared)
    before = _current.set(scope)
    try:
        yield scope
    finally:
        _current.reset(before)
        # Copies of this context live on: asyncio keeps up to a hundred canceled timers until their time.
        scope.drop_all()


@contextlib.contextmanager
def bypass() -> Iterator[None]:
    """Ignore the map, for reads in transactions and for race checks."""
    before = _bypassed.set(True)
    try:
        yield
    finally:
        _bypassed.reset(before)


def get_scope() -> IdentityMap | None:
    """Return the map of this request or job, or None."""
    return _current.get()


def forget_all() -> None:
    """Drop all values, after waiting for another process."""
    if scope := _current.get():
        scope.drop_all()


def forget(collection: str) -> None:
    """Drop the values of a collection, so that the next read is current and later reads agree with it."""
    if scope := _current.get():
        scope.drop_written(collection)


def _get_readable() -> IdentityMap | None:
    return None if _bypassed.get() else _current.get()


def get_value(collection: str, kind: str, key: Hashable = None, default: Any = None) -> Any:
    """Return a value from the map, or the default."""
    scope = _get_readable()
    return scope.get_values(collection).get((kind, key), default) if scope else default


def is_active() -> bool:
    """Return whether values that are read now are kept."""
    return _get_readable() is not None


def can_use_shared(collection: str) -> bool:
    """Return whether a read may use a value that an earlier request has read.

    Not after this request has written to the collection, forgotten it, or waited for a job.
    """
    scope = _get_readable()
    return scope is not None and scope.shared and not scope.get_version(collection)


def find_kept(collection: str, kind: str, keys: Iterable[K]) -> dict[K, Any]:
    """Return the values that are in the map, by key; ``None`` for documents that don't exist."""
    scope = _get_readable()
    if scope is None:
        return {}
    known = scope.get_values(collection)
    return {key: known[kind, key] for key in keys if (kind, key) in known}


def find_once(collection: str, kind: str, key: Hashable, fetch: Callable[[], V]) -> V:
    """Return a value from the map, or fetch and keep it."""
    scope = _get_readable()
    if scope is None:
        return fetch()
    value = scope.get_values(collection).get((kind, key), _ABSENT)
    if value is _ABSENT:
        version = scope.get_version(collection)
        value = fetch()
        scope.add(collection, version, {(kind, key): value})
    return cast(V, value)


def find_each(
    collection: str, kind: str, keys: Iterable[K], fetch: Callable[[list[K]], Mapping[K, V]]
) -> dict[K, V]:
    """Return the existing values of these keys; fetch only those that aren't in the map."""
    wanted = list(dict.fromkeys(keys))
    scope = _get_readable()
    if scope is None:
        return dict(fetch(wanted)) if wanted else {}
    known = scope.get_values(collection)
    values = {key: known.get((kind, key), _ABSENT) for key in wanted}
    if missing := [key for key, value in values.items() if value is _ABSENT]:
        version = scope.get_version(collection)
        found = fetch(missing)
        new = {key: found.get(key) for key in missing}
        values.update(new)
        scope.add(collection, version, {(kind, key): value for key, value in new.items()})
    return {key: value for key, value in values.items() if value is not None}


def get_version(collection: str) -> int:
    """Return the version of a collection for :func:`keep_values`; call it before the read."""
    scope = _get_readable()
    return scope.get_version(collection) if scope else 0


def keep_values(collection: str, version: int, kind: str, values: Mapping[Any, Any]) -> None:
    """Keep values that were read by another query, so that :func:`find_each` finds them."""
    if scope := _get_readable():
        scope.add(collection, version, {(kind, key): value for key, value in values.items()})
