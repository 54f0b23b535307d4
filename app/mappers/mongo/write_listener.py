"""Reports every write that the driver sends to the caches, so that no mapper can forget one.

The identity map of the request or job drops what was written. The change log reports it before and after the
write to all processes.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from pymongo import monitoring
from pymongo.client_session import ClientSession

from app.mappers.mongo.cached_writes import find_changed
from app.models.cache import WriteHold
from app.ports import ChangeLog
from app.runtime import identity_map

_WRITES = frozenset(("insert", "update", "delete", "findAndModify"))


class Write(NamedTuple):
    """A write to a collection; ``ids``: of the documents that it can change; None: of any document.

    ``hold``: lets no process keep the values that it can change.
    """

    collection: str
    ids: frozenset[int] | None
    hold: WriteHold | None


class WriteListener(monitoring.CommandListener):
    """Drops the values from the caches that a request or job has written.

    Values are dropped when the write ends, or its transaction: until then another thread of the same job may
    still read and keep the old values. Other processes hear of it before the write as well, because this
    process may die after it.
    """

    def __init__(self, log: ChangeLog | None = None) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._begun: dict[int, Write] = {}
        self._in_transactions: dict[Hashable, list[Write]] = {}

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Record the documents that a command can change."""
        name, command = event.command_name, event.command
        if name not in _WRITES:
            return
        is_mapped = identity_map.get_scope() is not None
        changed = find_changed(name, command) if self._log is not None else []
        if not is_mapped and not changed:
            return
        hold = self._log.begin_write(changed) if self._log is not None and changed else None
        write = Write(str(command[name]), _find_ids(name, command) if is_mapped else None, hold)
        with self._lock:
            if command.get("autocommit") is False:
                self._in_transactions.setdefault(bytes(command["lsid"]["id"]), []).append(write)
            else:
                self._begun[event.request_id] = write

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Drop the documents that the command has changed."""
        self._end(event.request_id, is_over=True)

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Drop the documents that the command may have changed: the server may have executed it."""
        # Without a reply, the server may still execute it.
        self._end(event.request_id, is_over="code" in event.failure)

    def _end(self, request_id: int, *, is_over: bool) -> None:
        with self._lock:
            write = self._begun.pop(request_id, None)
        if write is not None:
            self._drop(write, is_over=is_over)

    def end_transaction(self, session: ClientSession, *, is_over: bool) -> None:
        """Drop the documents that a transaction has changed, once it is committed or given up.

        Args:
            is_over: whether the server can't commit it anymore.
        """
        with self._lock:
            written = self._in_transactions.pop(bytes(session.session_id["id"]), ())
        for write in written:
            self._drop(write, is_over=is_over)

    def _drop(self, write: Write, *, is_over: bool) -> None:
        if scope := identity_map.get_scope():
            scope.drop_written(write.collection, write.ids)
        # A hold of a write that may not be over yet expires on its own.
        if self._log is not None and write.hold is not None and is_over:
            self._log.end_write(write.hold)


def _find_ids(name: str, command: Mapping[str, Any]) -> frozenset[int] | None:
    """Return the ids of the documents that a write can change; None: the command doesn't name them."""
    if name == "insert":
        found = [doc.get("_id") for doc in command.get("documents", ({},))]
    elif name == "findAndModify":
        found = [command["query"].get("_id")]
    else:
        parts = command.get(f"{name}s", ({"q": {}},))
        found = [part["q"].get("_id") for part in parts]
    return frozenset(found) if all(isinstance(i, int) for i in found) else None
