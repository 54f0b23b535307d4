"""The write conflicts that MongoDB counts."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pymongo.database import Database
from pymongo.errors import OperationFailure

from app.mappers.mongo.errors import translate_errors
from app.models.operations.write_conflicts import WriteConflicts

#: Parts of the answer that are expensive or long, and not needed.
_UNNEEDED = ("locks", "metrics", "tcmalloc", "repl", "opLatencies", "transactions", "network", "sharding")


class WriteConflictMapper:
    """Reads the primary's counter."""

    def __init__(self, database: Database[dict[str, Any]]) -> None:
        self._database = database

    @translate_errors
    def count(self) -> WriteConflicts | None:
        """Return the conflicts; None: our user may not read them, or a sharded cluster doesn't count them."""
        try:
            found = self._database.command({"serverStatus": 1, **dict.fromkeys(_UNNEEDED, 0)})
        except OperationFailure:
            return None
        # metrics.operation.writeConflicts leaves out those of transactions, which are nearly all of ours.
        conflicts = found.get("wiredTiger", {}).get("transaction", {}).get("update conflicts")
        if conflicts is None:
            return None
        running = dt.timedelta(seconds=int(found["uptime"]))
        return WriteConflicts(int(conflicts), found["localTime"] - running)
