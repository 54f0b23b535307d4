"""Imports: ``imports`` holds one document each, ``import_parts`` its outlines, ``import_slots`` who may run.

Twenty thousand outlines do not fit into one document, and a change would write it anew: so a part holds
:data:`PART` of them, and a change names its place (``items.17.s``).
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pymongo import DESCENDING, ReturnDocument, UpdateOne
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError

from app.mappers.mongo import ids
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Session
from app.models.imports.imports import (
    ACTIVE,
    ActiveImport,
    Import,
    ImportFolder,
    ImportItem,
    ImportState,
    ItemChange,
    ItemState,
)

PART = 250
_ACTIVE = [state.value for state in ACTIVE]
_PLAIN = (
    *("user_id", "name", "created", "title", "keep_folders", "into", "note", "counts", "goal"),
    *("failed_before", "started", "touched", "ended", "run", "tries"),
)
#: All but the folders, of which there may be a thousand.
_HEAD = dict.fromkeys((*_PLAIN, "state"), 1)


class ImportMapper:
    """Document ↔ :class:`Import` and :class:`ImportItem`. Every query of a user's carries ``user_id``."""

    def __init__(self, database: Database[Doc]) -> None:
        self._imports: Collection[Doc] = database["imports"]
        self._parts: Collection[Doc] = database["import_parts"]
        self._slots: Collection[Doc] = database["import_slots"]

    @translate_errors
    def add(self, new: Import, items: Sequence[ImportItem], expires: dt.datetime) -> Import:
        """Store an import that was not started; its id is made here. It goes by itself at ``expires``.

        The outlines come first: an import that is there is there as a whole.
        """
        doc: Doc = {name: getattr(new, name) for name in _PLAIN}
        doc |= {
            "state": new.state.value,
            "counts": dict(new.counts),
            "folders": [[folder.name, folder.parent] for folder in new.folders],
            "empty": list(new.empty),
            "expires": expires,
        }
        while True:
            doc["_id"] = ids.reserve_ids()
            parts = _parts(doc, items)
            try:
                if parts:
                    self._parts.insert_many(parts)
                self._imports.insert_one(doc)
                return _import(doc)
            except BulkWriteError as e:
                # The same user's; the first part told, so that none of these was stored.
                if any(error["code"] != 11000 for error in e.details["writeErrors"]):
                    raise
            except DuplicateKeyError:
                self._parts.delete_many({"_id": {"$in": [part["_id"] for part in parts]}})

    @translate_errors
    def find(self, user_id: int, import_id: int, session: Session | None = None) -> Import | None:
        """Return a user's import."""
        doc = self._imports.find_one({"_id": import_id, "user_id": user_id}, session=session)
        return _import(doc) if doc else None

    @translate_errors
    def find_by_user(self, user_id: int, limit: int) -> list[Import]:
        """Return a user's newest imports, without their folders."""
        found = self._imports.find({"user_id": user_id}, _HEAD).sort("created", DESCENDING).limit(limit)
        return [_import(doc) for doc in found]

    @translate_errors
    def find_active_by_user(self, user_id: int) -> Import | None:
        """Return the newest import of a user that runs or waits for its turn, without its folders."""
        query = {"user_id": user_id, "state": {"$in": _ACTIVE}}
        doc = self._imports.find_one(query, _HEAD, sort=[("created", DESCENDING)])
        return _import(doc) if doc else None

    @translate_errors
    def find_items(
        self,
        user_id: int,
        import_id: int,
        first: int = 0,
        count: int | None = None,
        session: Session | None = None,
    ) -> list[ImportItem]:
        """Return outlines in their order, from ``first`` on."""
        wanted: Doc = {"$gte": first // PART}
        if count is not None:
            wanted["$lte"] = (first + count - 1) // PART
        query = {"user_id": user_id, "import_id": import_id, "part": wanted}
        found = self._parts.find(query, session=session).sort("part", 1)
        end = None if count is None else first + count
        return [item for item in _items(found) if first <= item.index and (end is None or item.index < end)]

    @translate_errors
    def update_items(
        self,
        user_id: int,
        import_id: int,
        changes: Mapping[int, ItemChange],
        session: Session | None = None,
    ) -> None:
        """Set what has become of outlines, by their index."""
        sets: dict[int, Doc] = defaultdict(dict)
        for index, change in changes.items():
            place = f"items.{index % PART}"
            values = {"s": change.state.value, "e": change.error, "i": change.feed_id}
            sets[index // PART] |= {f"{place}.{name}": value for name, value in values.items()}
        writes = [
            UpdateOne({"user_id": user_id, "import_id": import_id, "part": part}, {"$set": values})
            for part, values in sets.items()
        ]
        if writes:
            self._parts.bulk_write(writes, ordered=False, session=session)

    @translate_errors
    def update(
        self,
        user_id: int,
        import_id: int,
        states: Sequence[ImportState],
        values: Mapping[str, Any],
        *,
        run: str | None = None,
        begin: bool = False,
        session: Session | None = None,
    ) -> Import | None:
        """Set fields of an import that is in one of these states; None: it is not.

        Args:
            run: who works on it must still be this one.
            begin: count one more that began to work on it.
        """
        query: Doc = {"_id": import_id, "user_id": user_id, "state": {"$in": [s.value for s in states]}}
        if run is not None:
            query["run"] = run
        update: Doc = {"$set": dict(values)}
        if begin:
            update["$inc"] = {"tries": 1}
        doc = self._imports.find_one_and_update(
            query, update, return_document=ReturnDocument.AFTER, session=session
        )
        return _import(doc) if doc else None

    @translate_errors
    def set_expiry(
        self, user_id: int, import_id: int, expires: dt.datetime | None, session: Session | None = None
    ) -> None:
        """Let an import go at ``expires``, or never by itself."""
        update = {"$set": {"expires": expires}}
        self._parts.update_many({"user_id": user_id, "import_id": import_id}, update, session=session)
        self._imports.update_one({"_id": import_id, "user_id": user_id}, update, session=session)

    @translate_errors
    def remove(self, user_id: int, import_id: int) -> bool:
        """Forget an import; False: it runs or waits for its turn."""
        query = {"_id": import_id, "user_id": user_id, "state": {"$nin": _ACTIVE}}
        if not self._imports.delete_one(query).deleted_count:
            return False
        self._parts.delete_many({"user_id": user_id, "import_id": import_id})
        return True

    # -- whose turn it is

    @translate_errors
    def find_active(self, limit: int) -> list[ActiveImport]:
        """Return imports that run or wait for their turn, the longest waiting first; of all users."""
        query = {"state": {"$in": _ACTIVE}}
        found = self._imports.find(query, {"user_id": 1, "touched": 1}).sort("queued", 1).limit(limit)
        return [ActiveImport(doc["_id"], doc["user_id"], doc.get("touched")) for doc in found]

    @translate_errors
    def claim_slot(self, import_id: int, slot_count: int) -> bool:
        """Give an import one of so many places at which imports run; it may have one already."""
        taken = self.find_slots()
        if import_id in taken.values():
            return True
        for place in range(slot_count):
            if place not in taken:
                try:
                    self._slots.insert_one({"_id": place, "import_id": import_id})
                except DuplicateKeyError:
                    continue
                return True
        return False

    @translate_errors
    def find_slots(self) -> dict[int, int]:
        """Return place → import."""
        return {doc["_id"]: doc["import_id"] for doc in self._slots.find({"_id": {"$gte": 0}})}

    @translate_errors
    def release_slots(self, import_ids: Sequence[int]) -> None:
        """Let others have the places of these imports."""
        for place, import_id in self.find_slots().items():
            if import_id in import_ids:
                self._slots.delete_one({"_id": place, "import_id": import_id})


def _parts(doc: Doc, items: Sequence[ImportItem]) -> list[Doc]:
    return [
        {
            "user_id": doc["user_id"],
            "import_id": doc["_id"],
            "part": number,
            "expires": doc["expires"],
            "items": [_of_item(item) for item in items[number * PART : (number + 1) * PART]],
        }
        for number in range(-(-len(items) // PART))
    ]


def _items(parts: Any) -> Iterator[ImportItem]:
    for part in parts:
        start = part["part"] * PART
        for number, doc in enumerate(part["items"]):
            yield ImportItem(
                start + number,
                doc["u"],
                doc["t"],
                tuple(doc["f"]),
                doc["l"],
                ItemState(doc["s"]),
                doc["e"],
                doc["i"],
            )


def _of_item(item: ImportItem) -> Doc:
    return {
        "u": item.url,
        "t": item.title,
        "f": list(item.folders),
        "l": item.line,
        "s": item.state.value,
        "e": item.error,
        "i": item.feed_id,
    }


def _import(doc: Doc) -> Import:
    return Import(
        id=doc["_id"],
        state=ImportState(doc["state"]),
        folders=tuple(ImportFolder(name, parent) for name, parent in doc.get("folders", ())),
        empty=tuple(doc.get("empty", ())),
        **{name: doc[name] for name in _PLAIN if name in doc},
    )
