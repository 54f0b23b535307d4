"""The document with the schema version, the lock and the progress of an upgrade.

One document in the collection ``schema``:

    {_id: "schema", version: 1,
     fence: 3, holder: "web1:4711", expires: <time>,      the current or last holder of the lock
     number: 2, progress: {…},                            the current migration and its progress
     history: [{number, title, program, began, ended}]}   the applied migrations

Each holder gets the next higher ``fence``, and each of its writes names that fence. So a frozen process that
wakes up after another one has acquired the lock changes nothing.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Any

from pymongo import ReturnDocument
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.errors import StoreError
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session

COLLECTION = "schema"
_ID = "schema"
#: One of these has a document in a used database from before schema versions.
_USED = ("users", "feeds")
_NEVER = dt.datetime.fromtimestamp(0, dt.UTC)


class LostLockError(StoreError):
    """Another process has taken over the database upgrade."""


@dataclasses.dataclass(frozen=True)
class Lease:
    """The right to upgrade the database until another process acquires the expired lock."""

    fence: int


class SchemaMapper:
    """The schema document of one database."""

    def __init__(self, database: Database[Doc]) -> None:
        self._database = database
        self._schema: Collection[Doc] = database[COLLECTION]

    @translate_errors
    def get_version(self) -> int | None:
        """Return the version; 0: from before schema versions; None: the database is new."""
        found = self._schema.find_one({"_id": _ID}, {"version": 1})
        if found is None and not any(self._database[name].find_one({}, {"_id": 1}) for name in _USED):
            return None
        return int(found.get("version", 0)) if found else 0

    @translate_errors
    def acquire(self, holder: str, seconds: float) -> Lease | None:
        """Acquire the lock if it is free or expired, by MongoDB's clock."""
        if self._schema.find_one({"_id": _ID}, {"_id": 1}) is None:
            self._create()
        found = self._schema.find_one_and_update(
            {"_id": _ID, "$expr": {"$lt": ["$expires", "$$NOW"]}},
            [{"$set": {"fence": {"$add": ["$fence", 1]}, "holder": holder, **_expiry(seconds)}}],
            return_document=ReturnDocument.AFTER,
        )
        return Lease(found["fence"]) if found else None

    def _create(self) -> None:
        try:
            self._schema.insert_one({"_id": _ID, "fence": 0, "expires": _NEVER, "history": []})
        except DuplicateKeyError:
            return  # another process was first

    @translate_errors
    def renew(self, lease: Lease, seconds: float) -> bool:
        """Hold the lock for this long from now; False: another process has acquired it."""
        done = self._schema.update_one({"_id": _ID, "fence": lease.fence}, [{"$set": _expiry(seconds)}])
        return done.matched_count == 1

    @translate_errors
    def release(self, lease: Lease) -> None:
        """Release the lock if this lease still holds it."""
        self._schema.update_one({"_id": _ID, "fence": lease.fence}, {"$set": {"expires": _NEVER}})

    @translate_errors
    def get_holder(self) -> str | None:
        """Return the holder of the lock as ``host:pid``, or None."""
        found = self._schema.find_one({"_id": _ID, "$expr": {"$gte": ["$expires", "$$NOW"]}}, {"holder": 1})
        return str(found["holder"]) if found else None

    @translate_errors
    def get_progress(self, number: int) -> Mapping[str, Any]:
        """Return the stored progress of a migration, from any process."""
        found = self._schema.find_one({"_id": _ID, "number": number}, {"progress": 1})
        return dict(found["progress"]) if found else {}

    @translate_errors
    def set_progress(
        self, lease: Lease, number: int, progress: Mapping[str, Any], session: Session | None = None
    ) -> None:
        """Store the progress of a migration.

        Raises:
            LostLockError: another process has the lock.
        """
        self._write(lease, {"$set": {"number": number, "progress": dict(progress)}}, session)

    @translate_errors
    def finish(self, lease: Lease, number: int, entry: Mapping[str, Any]) -> None:
        """Set the version and add a row to the history.

        Raises:
            LostLockError: another process has the lock.
        """
        self._write(
            lease,
            {
                "$set": {"version": number},
                "$unset": {"number": "", "progress": ""},
                "$push": {"history": {"number": number, **entry}},
            },
        )

    def _write(self, lease: Lease, update: Mapping[str, Any], session: Session | None = None) -> None:
        # An update that changes nothing wouldn't conflict with another holder's write in a transaction.
        counted = {**update, "$inc": {"writes": 1}}
        done = self._schema.update_one({"_id": _ID, "fence": lease.fence}, counted, session=session)
        if not done.matched_count:
            raise LostLockError("Another process has taken over the database upgrade.")


def _expiry(seconds: float) -> dict[str, Any]:
    return {"expires": {"$add": ["$$NOW", int(seconds * 1000)]}}
