"""Reports every write that the driver sends to the identity map, so that no mapper can forget one."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from pymongo import monitoring
from pymongo.client_session import ClientSession

from app.runtime import identity_map

_WRITES = frozenset(("insert", "update", "delete", "findAndModify"))


class Write(NamedTuple):
    """A write to a collection; ``ids``: of the documents that it can change; None: of any document."""

    collection: str
    ids: frozenset[int] | None


class WriteListener(monitoring.CommandListener):
    """Drops the values from the identity map that a request has written.

    Values are dropped when the write ends, or its transaction: until then another thread of the same job may
    still read and keep the old values.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: dict[int, Write] = {}
        self._in_transactions: dict[Hashable, list[Write]] = {}

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Record the documents that a command can change."""
        name, command = event.command_name, event.command
        if name not in _WRITES or identity_map.get_scope() is None:
            return
        write = Write(str(command[name]), _find_ids(name, command))
        with self._lock:
            if command.get("autocommit") is False:
                self._in_transactions.setdefault(bytes(command["lsid"]["id"]), []).append(write)
            else:
                self._begun[event.request_id] = write

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Drop the documents that the command has changed."""
        self._end(event.request_id)

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Drop the documents that the command may have changed: the server may have executed it."""
        self._end(event.request_id)

    def _end(self, request_id: int) -> None:
        with self._lock:
            write = self._begun.pop(request_id, None)
        if write is not None:
            _drop(write)

    def end_transaction(self, session: ClientSession) -> None:
        """Drop the documents that a transaction has changed, once it is committed or given up."""
        with self._lock:
            written = self._in_transactions.pop(bytes(session.session_id["id"]), ())
        for write in written:
            _drop(write)


def _drop(write: Write) -> None:
    if scope := identity_map.get_scope():
        scope.drop_written(*write)


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
