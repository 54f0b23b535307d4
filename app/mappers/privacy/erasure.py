"""Erasure of all of a user's documents (security.md G02)."""

from __future__ import annotations

import datetime as dt
from typing import Any

from app.mappers.accounts.users import build_leaving_condition
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.indexes import INDEXES
from app.mappers.mongo.outbox_rows import add_entries_to_outbox, add_feeds_to_outbox
from app.mappers.mongo.placement import PLACEMENTS, Home
from app.mappers.mongo.store import Session
from app.mappers.operations.outbox import OutboxMapper
from app.mappers.reading.index_queue import OLD_INDEX, IndexQueueMapper
from app.models.operations.cells import HOME

Doc = dict[str, Any]


def list_owned_collections() -> tuple[str, ...]:
    """Return the collections that are indexed by user; new ones with such an index are included."""
    return (
        "sessions",
        "resets",
        *(name for name, indexes in INDEXES.items() if any("user_id" in i.document["key"] for i in indexes)),
    )


#: Their documents count references to shared content, so they are deleted by their own gateway.
COUNTED = frozenset({"files"})
#: Subscriptions and marks that one transaction deletes in a cell where the user doesn't live.
COUNTED_TOGETHER = 100


class ErasureMapper:
    """Deletes a user's documents in all collections; each step can be repeated."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._database = cells.home.database
        self._queue, self._outbox = IndexQueueMapper(self._database), OutboxMapper(cells)

    @translate_errors
    def stop(self, user_id: int) -> None:
        """Delete a user's imports and exports; their running jobs notice that at the next write."""
        for name in ("imports", "import_parts", "import_marks", "personal_exports", "personal_export_parts"):
            self._cells.get_database(user_id, write=True)[name].delete_many({"user_id": user_id})

    @translate_errors
    def forget(self, user_id: int) -> None:
        """Delete a user's shared feeds with their followers, feeds that only the user may read, and
        relationships and reports about the user.
        """
        table = self._database["feeds"]
        feeds = [d["_id"] for d in table.find({"owner": user_id}, {"_id": 1}).hint("owner")]
        feeds += [d["_id"] for d in table.find({"private_to": user_id}, {"_id": 1}).hint("private")]
        if feeds:
            # First, so that a crash after it only repeats work; the old index knows no such records.
            self._queue.add_removals([(feed_id, None) for feed_id in feeds])
            for store in self._cells.iterate_stores():  # followers may live anywhere
                store.database["subscriptions"].delete_many({"feed_id": {"$in": feeds}})
            for name in ("entries", OLD_INDEX):
                self._database[name].delete_many({"feed_id": {"$in": feeds}})
            self._database["feeds"].delete_many({"_id": {"$in": feeds}})
            # And again, for an indexing job that read the entries before they were deleted.
            self._queue.add_removals([(feed_id, None) for feed_id in feeds])
        self._database["ties"].delete_many({"to": user_id})
        self._database["reports"].delete_many({"whom": user_id})

    def _erase_in(self, cell: str, user_id: int) -> None:
        store = self._cells.get_store(cell)
        if self._cells.is_spread:
            while store.run_in_transaction(lambda session: self._erase_counted(cell, user_id, session)):
                pass
            store.database["move_fences"].delete_one({"_id": user_id})
        for name in list_owned_collections():
            if name not in COUNTED and (cell == HOME or PLACEMENTS[name].home is Home.CELL):
                store.database[name].delete_many({"user_id": user_id})

    def _erase_counted(self, cell: str, user_id: int, session: Session) -> bool:
        """Delete some documents that numbers at home count; return False if there are none left.

        In the cell in which the user lives, they are gone already, and so are their numbers.
        """
        feeds, entries = self._outbox.find_counted(cell, user_id, session, limit=COUNTED_TOGETHER)
        add_feeds_to_outbox(self._database, feeds, session)
        add_entries_to_outbox(self._database, entries, session)
        query = {"user_id": user_id}
        database = self._cells.get_store(cell).database
        database["subscriptions"].delete_many({**query, "feed_id": {"$in": list(feeds)}}, session=session)
        marks = {**query, "entry_id": {"$in": [entry_id for _, entry_id in entries]}}
        database["marks"].delete_many(marks, session=session)
        return bool(feeds or entries)

    @translate_errors
    def erase(self, user_id: int, before: dt.datetime) -> bool:
        """Delete a user's documents, the account last, because until then it marks the work to do.

        The account stays if its deletion began at ``before`` or later, or if the user is being moved.

        Returns:
            Whether the account is gone.

        Raises:
            CellError: a cell isn't responding; the account stays.
        """
        place = self._cells.places.read_place(user_id) if self._cells.is_spread else None
        if place is not None and place.step:
            return False  # the mover still holds copies of the documents, and ends in a moment
        for cell in self._cells.names:  # a process that was frozen may have written anywhere
            self._erase_in(cell, user_id)
        if any(self._database[name].find_one({"user_id": user_id}, {"_id": 1}) for name in COUNTED):
            return False  # a job of the user has stored one just now
        self._database["usage"].delete_one({"_id": user_id})
        self._database["invites"].delete_many({"by": user_id})
        users = self._database["users"]
        ready = {"_id": user_id, "leaving": build_leaving_condition(before)}
        if users.find_one({"_id": user_id}, {"_id": 1}) and not users.find_one(ready, {"_id": 1}):
            return False
        if self._cells.is_spread and not self._cells.places.remove(user_id, place):
            return False  # a move began meanwhile
        users.delete_one(ready)
        return users.find_one({"_id": user_id}, {"_id": 1}) is None
