"""Imports: the collections ``imports``, ``import_parts`` (outlines), ``import_marks`` (marked entries of an
archive) and ``import_slots`` (running imports).

Twenty thousand outlines don't fit into one document, and each change would rewrite it. So a part holds
:data:`PART` outlines, and a change names its place (``items.17.s``). Marked entries are stored in parts of
the same length. A part is deleted in the transaction that counts what became of it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pymongo import DESCENDING, ReturnDocument, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, DuplicateKeyError

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Part, Session
from app.mappers.mongo.together import Kept, ListRead
from app.models.cache import CacheKind
from app.models.imports.archives import MarkRow, Repeats, SavedEntry
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
from app.models.imports.pulls import Pull, PullKind
from app.models.reading.notes import Quote
from app.runtime import identity_map

PART = 250
#: Characters of texts after which a part of marked entries ends.
PART_BYTES = 1 << 20
#: Most characters of the detail of a failed outline.
DETAIL_MAX = 300
#: Number of the part that holds choices.
_CHOICES = -1
_ACTIVE = [state.value for state in ACTIVE]
_PLAIN = (
    *("user_id", "name", "created", "title", "keep_folders", "into", "note", "counts", "goal"),
    *("failed_before", "started", "touched", "ended", "run", "tries", "marks", "file_id", "choice_counts"),
    "choices_taken",
)
#: All fields except the folders, of which there may be a thousand.
_HEAD = dict.fromkeys((*_PLAIN, "state"), 1)


class ImportMapper:
    """Document ↔ :class:`Import` and :class:`ImportItem`. Every query for a user contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._imports = cells.get_table("imports")
        self._parts = cells.get_table("import_parts")
        self._marks = cells.get_table("import_marks")
        self._slots: Collection[Doc] = cells.home.database["import_slots"]

    @translate_errors
    def add(
        self,
        new: Import,
        items: Sequence[ImportItem],
        expires: dt.datetime,
        session: Session | None = None,
    ) -> Import:
        """Store a new import that expires at ``expires``; its id is assigned here.

        The outlines are stored first, so that an import is complete as soon as it exists.
        """
        doc: Doc = {name: getattr(new, name) for name in _PLAIN}
        doc |= {
            "state": new.state.value,
            "folders": [[folder.name, folder.parent] for folder in new.folders],
            "empty": list(new.empty),
            "expires": expires,
            "pull": _of_pull(new.pull) if new.pull else None,
        }
        while True:
            doc["_id"] = self._imports.reserve_id()
            parts = _parts(doc, items)
            imports = self._imports.get(new.user_id, session)
            # A duplicate would end a transaction, so it is looked for first.
            if session and imports.find_one({"_id": doc["_id"]}, {"_id": 1}, session=session):
                continue
            try:
                if parts:
                    self._parts.get(new.user_id, session).insert_many(parts, session=session)
                imports.insert_one(doc, session=session)
                return _import(doc)
            except BulkWriteError as e:
                # A duplicate id: the first part failed, so that no part was stored.
                if any(error["code"] != 11000 for error in e.details["writeErrors"]):
                    raise
            except DuplicateKeyError:
                if session:
                    raise
                self._parts.get(new.user_id).delete_many({"_id": {"$in": [part["_id"] for part in parts]}})

    @translate_errors
    def find(self, user_id: int, import_id: int, session: Session | None = None) -> Import | None:
        """Return a user's import."""

        def _fetch() -> Import | None:
            doc = self._imports.get(user_id, session).find_one(
                {"_id": import_id, "user_id": user_id}, session=session
            )
            return _import(doc) if doc else None

        key = user_id, import_id
        return _fetch() if session else identity_map.find_once("imports", "import", key, _fetch)

    @translate_errors
    def find_by_user(self, user_id: int, limit: int) -> list[Import]:
        """Return a user's newest imports, without their folders."""
        found = (
            self._imports.get(user_id)
            .find({"user_id": user_id}, _HEAD)
            .sort("created", DESCENDING)
            .limit(limit)
        )
        return [_import(doc) for doc in found]

    @translate_errors
    def find_active_by_user(self, user_id: int) -> Import | None:
        """Return the user's newest import that is running or queued, without its folders."""

        def _fetch() -> Import | None:
            query = {"user_id": user_id, "state": {"$in": _ACTIVE}}
            doc = self._imports.get(user_id).find_one(query, _HEAD, sort=[("created", DESCENDING)])
            return _import(doc) if doc else None

        return identity_map.find_once("imports", "active", user_id, _fetch)

    def plan_active_by_user(self, user_id: int) -> ListRead:
        """Return the read of :meth:`find_active_by_user`, to be sent with others."""
        pipeline: list[Doc] = [
            {"$match": {"user_id": user_id, "state": {"$in": _ACTIVE}}},
            {"$sort": {"created": -1}},
            {"$limit": 1},
            {"$project": _HEAD},
        ]
        part = Part(self._imports.get(user_id), pipeline, "user_created")
        kept = Kept(CacheKind.NO_IMPORT, user_id, is_fit=lambda docs: not docs)
        return ListRead(part, "active", user_id, lambda docs: _import(docs[0]) if docs else None, kept)

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
        found = self._parts.get(user_id, session).find(query, session=session).sort("part", 1)
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
        """Store the changes of outlines, by their index."""
        sets: dict[int, Doc] = defaultdict(dict)
        for index, change in changes.items():
            place = f"items.{index % PART}"
            values = {"s": change.state.value, "e": change.error, "i": change.feed_id}
            values["d"] = change.detail[:DETAIL_MAX]
            sets[index // PART] |= {f"{place}.{name}": value for name, value in values.items()}
        writes = [
            UpdateOne({"user_id": user_id, "import_id": import_id, "part": part}, {"$set": values})
            for part, values in sets.items()
        ]
        if writes:
            self._parts.get(user_id, session).bulk_write(writes, ordered=False, session=session)

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
        """Set fields of an import; return None if it isn't in one of these states.

        Args:
            run: only if this run still owns the import.
            begin: count one more run.
        """
        query: Doc = {"_id": import_id, "user_id": user_id, "state": {"$in": [s.value for s in states]}}
        if run is not None:
            query["run"] = run
        update: Doc = {"$set": dict(values)}
        if begin:
            update["$inc"] = {"tries": 1}
        doc = self._imports.get(user_id, session).find_one_and_update(
            query, update, return_document=ReturnDocument.AFTER, session=session
        )
        return _import(doc) if doc else None

    @translate_errors
    def set_expiry(
        self, user_id: int, import_id: int, expires: dt.datetime | None, session: Session | None = None
    ) -> None:
        """Set when an import expires; None: never."""
        update = {"$set": {"expires": expires}}
        for parts in (self._parts.get(user_id, session), self._marks.get(user_id, session)):
            parts.update_many({"user_id": user_id, "import_id": import_id}, update, session=session)
        self._imports.get(user_id, session).update_one(
            {"_id": import_id, "user_id": user_id}, update, session=session
        )

    @translate_errors
    def remove(self, user_id: int, import_id: int) -> bool:
        """Delete an import; return False if it is running or queued."""
        query = {"_id": import_id, "user_id": user_id, "state": {"$nin": _ACTIVE}}
        if not self._imports.get(user_id).delete_one(query).deleted_count:
            return False
        self.remove_parts(user_id, import_id)
        return True

    @translate_errors
    def remove_parts(self, user_id: int, import_id: int) -> None:
        """Delete all outlines, marks and pages of an import that is gone."""
        for parts in (self._parts.get(user_id), self._marks.get(user_id)):
            parts.delete_many({"user_id": user_id, "import_id": {"$in": [import_id, -import_id]}})

    # -- files that are being read

    @translate_errors
    def find_reading(self, limit: int) -> list[ActiveImport]:
        """Return the imports whose files are being read, longest waiting first."""
        return self._find_waiting({"state": ImportState.READING.value, "pull": None}, "created", limit)

    @translate_errors
    def find_pulling(self, limit: int) -> list[tuple[ActiveImport, dt.datetime]]:
        """Return the imports that read other servers, and when each is due, in no particular order."""
        query: Doc = {"state": ImportState.READING.value, "pull": {"$ne": None}}

        def _read_cell(imports: Collection[Doc]) -> list[Doc]:
            return list(imports.find(query, {"user_id": 1, "touched": 1, "pull.due": 1}).limit(limit))

        found = itertools.chain(*self._imports.read_each(_read_cell))
        return [
            (ActiveImport(doc["_id"], doc["user_id"], doc.get("touched")), doc["pull"]["due"])
            for doc in found
        ]

    @translate_errors
    def has_other_pull(self, user_id: int, import_id: int, since: dt.datetime) -> bool:
        """Return whether a run has read another server for a user since a time, and hasn't ended."""
        query: Doc = {
            "user_id": user_id,
            "_id": {"$ne": import_id},
            "state": ImportState.READING.value,
            "pull.run": {"$gt": ""},
            "touched": {"$gte": since},
        }
        return self._imports.get(user_id).find_one(query, {"_id": 1}) is not None

    @translate_errors
    def set_pull(
        self,
        one: Import,
        pull: Pull,
        values: Mapping[str, Any],
        *,
        run: str | None = None,
        begin: bool = False,
        session: Session | None = None,
    ) -> Import | None:
        """Store how far a pull is; return None if the import was deleted, has ended, or is another run's.

        Args:
            run: as in :meth:`update`: the run that must own the pull.
            begin: count one more run.
        """
        query: Doc = {"_id": one.id, "user_id": one.user_id, "state": ImportState.READING.value}
        query["pull"] = {"$ne": None}
        if run is not None:
            query["pull.run"] = run
        update: Doc = {"$set": {**values, "pull": _of_pull(pull)}}
        if begin:
            update["$inc"] = {"tries": 1}
        doc = self._imports.get(one.user_id, session).find_one_and_update(
            query, update, return_document=ReturnDocument.AFTER, session=session
        )
        return _import(doc) if doc else None

    @translate_errors
    def make_pull_due(self, user_id: int, import_id: int, now: dt.datetime) -> bool:
        """Make the next try of a pull due now; return False if it doesn't wait after a failed one, or if the
        server asked to wait for longer.

        The try replaces the failed one, so it brings the import no closer to its last.
        """
        query: Doc = {
            "_id": import_id,
            "user_id": user_id,
            "state": ImportState.READING.value,
            "pull.run": "",
            "pull.problem": {"$gt": ""},
            "pull.due": {"$gt": now},
            "pull.asked_until": {"$not": {"$gt": now}},
        }
        update: Doc = {"$set": {"pull.due": now}, "$inc": {"pull.failures": -1}}
        return self._imports.get(user_id).update_one(query, update).modified_count > 0

    @translate_errors
    def remove_pull(self, user_id: int, import_id: int, session: Session) -> bool:
        """Delete an import whose server failed to answer at the last try, with its login; others stay.

        What it has stored stays until :meth:`remove_parts`, or until it expires.

        Returns:
            Whether there was one.
        """
        query: Doc = {
            "_id": import_id,
            "user_id": user_id,
            "state": ImportState.READING.value,
            "pull.problem": {"$gt": ""},
        }
        return self._imports.get(user_id, session).delete_one(query, session=session).deleted_count > 0

    @translate_errors
    def add_pulled(
        self, one: Import, number: int, entries: Sequence[SavedEntry], expires: dt.datetime, session: Session
    ) -> None:
        """Store a page of entries as another server names them.

        Their marks aren't those of the import yet, so they are stored under its negative number.
        """
        shared = {"user_id": one.user_id, "import_id": -one.id, "expires": expires}
        parts = [
            {**shared, "part": number * PART_BYTES + place, "rows": rows}
            for place, rows in enumerate(_split_marks(MarkRow("", entry) for entry in entries))
        ]
        if parts:
            self._marks.get(one.user_id, session).insert_many(parts, session=session)

    @translate_errors
    def iter_pulled(self, one: Import) -> Iterator[SavedEntry]:
        """Yield the entries of all stored pages, in their order."""
        query = {"user_id": one.user_id, "import_id": -one.id}
        for doc in self._marks.get(one.user_id).find(query, {"rows": 1}).sort("part", 1):
            yield from (_mark(row).entry for row in doc["rows"])

    @translate_errors
    def remove_pulled(self, one: Import) -> None:
        """Delete the stored pages of entries."""
        self._marks.get(one.user_id).delete_many({"user_id": one.user_id, "import_id": -one.id})

    def _find_waiting(self, query: Doc, since: str, limit: int) -> list[ActiveImport]:
        """Return imports of all cells, longest waiting first; a cell that isn't responding is left out."""

        def _read_cell(imports: Collection[Doc]) -> list[Doc]:
            return list(
                imports.find(query, {"user_id": 1, "touched": 1, since: 1}).sort(since, 1).limit(limit)
            )

        found = list(itertools.chain(*self._imports.read_each(_read_cell)))
        if self._imports.is_spread:
            found.sort(key=lambda doc: (since in doc, doc.get(since)))
        return [ActiveImport(doc["_id"], doc["user_id"], doc.get("touched")) for doc in found[:limit]]

    @translate_errors
    def find_unended(self, import_ids: Sequence[int], before: dt.datetime) -> set[int]:
        """Return which of these imports exist and haven't ended before a moment."""
        query: Doc = {"_id": {"$in": list(import_ids)}, "$nor": [{"ended": {"$lt": before}}]}
        found: set[int] = set()
        for imports in self._imports.iterate_tables():
            found |= {doc["_id"] for doc in imports.find(query, {"_id": 1})}
        return found

    @translate_errors
    def put_contents(
        self,
        one: Import,
        read: Import,
        items: Sequence[ImportItem],
        marks: Sequence[MarkRow],
        expires: dt.datetime,
        *,
        choices: str = "",
        run: str | None = None,
    ) -> Import | None:
        """Store what was in the file of an import: it becomes a preview. Return None if it was deleted.

        Args:
            choices: as :meth:`put_choices` stores them.
            run: the run that owns the pull, if it was another server; its login is deleted.

        The outlines and marks are stored first. A run that died has stored some of them.
        """
        key = {"user_id": one.user_id, "import_id": one.id}
        tables = [parts.get(one.user_id) for parts in (self._parts, self._marks)]
        for parts in tables:
            parts.delete_many(key)
        docs = _parts({"user_id": one.user_id, "_id": one.id, "expires": expires}, items)
        if docs:
            tables[0].insert_many(docs)
        self.add_marks(one.user_id, one.id, marks, expires)
        self.put_choices(one.user_id, one.id, choices, expires)
        values = {
            "title": read.title,
            "note": read.note,
            "counts": dict(read.counts),
            "marks": dict(read.marks),
            "choice_counts": dict(read.choice_counts),
            "folders": [[folder.name, folder.parent] for folder in read.folders],
            "empty": list(read.empty),
            "state": ImportState.PREVIEW.value,
            "expires": expires,
            "tries": 0,
            "file_id": None,
            "pull": None,
        }
        if run is None:
            found = self.update(one.user_id, one.id, (ImportState.READING,), values)
        else:
            found = self.end_pull(one, values, run)
        if found is None:
            for parts in tables:
                parts.delete_many(key)
        return found

    @translate_errors
    def end_pull(self, one: Import, values: Mapping[str, Any], run: str) -> Import | None:
        """Set fields of an import and delete its login; return None if the pull is another run's."""
        query = {"_id": one.id, "user_id": one.user_id, "state": ImportState.READING.value, "pull.run": run}
        doc = self._imports.get(one.user_id).find_one_and_update(
            query, {"$set": {**values, "pull": None}}, return_document=ReturnDocument.AFTER
        )
        return _import(doc) if doc else None

    # -- marked entries

    @translate_errors
    def add_marks(self, user_id: int, import_id: int, rows: Sequence[MarkRow], expires: dt.datetime) -> None:
        """Store the marked entries of an archive, in their order."""
        shared = {"user_id": user_id, "import_id": import_id, "expires": expires}
        parts = [{**shared, "part": number, "rows": some} for number, some in enumerate(_split_marks(rows))]
        if parts:
            self._marks.get(user_id).insert_many(parts)

    @translate_errors
    def find_first_marks(self, user_id: int, import_id: int) -> tuple[int, list[MarkRow]] | None:
        """Return the number and the rows of the first part that isn't deleted; None: there is none."""
        query = {"user_id": user_id, "import_id": import_id}
        doc = self._marks.get(user_id).find_one(query, {"part": 1, "rows": 1}, sort=[("part", 1)])
        return (doc["part"], [_mark(row) for row in doc["rows"]]) if doc else None

    @translate_errors
    def remove_marks(self, user_id: int, import_id: int, part: int, session: Session) -> bool:
        """Delete a part of marked entries; return False if it is gone."""
        query = {"user_id": user_id, "import_id": import_id, "part": part}
        return bool(self._marks.get(user_id, session).delete_one(query, session=session).deleted_count)

    # -- choices: a part of their own beside the outlines, as they may be megabytes

    @translate_errors
    def put_choices(self, user_id: int, import_id: int, choices: str, expires: dt.datetime) -> None:
        """Store the choices in an archive, as JSON; empty: none."""
        if choices:
            key = {"user_id": user_id, "import_id": import_id, "part": _CHOICES}
            self._parts.get(user_id).insert_one({**key, "expires": expires, "choices": choices})

    @translate_errors
    def find_choices(self, user_id: int, import_id: int) -> str:
        """Return the choices in an archive as JSON; empty: there are none, or none anymore."""
        query = {"user_id": user_id, "import_id": import_id, "part": _CHOICES}
        doc = self._parts.get(user_id).find_one(query, {"choices": 1})
        return str(doc["choices"]) if doc else ""

    @translate_errors
    def remove_choices(self, user_id: int, import_id: int, session: Session) -> None:
        """Delete the choices in an archive."""
        query = {"user_id": user_id, "import_id": import_id, "part": _CHOICES}
        self._parts.get(user_id, session).delete_one(query, session=session)

    # -- taking turns

    @translate_errors
    def find_active(self, limit: int) -> list[ActiveImport]:
        """Return running and queued imports of all users, longest waiting first."""
        return self._find_waiting({"state": {"$in": _ACTIVE}}, "queued", limit)

    @translate_errors
    def claim_slot(self, import_id: int, slot_count: int) -> bool:
        """Claim one of ``slot_count`` slots for an import, unless it already has one."""
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
        """Return slot → import id."""
        return {doc["_id"]: doc["import_id"] for doc in self._slots.find({"_id": {"$gte": 0}})}

    @translate_errors
    def release_slots(self, import_ids: Sequence[int]) -> None:
        """Release the slots of these imports."""
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
                doc.get("d", ""),
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
        "d": item.detail[:DETAIL_MAX],
    }


def _split_marks(rows: Iterable[MarkRow]) -> Iterator[list[Doc]]:
    """Yield rows in parts of at most :data:`PART` rows and about :data:`PART_BYTES` of texts."""
    part, size = list[Doc](), 0
    for row in rows:
        part.append(_of_mark(row))
        size += row.entry.size
        if len(part) >= PART or size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _of_mark(row: MarkRow) -> Doc:
    entry = row.entry
    found = {
        "f": row.feed,
        "g": entry.guid,
        "l": entry.link,
        "s": entry.starred,
        "r": entry.read,
        "t": list(entry.tags),
        "n": entry.title,
        "a": entry.at,
        "u": entry.feed_url,
        "c": entry.feed_title,
        "o": entry.note,
        "q": [list(quote) for quote in entry.quotes],
        "h": entry.html,
        "i": entry.hidden,
        "x": int(entry.repeats),
    }
    return {name: value for name, value in found.items() if value not in ("", False, [], None) or name == "r"}


def _mark(doc: Doc) -> MarkRow:
    return MarkRow(
        doc.get("f", ""),
        SavedEntry(
            guid=doc.get("g", ""),
            link=doc.get("l", ""),
            starred=doc.get("s", False),
            read=doc.get("r"),
            tags=tuple(doc.get("t", ())),
            title=doc.get("n", ""),
            at=doc.get("a"),
            feed_url=doc.get("u", ""),
            feed_title=doc.get("c", ""),
            note=doc.get("o", ""),
            quotes=tuple(Quote(*row) for row in doc.get("q", ())),
            html=doc.get("h", ""),
            hidden=doc.get("i", False),
            repeats=Repeats(doc.get("x", 0)),
        ),
    )


def _of_pull(pull: Pull) -> Doc:
    return {**dataclasses.asdict(pull), "kind": pull.kind.value}


def _pull(doc: Doc) -> Pull:
    return Pull(**{**doc, "kind": PullKind(doc["kind"]), "done": tuple(doc.get("done", ()))})


def _import(doc: Doc) -> Import:
    return Import(
        id=doc["_id"],
        state=ImportState(doc["state"]),
        folders=tuple(ImportFolder(name, parent) for name, parent in doc.get("folders", ())),
        empty=tuple(doc.get("empty", ())),
        fault=tuple(doc["fault"]) if doc.get("fault") else None,
        choice_kinds=tuple(doc.get("choice_kinds", ())),
        pull=_pull(doc["pull"]) if doc.get("pull") else None,
        server=(PullKind(doc["server"][0]), doc["server"][1]) if doc.get("server") else None,
        **{name: doc[name] for name in _PLAIN if name in doc},
    )
