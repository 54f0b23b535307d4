"""Each process checks at its start that the database has its schema.

This module doesn't use :mod:`app.bootstrap`, because the manager and the controller start without it.
"""

from __future__ import annotations

import contextlib
import threading

from app import logs
from app.config import Settings
from app.mappers.mongo.migrations import table
from app.mappers.mongo.store import Store

_log = logs.get(__name__)

#: Time between two checks of the version, seconds.
_CHECK_EVERY = 0.5


def require_schema(settings: Settings) -> bool:
    """Return whether the database is new or has this program's schema; False: its schema is older.

    Raises:
        StartupError: a newer program has upgraded the database.
        StoreError: MongoDB isn't responding.
    """
    with contextlib.closing(Store(settings.mongodb_uri, settings.mongodb_name)) as store:
        return table.is_current(store.database)


def wait_for_schema(settings: Settings) -> None:
    """Wait until another process has upgraded the database to this program's schema.

    Raises:
        StartupError: a newer program has upgraded the database.
        StoreError: MongoDB isn't responding.
    """
    pause, logged = threading.Event(), False
    while not require_schema(settings):
        if not logged:
            logged = True
            _log.warning("waiting_for_migration", wanted=table.VERSION, by="eventr migrate, web or up")
        pause.wait(_CHECK_EVERY)
