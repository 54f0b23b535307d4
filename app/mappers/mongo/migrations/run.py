"""A migration, and the operations that it may use."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import pymongo
from pymongo.errors import OperationFailure

from app.errors import StartupError
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.indexes import BUILD_SECONDS
from app.mappers.mongo.migrations.schema import Lease, SchemaMapper
from app.mappers.mongo.store import Doc, Session, Store

#: Documents in one transaction of :meth:`Run.walk_collection`, which must stay well below its time limit.
BATCH = 500
_INDEX_NOT_FOUND, _NAMESPACE_NOT_FOUND = 27, 26


@dataclasses.dataclass(frozen=True)
class Migration:
    """One step, from schema version ``number - 1`` to ``number``.

    Attributes:
        in_cells: it concerns collections of people, so it is applied in each cell as well.
    """

    number: int
    title: str
    apply: Callable[[Run], None]
    in_cells: bool = False


class Run:
    """One attempt to apply one migration.

    A migration must be idempotent and resumable: its process may be killed at any moment, and the next
    process calls it again. Small changes are safe to repeat as they are (``drop_index``, an ``update_many``
    whose filter no longer matches the changed documents). Longer ones use :meth:`walk_collection` or
    :meth:`commit_batch`, which store their progress.

    Processes of the previous version may still run and write: update single fields, and never replace a
    document with a copy that was read earlier. When a frozen process wakes up, the fence rejects only its
    calls of :meth:`commit_batch`. Any other write must be harmless even after later migrations.

    Attributes:
        database: for reads, and for changes that are safe to repeat.
        progress: stored by the last batch of this migration, in this or an earlier attempt; empty at first.
    """

    def __init__(
        self, store: Store, schema: SchemaMapper, lease: Lease, number: int, cancelled: Callable[[], bool]
    ) -> None:
        self.database = store.database
        self._store, self._schema, self._lease, self._number = store, schema, lease, number
        self._cancelled = cancelled
        self.progress: Mapping[str, Any] = schema.get_progress(number)

    def check_cancelled(self) -> None:
        """Check that this process may go on; migrations that write without :meth:`commit_batch` call it.

        Raises:
            StartupError: this process should stop.
        """
        if self._cancelled():
            raise StartupError("Eventr was stopped during the database upgrade. The next start continues it.")

    def commit_batch(self, write: Callable[[Session], None], progress: Mapping[str, Any]) -> None:
        """Call ``write`` and store the progress in one transaction; ``write`` may be called more than once.

        Raises:
            LostLockError: another process has taken over; nothing was written.
            StartupError: this process should stop; nothing was written.
        """
        self.check_cancelled()

        def write_batch(session: Session) -> None:
            self._schema.set_progress(self._lease, self._number, progress, session)
            write(session)

        self._store.run_in_transaction(write_batch)
        self.progress = progress

    def walk_collection(
        self,
        collection: str,
        change: Callable[[list[Doc], Session], None],
        *,
        where: Mapping[str, Any] | None = None,
        batch: int = BATCH,
    ) -> None:
        """Pass the documents of a collection to ``change`` batch by batch, ordered by id.

        Each batch is committed with its last id, and the next attempt continues after that id. A migration
        can walk each collection only once.

        Args:
            where: filter for the documents. Without a matching index, MongoDB reads the whole collection.
        """
        while found := self._read_batch(collection, where or {}, batch):
            self.commit_batch(
                functools.partial(change, found), {**self.progress, collection: found[-1]["_id"]}
            )

    @translate_errors
    def _read_batch(self, collection: str, where: Mapping[str, Any], batch: int) -> list[Doc]:
        behind = {"_id": {"$gt": self.progress[collection]}} if collection in self.progress else {}
        found = self.database[collection].find({"$and": [where, behind]})
        return list(found.sort("_id", pymongo.ASCENDING).limit(batch))

    @translate_errors
    def drop_index(self, collection: str, name: str) -> None:
        """Drop an index if it exists."""
        with pymongo.timeout(BUILD_SECONDS):
            try:
                self.database[collection].drop_index(name)
            except OperationFailure as e:
                if e.code not in (_INDEX_NOT_FOUND, _NAMESPACE_NOT_FOUND):
                    raise
