"""The replica set of a cell: left alone while it is down, and used only once it is prepared."""

from __future__ import annotations

import functools
import hashlib
import threading
import time
from collections.abc import Callable, Collection, Sequence
from importlib import metadata
from typing import Any

from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import ConnectionFailure, NetworkTimeout, PyMongoError, ServerSelectionTimeoutError

from app import logs
from app.errors import CellError, StartupError, StoreError
from app.mappers.mongo.cell_client import open_client
from app.mappers.mongo.cell_identity import check_identity, claim_database, read_identity, record_prepared
from app.mappers.mongo.cell_watch import PATIENCE, CellWatch
from app.mappers.mongo.indexes import CELL_INDEXES, INDEXES, ensure_cell_indexes
from app.mappers.mongo.migrations.migrator import Migrator
from app.mappers.mongo.migrations.run import Migration
from app.mappers.mongo.migrations.table import CELL_MIGRATIONS
from app.mappers.mongo.placement import PLACEMENTS, Home
from app.mappers.mongo.store import Doc, Store
from app.ports import ChangeLog

_log = logs.get(__name__)

#: Seconds for which a cell that isn't prepared isn't looked at again.
PAUSE_SECONDS = 2.0
#: Errors of calls that have waited for the cell; other errors of connections come at once.
_WAITED = (NetworkTimeout, ServerSelectionTimeoutError)
#: The collections of a cell.
OWNED = frozenset(name for name, (home, _) in PLACEMENTS.items() if home in (Home.CELL, Home.EACH))


class CellStore(Store):
    """The store of a cell.

    Args:
        name: of the cell.
        is_used: returns whether a cell was prepared before.
        migrations: a different table, for tests.
        patience: seconds for which requests wait for a cell that has just stopped responding.
    """

    def __init__(
        self,
        uri: str,
        database: str,
        name: str,
        log: ChangeLog | None = None,
        *,
        is_used: Callable[[str], bool] = lambda _: False,
        migrations: Sequence[Migration] = CELL_MIGRATIONS,
        patience: float = PATIENCE,
    ) -> None:
        self.name, self._migrations, self._is_used = name, migrations, is_used
        self._looking, self._patience, self._unprepared_until = threading.Lock(), patience, 0.0
        self.watch = CellWatch(name, self.check_prepared, self._has_primary, patience)
        #: Whether this process knows that the cell is prepared.
        self.is_prepared = False
        super().__init__(uri, database, log)

    def _open_client(self, uri: str, **options: Any) -> MongoClient[Doc]:
        try:
            return open_client(self, uri, **options)
        except (PyMongoError, ValueError) as e:
            # The driver's sentence may quote a part of the password.
            raise StartupError(
                "The address of the cell %(cell)s isn't a valid MongoDB URI. Check its hosts, ports and"
                " options in EVENTR_CELLS.",
                cell=self.name,
            ) from e

    # -- a cell that is down

    def check_pause(self) -> None:
        """Raise CellError if the cell isn't responding, without asking it; see :class:`CellWatch`."""
        self.watch.check()

    def _has_primary(self) -> bool:
        return self._client.topology_description.has_writable_server()

    def make_error(self, error: PyMongoError) -> StoreError:
        """Return the error for people, after recording a failed connection."""
        if isinstance(error, ConnectionFailure):
            self.is_prepared = False  # it may come back as another one
            if _has_waited(error):
                self.watch.note_failure()
            else:
                self.watch.note_doubt()
        return CellError(cell=self.name)

    def close(self) -> None:
        """Close all connections, and ask the cell nothing more."""
        self.watch.close()
        super().close()

    # -- a cell that isn't prepared

    def require_prepared(self) -> None:
        """Check once that this is the database of this cell, with the indexes and schema of this program.

        Raises:
            CellError: it isn't, or isn't responding; another process may prepare it.
        """
        if self.is_prepared:
            return
        # The first call of a process connects; others don't wait for a server that is down, each of them.
        if not self._looking.acquire(timeout=self._patience):
            raise CellError(cell=self.name)
        try:
            self.check_pause()
            if not self.is_prepared and not self._is_prepared_now():
                raise CellError(cell=self.name)
        finally:
            self._looking.release()

    def _is_prepared_now(self) -> bool:
        now = time.monotonic()
        if now < self._unprepared_until:
            return False
        self._unprepared_until = 0.0 if self.check_prepared() else now + PAUSE_SECONDS
        return self.is_prepared

    def check_prepared(self) -> bool:
        """Look whether this is the database of this cell, and prepared for this program.

        Raises:
            CellError: it isn't responding.
        """
        found = read_identity(self.database)
        program = compute_program(self._migrations)
        self.is_prepared = found is not None and found.name == self.name and program in found.prepared
        if not self.is_prepared:
            _log.error("cell_not_prepared", cell=self.name, found=found.name if found else None)
        return self.is_prepared

    def check_identity(self) -> bool:
        """Check without a change that this is the database of this cell, or can become it.

        Returns:
            Whether it has its identity.

        Raises:
            CellMismatchError: it is that of another one, or has lost all its data.
            CellError: it isn't responding.
        """
        self.check_pause()
        return check_identity(self.database, self.name, self._is_used) is not None

    def claim(self, taken: Collection[str]) -> None:
        """Let the database be that of this cell; raises as :meth:`check_identity` does.

        Args:
            taken: cells that certainly have a database: if it has the name of one, that isn't a mistake.
        """
        self.check_pause()
        claim_database(self.database, self.name, lambda name: name in taken or self._is_used(name))

    def prepare(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Upgrade the cell to this program's schema and create its indexes; safe to repeat, even in a pause.

        Raises:
            CellMismatchError: it is the database of another cell, or has lost all its data.
            CellError: it isn't responding.
            StartupError: a newer program has upgraded it, or this process should stop.
        """
        self.ping()  # building indexes may take hours, and so would waiting for a server that is down
        # Strictly: a name is replaced only after a look at all cells.
        claim_database(self.database, self.name, lambda name: name != self.name or self._is_used(name))
        if self._migrations:
            program = metadata.version("eventr")
            Migrator(
                self, program, migrations=self._migrations, create=create_indexes, cancelled=cancelled
            ).run()
        create_indexes(self.database)
        record_prepared(self.database, compute_program(self._migrations))
        self.is_prepared = True


def _has_waited(error: ConnectionFailure) -> bool:
    # The driver raises a call's first error again if it has then waited in vain for a server to repeat it.
    return isinstance(error, _WAITED) or isinstance(error.__context__, _WAITED)


def create_indexes(database: Database[Doc]) -> None:
    """Create the indexes of a cell; safe to repeat."""
    ensure_cell_indexes(database, OWNED)


def compute_program(migrations: Sequence[Migration]) -> str:
    """Return what distinguishes the indexes and the schema that a program needs in cells."""
    number = migrations[-1].number if migrations else 0
    return f"{number}-{_compute_digest()}"


@functools.cache
def _compute_digest() -> str:
    tables = [*sorted(INDEXES.items()), *sorted(CELL_INDEXES.items())]
    text = repr([(name, [model.document for model in models]) for name, models in tables if name in OWNED])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
