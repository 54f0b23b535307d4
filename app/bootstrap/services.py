"""Service wiring: the only place that builds clients → mappers → gateways → services, in all processes.

    services = bootstrap.build(settings)
    services.migrate()
    tree = services.reading.get_tree(actor)
    services.close()

Parts are built on first access, and nothing connects before its first use. So a process
builds only what it needs, and building before a fork is safe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata

from app import embedded
from app.bootstrap.discussion import DiscussionServices
from app.bootstrap.imports import ImportServices
from app.bootstrap.media import MediaServices
from app.bootstrap.operations import OperationsServices
from app.bootstrap.privacy import PrivacyServices
from app.bootstrap.stream_feeds import StreamFeedServices
from app.bootstrap.sync import SyncServices
from app.config import Settings
from app.feeds.fetch.fetcher import Fetcher
from app.mappers.mongo.migrations.migrator import Migrator, Upgrade
from app.mappers.mongo.migrations.table import is_current
from app.runtime.lazy import lazy
from app.services.later import LaterKind, LaterRunner


class Services(
    OperationsServices,
    PrivacyServices,
    SyncServices,
    ImportServices,
    DiscussionServices,
    StreamFeedServices,
    MediaServices,
):
    """All services of a process; see :func:`build`. One base class per domain builds its services."""

    @property
    def later_kinds(self) -> Sequence[LaterKind]:
        """All kinds of delayed tasks."""
        return (*self.upload_kinds, *self.archive_kinds)

    @lazy
    def later_runner(self) -> LaterRunner:
        """Delayed tasks whose time has come; for the updater."""
        return LaterRunner(self.later, self.jobs, self.mappers.dead_letters, self.later_kinds)

    def migrate(self, cancelled: Callable[[], bool] = lambda: False) -> Upgrade:
        """Upgrade the database to this program's schema and create all indexes; see :class:`Migrator`.

        Safe to repeat, and to call from several processes at once.

        Raises:
            StartupError: a newer program has upgraded the database, this process should stop, or EVENTR_CELLS
                is wrong.
            StoreError: MongoDB isn't responding.
        """
        done = Migrator(self.store, metadata.version("eventr"), cancelled=cancelled).run()
        self.cells.prepare(cancelled)
        return done

    def require_schema(self, seconds: float) -> bool:
        """Return whether the database is new or has this program's schema; False: its schema is older.

        Args:
            seconds: time limit for MongoDB's reply.

        Raises:
            StartupError: a newer program has upgraded the database.
            StoreError: MongoDB isn't responding.
        """
        return is_current(self.store.database, seconds)

    def close(self) -> None:
        """Close the connections that were opened."""
        names = (
            *("media_stores", "search_index", "limiter", "budget", "figures", "engine", "events", "jobs"),
            *("later", "cells", "store", "change_log"),
        )
        for name in names:
            if (part := self.__dict__.get(name)) is not None:
                part.close()


def build(settings: Settings) -> Services:
    """Return the services for these settings; unset addresses mean the embedded servers."""
    return Services(embedded.resolve_addresses(settings))


def build_fetcher(settings: Settings) -> Fetcher:
    """Return the fetcher of a worker process; a context manager."""
    return Fetcher(settings)
