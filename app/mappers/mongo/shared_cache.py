"""Values that this process has read from MongoDB, as long as no process has changed them.

The change log (:class:`app.ports.ChangeLog`) says what has changed. Each request reads it once, before the
first value that it takes from here. So it sees every write that ended before; see docs/design/cache.md.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple, cast

from app.models.cache import CacheKind, Changed, LogChanges, LogPosition
from app.ports import ChangeLog
from app.runtime import identity_map

#: Values of one kind; of more, the older half is dropped. A card takes about 1 KB.
VALUES_MAX = 20_000
#: Seconds after which a mark is replaced in any case.
MARK_SECONDS = 60.0
#: Changes to remember for readers that began before them; those that began earlier keep nothing.
DROPS_MAX = 20_000


class View(NamedTuple):
    """What a request knows about changes: all before ``position``, and the writes in progress then."""

    position: LogPosition
    held: frozenset[Changed]


#: The view of a request that found Redis away.
_NO_VIEW = View(LogPosition(b"", 0), frozenset())


class _Value(NamedTuple):
    expires: float
    value: Any


class _Values:
    """Values of one kind, in two generations."""

    def __init__(self) -> None:
        self.recent: dict[Hashable, _Value] = {}
        self.older: dict[Hashable, _Value] = {}

    def add(self, values: Mapping[Any, Any], expires: float) -> None:
        if len(self.recent) + len(values) > VALUES_MAX // 2:
            self.older, self.recent = self.recent, {}
        self.recent.update({key: _Value(expires, value) for key, value in values.items()})

    def drop_value(self, key: Hashable) -> None:
        self.recent.pop(key, None)
        self.older.pop(key, None)


class SharedCache:
    """The values of this process; threads may share it.

    Args:
        log: where all processes report what they write.
    """

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._position: LogPosition | None = None
        self._connections = 0
        self._values: dict[CacheKind, _Values] = {}
        self._dropped: dict[Changed, int] = {}
        #: Number in the log up to which drops aren't known one by one.
        self._floor = 0
        self._epoch = b""

    def get_view(self, collection: str, *, worth: bool = True) -> View | None:
        """Return the view of this request; None: it must read from MongoDB, and keep nothing.

        The latter holds without a request, in jobs, in transactions, and for collections that this request
        has written.

        Args:
            worth: whether to read the change log for it; otherwise only if this request has.
        """
        scope = identity_map.get_scope()
        if scope is None or not identity_map.can_use_shared(collection):
            return None
        if scope.view is None and worth:
            scope.view = self.open_view() or _NO_VIEW
        return None if scope.view is _NO_VIEW else scope.view

    def open_view(self) -> View | None:
        """Read what has changed, and drop it; None: Redis isn't responding, so nothing may be used."""
        seen = self._log.connections
        with self._lock:
            # A new connection may lead to a server that lacks the last changes.
            known = self._position if seen == self._connections else None
        changes = self._log.read_changes(known)
        if changes is not None and self._log.connections != seen:
            seen = self._log.connections
            changes = self._log.read_changes(None)
        if changes is None:
            self.drop_all()
            return None
        with self._lock:
            self._connections = seen
            self._apply(changes)
        return View(changes.position, changes.held)

    def _apply(self, changes: LogChanges) -> None:
        position = changes.position
        current = self._position
        if changes.changed is None or current is None or current.epoch != position.epoch:
            self._values.clear()
            self._dropped.clear()
            is_same = self._epoch == position.epoch
            self._floor = max(self._floor, position.number) if is_same else position.number
            self._epoch = position.epoch
            self._position = LogPosition(position.epoch, self._floor)
            return
        for changed in (*changes.changed, *changes.held):
            self._drop(changed, position.number)
        if position.number > current.number:
            self._position = position
        if len(self._dropped) > DROPS_MAX:
            self._floor = max(self._dropped.values())
            self._dropped.clear()

    def _drop(self, changed: Changed, number: int) -> None:
        if self._dropped.get(changed, -1) < number:
            self._dropped[changed] = number
        if changed.id is None:
            self._values.pop(changed.kind, None)
        elif (values := self._values.get(changed.kind)) is not None:
            values.drop_value(changed.id)

    def find_mark(self, kind: CacheKind, collection: str) -> object | None:
        """Return the same object while nothing of a kind changes; None: nothing is known, as in get_view.

        A result of this request is kept with the mark, and is current if a later request gets the same mark.
        """
        view = self.get_view(collection)
        if view is None:
            return None
        if (mark := self.get_values(view, kind, (0,)).get(0)) is not None:
            return cast(object, mark)
        self.keep(view, kind, {0: object()}, MARK_SECONDS)
        return cast("object | None", self.get_values(view, kind, (0,)).get(0))

    def drop_all(self) -> None:
        """Drop all values, and read the change log anew."""
        with self._lock:
            self._values.clear()
            self._position = None

    def get_values(self, view: View, kind: CacheKind, keys: Iterable[int]) -> dict[int, Any]:
        """Return the values that are known and current as of the view."""
        with self._lock:
            if self._position is None or self._position.epoch != view.position.epoch:
                return {}
            values = self._values.get(kind)
            if values is None:
                return {}
            now, recent, older = time.monotonic(), values.recent.get, values.older.get
            found = {key: each for key in keys if (each := recent(key) or older(key)) is not None}
            return {key: each.value for key, each in found.items() if each.expires > now}

    def keep(self, view: View, kind: CacheKind, values: Mapping[int, Any], seconds: float) -> None:
        """Keep values that were read from MongoDB after the view was opened, unless they changed meanwhile.

        Args:
            seconds: the time after which they are dropped in any case.
        """
        if Changed(kind, None) in view.held:
            return
        number = view.position.number
        with self._lock:
            if self._position is None or self._position.epoch != view.position.epoch or number < self._floor:
                return
            dropped = self._dropped.get
            if dropped(Changed(kind, None), -1) > number:
                return
            fit = {
                key: value
                for key, value in values.items()
                if dropped(changed := Changed(kind, key), -1) <= number and changed not in view.held
            }
            if fit:
                self._values.setdefault(kind, _Values()).add(fit, time.monotonic() + seconds)
