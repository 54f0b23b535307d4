"""The driver's client of a cell, so that the replica set of an error or a reply is known.

A call of a mapper may use several stores, and calls others. So the cell can't be noted when it is chosen.
"""

from __future__ import annotations

import traceback
from typing import Any, Protocol

from pymongo import MongoClient, monitoring
from pymongo.errors import PyMongoError

from app.errors import StoreError
from app.mappers.mongo.cell_watch import CellWatch


class Cell(Protocol):
    """What the client of a cell calls of its store."""

    def make_error(self, error: PyMongoError) -> StoreError: ...

    @property
    def watch(self) -> CellWatch: ...


class CellClient(MongoClient[dict[str, Any]]):
    """A client that belongs to a cell."""

    #: The store that has opened this client.
    eventr_cell: Cell | None = None


class _ReplyListener(monitoring.CommandListener):
    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Note the time: a server that is frozen never replies."""
        self._cell.watch.note_sent(event.request_id)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Note that the cell responds."""
        self._cell.watch.note_ended(event.request_id)
        self._cell.watch.note_reply()

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Note the end; the call raises the error."""
        self._cell.watch.note_ended(event.request_id)


def open_client(cell: Cell, uri: str, **options: Any) -> CellClient:
    """Return the client of a cell; ``options`` are those of the driver's client."""
    listeners = [*options.pop("event_listeners", ()), _ReplyListener(cell)]
    client = CellClient(uri, event_listeners=listeners, **options)
    client.eventr_cell = cell
    return client


def find_cell(error: PyMongoError) -> Cell | None:
    """Return the cell whose client raised an error; None: it was the home store's."""
    found: Cell | None = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        owner = frame.f_locals.get("self")
        if isinstance(owner, MongoClient):
            # The innermost one: a transaction of one store may use another one, too.
            found = owner.eventr_cell if isinstance(owner, CellClient) else None
    return found
