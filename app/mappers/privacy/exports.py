"""Data exports: ``personal_exports``, one document per user, and their parts.

    personal_exports       {_id, user_id, state, asked, touched, tries, expires, ready, size, parts,
                            too_large} personal_export_parts  {user_id, export_id, try, part, data, expires}

They are in the store, so that any server can serve a file that a worker on another one made. Parts have the
number of the attempt that wrote them, so that parts of a killed attempt are never served.
"""

from __future__ import annotations

import datetime as dt
import itertools

from bson.binary import Binary
from bson.int64 import Int64
from pymongo import ReturnDocument
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc
from app.models.privacy.export import ExportState, PersonalExport

_MAKING = ExportState.MAKING.value


class PersonalExportMapper:
    """Document ↔ :class:`PersonalExport`."""

    def __init__(self, cells: Cells) -> None:
        self._exports = cells.get_table("personal_exports")
        self._parts = cells.get_table("personal_export_parts")

    @translate_errors
    def find_by_user(self, user_id: int) -> PersonalExport | None:
        """Return a user's export, even if it has expired."""
        doc = self._exports.get(user_id).find_one({"user_id": user_id})
        return _export(doc) if doc else None

    @translate_errors
    def put(self, new: PersonalExport) -> bool:
        """Store a new export, replacing an earlier one; return False if one is being made."""
        gone = self._exports.get(new.user_id).find_one_and_delete(
            {"user_id": new.user_id, "state": {"$ne": _MAKING}}, {"_id": 1}
        )
        if gone is not None:
            self._parts.get(new.user_id).delete_many({"user_id": new.user_id, "export_id": gone["_id"]})
        doc: Doc = {
            "_id": new.id,
            "user_id": Int64(new.user_id),
            "state": new.state.value,
            "asked": new.asked,
            "touched": new.asked,
            "expires": new.expires,
            "tries": 0,
        }
        try:
            self._exports.get(new.user_id).insert_one(doc)
        except DuplicateKeyError:
            return False
        return True

    @translate_errors
    def begin(self, user_id: int, now: dt.datetime) -> PersonalExport | None:
        """Begin a run of a user's export, which ends earlier runs; None: no export is wanted."""
        doc = self._exports.get(user_id).find_one_and_update(
            {"user_id": user_id, "state": _MAKING},
            {"$set": {"touched": now}, "$inc": {"tries": 1}},
            return_document=ReturnDocument.AFTER,
        )
        return _export(doc) if doc else None

    @translate_errors
    def touch(self, export: PersonalExport, now: dt.datetime) -> bool:
        """Record a heartbeat; return False if this run doesn't own the export anymore."""
        return bool(
            self._exports.get(export.user_id)
            .update_one(_of_run(export), {"$set": {"touched": now}})
            .matched_count
        )

    @translate_errors
    def save_result(self, export: PersonalExport) -> bool:
        """Store the result; return False if this run doesn't own the export anymore."""
        changes: Doc = {"state": export.state.value, "expires": export.expires, "too_large": export.too_large}
        if export.state is ExportState.READY:
            changes |= {"ready": export.ready, "size": Int64(export.size), "parts": export.parts}
        return bool(
            self._exports.get(export.user_id).update_one(_of_run(export), {"$set": changes}).matched_count
        )

    @translate_errors
    def find_stalled(self, since: dt.datetime, limit: int) -> list[int]:
        """Return the users whose exports are unfinished, without a heartbeat since a time."""
        query = {"state": _MAKING, "touched": {"$lt": since}}

        def _read_cell(exports: Collection[Doc]) -> list[int]:
            found = exports.find(query, {"user_id": 1}).sort("touched").limit(limit).hint("making")
            return [doc["user_id"] for doc in found]

        return list(itertools.chain(*self._exports.read_each(_read_cell)))[:limit]

    # -- parts

    @translate_errors
    def add_part(self, export: PersonalExport, number: int, data: bytes, expires: dt.datetime) -> None:
        """Store a part; ``number`` counts from 0."""
        doc: Doc = {
            "user_id": Int64(export.user_id),
            "export_id": export.id,
            "try": export.tries,
            "part": number,
            "data": Binary(data),
            "expires": expires,
        }
        self._parts.get(export.user_id).insert_one(doc)

    @translate_errors
    def find_part(self, export: PersonalExport, number: int) -> bytes | None:
        """Return a part, or None if it is gone."""
        doc = self._parts.get(export.user_id).find_one(
            {**_parts_of(export), "try": export.tries, "part": number}, {"data": 1}
        )
        return bytes(doc["data"]) if doc else None

    @translate_errors
    def drop_parts(self, export: PersonalExport, *, before: bool = False) -> None:
        """Delete the parts of this attempt, or with ``before`` those of all earlier attempts."""
        number = {"$lt": export.tries} if before else export.tries
        self._parts.get(export.user_id).delete_many({**_parts_of(export), "try": number})


def _of_run(one: PersonalExport) -> Doc:
    return {"_id": one.id, "user_id": one.user_id, "state": _MAKING, "tries": one.tries}


def _parts_of(one: PersonalExport) -> Doc:
    return {"user_id": one.user_id, "export_id": one.id}


def _export(doc: Doc) -> PersonalExport:
    return PersonalExport(
        id=doc["_id"],
        user_id=doc["user_id"],
        state=ExportState(doc["state"]),
        asked=doc["asked"],
        expires=doc["expires"],
        tries=doc["tries"],
        ready=doc.get("ready"),
        size=doc.get("size", 0),
        parts=doc.get("parts", 0),
        too_large=doc.get("too_large", False),
    )
