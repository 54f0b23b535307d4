"""Uploads: the collection ``uploads``. Their bytes are in files, whose lengths no document repeats."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection as Several
from typing import Any

from pymongo import DESCENDING, ReturnDocument
from pymongo.collection import Collection
from pymongo.database import Database

from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session
from app.models.media.blob import Purpose
from app.models.media.upload import ACTIVE, Upload, UploadState

_PLAIN = (
    *("user_id", "name", "size", "reserved", "received", "created", "expires"),
    *("claimed", "metadata", "file_id", "error", "ended", "home"),
)
_ACTIVE = [state.value for state in ACTIVE]


class UploadMapper:
    """Document ↔ :class:`Upload`. Every change is conditional on the state that the caller has seen."""

    def __init__(self, database: Database[Doc]) -> None:
        self._uploads: Collection[Doc] = database["uploads"]

    @translate_errors
    def add(self, session: Session, upload: Upload) -> None:
        """Store a new upload."""
        self._uploads.insert_one(_to_doc(upload), session=session)

    @translate_errors
    def find(self, upload_id: str, session: Session | None = None) -> Upload | None:
        """Return an upload."""
        doc = self._uploads.find_one({"_id": upload_id}, session=session)
        return _to_upload(doc) if doc else None

    @translate_errors
    def find_active(self, user_id: int, limit: int, session: Session | None = None) -> list[Upload]:
        """Return a user's uploads that are open or being sealed, newest first."""
        query = {"user_id": user_id, "state": {"$in": _ACTIVE}}
        found = self._uploads.find(query, session=session).sort("created", DESCENDING).limit(limit)
        return [_to_upload(doc) for doc in found]

    @translate_errors
    def find_ended(self, user_id: int, limit: int) -> list[Upload]:
        """Return a user's uploads that ended lately, newest first."""
        query = {"user_id": user_id, "state": {"$in": [UploadState.DONE.value, UploadState.FAILED.value]}}
        found = self._uploads.find(query).sort("ended", DESCENDING).limit(limit)
        return [_to_upload(doc) for doc in found]

    @translate_errors
    def count_active(self, user_id: int, session: Session | None = None) -> int:
        """Return how many uploads of a user are open or being sealed."""
        query = {"user_id": user_id, "state": {"$in": _ACTIVE}}
        return self._uploads.count_documents(query, session=session)

    @translate_errors
    def find_expired(self, now: dt.datetime, limit: int, home: str, lost: dt.datetime) -> list[Upload]:
        """Return open uploads that have expired, unless a part has come that isn't counted yet.

        Args:
            home: id of the EVENTR_HOME whose uploads are returned.
            lost: uploads of other homes are returned, too, if they expired earlier than this.
        """
        mine = {"expires": {"$lte": now}, "home": {"$in": [None, home]}}
        query = {"state": UploadState.OPEN.value, "$or": [mine, {"expires": {"$lte": lost}}]}
        return [_to_upload(doc) for doc in self._uploads.find(query).sort("expires", 1).limit(limit)]

    @translate_errors
    def find_sealing(
        self, limit: int, since: dt.datetime | None = None, seen: Several[str] = ()
    ) -> list[Upload]:
        """Return uploads that wait to be sealed, or are being sealed, by the time when they expire.

        Args:
            since: the earliest time.
            seen: uploads that are left out.
        """
        query: Doc = {"state": UploadState.SEALING.value}
        if since is not None:
            query |= {"expires": {"$gte": since}, "_id": {"$nin": list(seen)}}
        return [_to_upload(doc) for doc in self._uploads.find(query).sort("expires", 1).limit(limit)]

    @translate_errors
    def find_active_ids(self, upload_ids: Several[str]) -> set[str]:
        """Return which of these uploads are open or being sealed."""
        query = {"_id": {"$in": list(upload_ids)}, "state": {"$in": _ACTIVE}}
        return {doc["_id"] for doc in self._uploads.find(query, {"_id": 1})}

    @translate_errors
    def find_homes(self) -> set[str]:
        """Return the ids of the EVENTR_HOMEs that have bytes of uploads in progress."""
        found = self._uploads.distinct("home", {"state": {"$in": _ACTIVE}})
        return {home for home in found if home is not None}

    @translate_errors
    def find_senders(self) -> list[int]:
        """Return the users who have open uploads."""
        return sorted(self._uploads.distinct("user_id", {"state": UploadState.OPEN.value}))

    @translate_errors
    def record_received(self, session: Session, upload: Upload, received: int, expires: dt.datetime) -> bool:
        """Record how many bytes an open upload has received, if nobody else has recorded it since.

        Returns:
            Whether it did; the caller then adds the difference to the user's unfinished bytes.
        """
        query = {"_id": upload.id, "state": UploadState.OPEN.value, "received": upload.received}
        change = {"$set": {"received": received, "expires": expires}}
        return self._uploads.update_one(query, change, session=session).modified_count > 0

    @translate_errors
    def change_reserved(
        self, session: Session, upload: Upload, reserved: int, *, size: int | None = None
    ) -> bool:
        """Change the reserved bytes of an open upload without a size, and set the size if it is given.

        Returns:
            Whether the upload was still as the caller has seen it.
        """
        query = {"_id": upload.id, "state": UploadState.OPEN.value, "size": None, "reserved": upload.reserved}
        change: Doc = {"reserved": reserved} | ({} if size is None else {"size": size})
        return self._uploads.update_one(query, {"$set": change}, session=session).matched_count > 0

    @translate_errors
    def begin_sealing(self, upload_id: str) -> bool:
        """Turn an open upload into one that waits to be sealed; return whether this call did."""
        query = {"_id": upload_id, "state": UploadState.OPEN.value}
        return (
            self._uploads.update_one(query, {"$set": {"state": UploadState.SEALING.value}}).matched_count > 0
        )

    @translate_errors
    def end(
        self,
        session: Session,
        upload_id: str,
        before: UploadState,
        state: UploadState,
        *,
        now: dt.datetime,
        file_id: int | None = None,
        error: str | None = None,
    ) -> Upload | None:
        """End an upload that is in state ``before``.

        Returns:
            The upload as it was: the caller releases exactly what it had reserved and received. None: it was
            in another state, so someone else has ended it.
        """
        change = {"state": state.value, "ended": now, "file_id": file_id, "error": error}
        doc = self._uploads.find_one_and_update(
            {"_id": upload_id, "state": before.value},
            {"$set": change},
            return_document=ReturnDocument.BEFORE,
            session=session,
        )
        return _to_upload(doc) if doc else None

    @translate_errors
    def sum_active(self, session: Session, user_id: int) -> tuple[int, int]:
        """Return the bytes that a user's open and sealing uploads have reserved, and received."""
        pipeline: list[Doc] = [
            {"$match": {"user_id": user_id, "state": {"$in": _ACTIVE}}},
            {"$group": {"_id": None, "reserved": {"$sum": "$reserved"}, "received": {"$sum": "$received"}}},
        ]
        for doc in self._uploads.aggregate(pipeline, session=session):
            return int(doc["reserved"]), int(doc["received"])
        return 0, 0


def _to_doc(upload: Upload) -> Doc:
    doc: Doc = {name: getattr(upload, name) for name in _PLAIN}
    return doc | {"_id": upload.id, "state": upload.state.value, "purpose": upload.purpose.value}


def _to_upload(doc: Doc) -> Upload:
    values: dict[str, Any] = {name: doc.get(name) for name in _PLAIN}
    return Upload(id=doc["_id"], state=UploadState(doc["state"]), purpose=Purpose(doc["purpose"]), **values)
