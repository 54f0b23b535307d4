"""All migrations in order. Numbers rise by one and are never reused."""

from __future__ import annotations

import pymongo
from pymongo.database import Database

from app.errors import StartupError
from app.mappers.mongo.migrations import (
    m0001_drop_email_index,
    m0002_mark_shared_feeds,
    m0003_replace_media_indexes,
    m0004_move_fetch_log,
    m0005_take_back_page_texts,
)
from app.mappers.mongo.migrations.run import Migration
from app.mappers.mongo.migrations.schema import SchemaMapper
from app.mappers.mongo.store import TIMEOUT_MS, Doc

MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, "Drop the unique index on email addresses", m0001_drop_email_index.apply),
    Migration(2, "Check shares of feeds that are secret by newer rules", m0002_mark_shared_feeds.apply),
    Migration(3, "Replace two indexes of pictures", m0003_replace_media_indexes.apply),
    Migration(4, "Move the fetch log into the feeds", m0004_move_fetch_log.apply),
    Migration(5, "Take the fetched texts of pages out of shares", m0005_take_back_page_texts.apply),
)
#: Those that are also applied in each cell. The numbers of a cell's schema versions have gaps.
CELL_MIGRATIONS: tuple[Migration, ...] = tuple(each for each in MIGRATIONS if each.in_cells)
#: The schema version that this program reads and writes.
VERSION = MIGRATIONS[-1].number


def is_current(database: Database[Doc], seconds: float = TIMEOUT_MS / 1000) -> bool:
    """Return whether a database is new or has this program's schema; False: its schema is older.

    Args:
        seconds: time limit for MongoDB's reply.

    Raises:
        StartupError: a newer program has upgraded the database.
        StoreError: MongoDB isn't responding.
    """
    with pymongo.timeout(seconds):
        version = SchemaMapper(database).get_version()
    require_known(version)
    return version is None or version == VERSION


def require_known(version: int | None, known: int = VERSION) -> None:
    """Refuse a database that a newer program has upgraded.

    Raises:
        StartupError: names both versions and the way out.
    """
    if version is not None and version > known:
        raise StartupError(
            "The database has schema version %(version)s, but this Eventr supports only %(known)s:"
            " install the newer Eventr, or restore a backup from before the upgrade.",
            version=version,
            known=known,
        )
