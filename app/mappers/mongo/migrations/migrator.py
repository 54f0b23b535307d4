"""Upgrades a database to the schema of this program: one process migrates, the others wait."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pymongo.database import Database

from app import clock, logs
from app.errors import StartupError, StoreError
from app.mappers.accounts.invites import InviteMapper
from app.mappers.accounts.resets import ResetMapper
from app.mappers.accounts.sessions import SessionMapper
from app.mappers.accounts.users import UserMapper
from app.mappers.feeds.discoveries import DiscoveryMapper
from app.mappers.mongo import indexes
from app.mappers.mongo.migrations.run import Migration, Run
from app.mappers.mongo.migrations.schema import Lease, SchemaMapper
from app.mappers.mongo.migrations.table import MIGRATIONS, require_known
from app.mappers.mongo.store import Doc, Store
from app.models.transactions import ABANDONED_SECONDS

_log = logs.get(__name__)

#: Time until the lock of a killed process expires, seconds.
LEASE = 15.0
#: Time between two attempts to acquire the lock, seconds.
_TRY_EVERY = 0.2
#: MongoDB has ended all transactions of a dead process after this time, seconds.
_ABANDONED = 4.0 * ABANDONED_SECONDS


@dataclasses.dataclass(frozen=True)
class Upgrade:
    """The schema versions before and after; ``before`` is None for a new database."""

    before: int | None
    after: int


class Migrator:
    """Upgrades one database.

    Args:
        program: version of this program, for the history.
        migrations: a different table, for tests.
        seconds: time until the lock expires after its last renewal.
        create: creates all indexes; None: those of the home store.
        cancelled: returns True when this process should stop; called while waiting and before each batch.
    """

    def __init__(
        self,
        store: Store,
        program: str,
        *,
        migrations: Sequence[Migration] = MIGRATIONS,
        seconds: float = LEASE,
        create: Callable[[Database[Doc]], None] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store, self._program, self._migrations = store, program, migrations
        self._seconds, self._cancelled = seconds, cancelled
        self._create = create or create_indexes
        self._schema = SchemaMapper(store.database)

    @property
    def _newest(self) -> int:
        return self._migrations[-1].number

    def run(self) -> Upgrade:
        """Apply the missing migrations and create all indexes, or wait until another process has done so.

        Raises:
            StartupError: a newer program has upgraded the database, or this process should stop.
            StoreError: MongoDB isn't responding, or another process has taken over.
        """
        before = self._known_version()
        if before == self._newest:
            self._create(self._store.database)
            return Upgrade(before, before)
        with self._locked() as lease:
            # Another process may have migrated meanwhile.
            version = self._known_version() or 0
            for migration in self._migrations:
                if migration.number > version:
                    self._apply(migration, lease)
        return Upgrade(before, self._newest)

    def _known_version(self) -> int | None:
        version = self._schema.get_version()
        require_known(version, self._newest)
        return version

    def _apply(self, migration: Migration, lease: Lease) -> None:
        began = clock.now()
        _log.info("migration_began", number=migration.number, title=migration.title)
        migration.apply(Run(self._store, self._schema, lease, migration.number, self._cancelled))
        if migration.number == self._newest:
            # Other processes wait for the newest version, and need its indexes, too.
            self._create(self._store.database)
        ended = clock.now()
        entry = {"title": migration.title, "program": self._program, "began": began, "ended": ended}
        self._schema.finish(lease, migration.number, entry)
        _log.info("migration_done", number=migration.number, ms=int((ended - began).total_seconds() * 1000))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Lease]:
        lease = self._wait_for_lock()
        over = threading.Event()
        renewing = threading.Thread(
            target=self._renew, args=(lease, over), name="migration-lock", daemon=True
        )
        renewing.start()
        try:
            yield lease
        finally:
            over.set()
            renewing.join()
            with contextlib.suppress(StoreError):  # the lock expires anyway
                self._schema.release(lease)

    def _wait_for_lock(self) -> Lease:
        pause, logged, last_reply = threading.Event(), False, time.monotonic()
        while True:
            try:
                if lease := self._schema.acquire(f"{os.uname().nodename}:{os.getpid()}", self._seconds):
                    return lease
                last_reply = time.monotonic()
            except StoreError:
                # A killed process can leave a transaction open until MongoDB ends it.
                if time.monotonic() > last_reply + _ABANDONED:
                    raise
            if self._cancelled():
                raise StartupError("Eventr was stopped while another process was upgrading the database.")
            if not logged:
                logged = True
                _log.warning("waiting_for_migration", holder=self._schema.get_holder())
            pause.wait(_TRY_EVERY)

    def _renew(self, lease: Lease, over: threading.Event) -> None:
        while not over.wait(self._seconds / 3):
            try:
                if not self._schema.renew(lease, self._seconds):
                    return  # the next write raises LostLockError
            except StoreError:
                _log.warning("migration_lock_not_renewed")


def create_indexes(database: Database[Doc]) -> None:
    """Create all indexes; safe to repeat, and to call from several processes at once."""
    indexes.ensure_indexes(database)
    makers: tuple[Any, ...] = (UserMapper, SessionMapper, InviteMapper, ResetMapper, DiscoveryMapper)
    for mapper in makers:
        mapper(database).ensure_indexes()
