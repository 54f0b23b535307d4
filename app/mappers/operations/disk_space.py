"""The space on MongoDB's disk."""

from __future__ import annotations

from typing import Any

from pymongo.database import Database
from pymongo.errors import OperationFailure

from app.mappers.mongo.errors import translate_errors
from app.models.operations.disk_space import DiskSpace


class DiskSpaceMapper:
    """Reads the space that MongoDB reports."""

    def __init__(self, database: Database[dict[str, Any]]) -> None:
        self._database = database

    @translate_errors
    def measure(self) -> DiskSpace | None:
        """Return the space on the primary's disk; None: a sharded cluster doesn't report it."""
        try:
            # freeStorage 0: don't walk the collections' files for space within them.
            found = self._database.command({"dbStats": 1, "freeStorage": 0})
        except OperationFailure:
            return None
        total, used = int(found.get("fsTotalSize") or 0), int(found.get("fsUsedSize") or 0)
        return DiskSpace("MongoDB", total - used, total) if total else None
