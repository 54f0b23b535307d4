"""Marks: the collection ``marks``, one document per user and entry that is starred, tagged, noted or liked.

    {user_id, entry_id, feed_id, starred_at?, tags?, tagged_at?, noted_at?, note?, liked_at?}

A document holds one or more marks, and is deleted with the last one. Stars, tags and notes are counted in the
entry and keep it from retention; likes don't. All of them keep a feed that nobody reads.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence

from pymongo.errors import BulkWriteError, DuplicateKeyError

from app.errors import ConflictError, ExistsError
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import BATCH, DUPLICATE_KEY, Doc, Session, find_and_update
from app.mappers.reading.entry_keys import TimeRange, to_millis
from app.models.reading.entry import EntryKey
from app.models.reading.notes import PAGE_BYTES, Color, Note, NotePreview, Quote
from app.models.reading.tag import Mark
from app.runtime import identity_map

_KEY = {"_id": 0, "entry_id": 1, "feed_id": 1, "starred_at": 1}
_TAGGED = {"_id": 0, "entry_id": 1, "feed_id": 1, "tagged_at": 1}
_LIKED = {"_id": 0, "entry_id": 1, "feed_id": 1, "liked_at": 1}
_NOTED = {"_id": 0, "entry_id": 1, "feed_id": 1, "noted_at": 1}
_NOTE = {**_NOTED, "note": 1}
#: Characters of a passage, and of a person's own words, for a list.
_SHOWN = 300
_QUOTES: Doc = {"$ifNull": ["$note.quotes", []]}
_TEXTS: Doc = {
    "$filter": {
        "input": {"$concatArrays": [["$note.text"], {"$ifNull": ["$note.quotes.note", []]}]},
        "cond": {"$gt": ["$$this", ""]},
    }
}
_PREVIEW: Doc = {
    "_id": 0,
    "entry_id": 1,
    "quote": {"$substrCP": [{"$ifNull": [{"$first": "$note.quotes.exact"}, ""]}, 0, _SHOWN]},
    "color": {"$ifNull": [{"$first": "$note.quotes.color"}, Color.YELLOW.value]},
    "quotes": {"$size": _QUOTES},
    "text": {"$substrCP": [{"$ifNull": [{"$first": _TEXTS}, ""]}, 0, _SHOWN]},
    "texts": {"$size": _TEXTS},
    "at": "$noted_at",
}
_MARK: Doc = dict.fromkeys(("entry_id", "feed_id", "starred_at", "tags", "tagged_at", "noted_at"), 1)
_MARK |= {"liked_at": 1, "_id": 0}
#: Notes that are read at once.
_NOTES = 20
#: The fields of marks that keep an entry, and the conditions for them.
_KEEPING = ("starred_at", "tags", "noted_at")
KEEPING: list[Doc] = [
    {"starred_at": {"$type": "date"}},
    {"tags": {"$exists": True}},
    {"noted_at": {"$type": "date"}},
]


class MarkMapper:
    """Document ↔ star, tags and like. Every query contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._marks = cells.get_table("marks")

    @translate_errors
    def star(self, user_id: int, entry: EntryKey, at: dt.datetime, session: Session) -> bool:
        """Store a star; return whether it is the user's first mark that keeps the entry.

        Raises:
            ExistsError: the entry is already starred; the transaction has ended.
        """
        query = {"user_id": user_id, "entry_id": entry.id, "starred_at": None}
        update = {"$set": {"starred_at": at}, "$setOnInsert": {"feed_id": entry.feed_id}}
        try:
            was = find_and_update(self._marks.get(user_id, session), query, update, session, upsert=True)
        except DuplicateKeyError as e:
            raise ExistsError(entry_id=entry.id) from e
        return was is None or not _is_kept(was)

    @translate_errors
    def unstar(self, user_id: int, entry_id: int, session: Session) -> bool | None:
        """Delete a star; return whether no mark that keeps the entry is left; None: there was no star."""
        query = {"user_id": user_id, "entry_id": entry_id, "starred_at": {"$type": "date"}}
        alone = {**query, "tags": None, "noted_at": None, "liked_at": None}
        if self._marks.get(user_id, session).delete_one(alone, session=session).deleted_count:
            return True
        was = find_and_update(
            self._marks.get(user_id, session), query, {"$unset": {"starred_at": ""}}, session
        )
        return not _is_kept(was, "starred_at") if was else None

    @translate_errors
    def star_many(
        self, user_id: int, entries: Sequence[EntryKey], at: dt.datetime, session: Session
    ) -> tuple[list[EntryKey], list[EntryKey]]:
        """Store the stars of many entries.

        Returns:
            Those of which it is the first mark that keeps them, and those that had no star.

        Raises:
            ConflictError: an entry was marked elsewhere at the same time; the transaction has ended.
        """
        known = self._find(user_id, [entry.id for entry in entries], session)
        fresh = [e for e in entries if e.id not in known]
        more = [e for e in entries if e.id in known and "starred_at" not in known[e.id]]
        shared = {"user_id": user_id, "starred_at": at}
        try:
            if fresh:
                rows = [{**shared, "entry_id": e.id, "feed_id": e.feed_id} for e in fresh]
                self._marks.get(user_id, session).insert_many(rows, session=session)
            if more:
                query = {"user_id": user_id, "entry_id": {"$in": [e.id for e in more]}}
                self._marks.get(user_id, session).update_many(
                    query, {"$set": {"starred_at": at}}, session=session
                )
        except BulkWriteError as e:
            if e.has_error_label("TransientTransactionError"):
                raise
            raise ConflictError(user_id=user_id) from e
        kept = [*fresh, *(e for e in more if not _is_kept(known[e.id]))]
        return kept, [*fresh, *more]

    @translate_errors
    def unstar_many(self, user_id: int, entry_ids: Sequence[int], session: Session) -> list[EntryKey]:
        """Delete the stars of many entries; return those of which no mark that keeps them is left."""
        known = self._find(user_id, entry_ids, session)
        starred = {i: doc for i, doc in known.items() if "starred_at" in doc}
        alone = [i for i, doc in starred.items() if _is_last(doc, "starred_at")]
        more = [i for i in starred if i not in set(alone)]
        query: Doc = {"user_id": user_id, "entry_id": {"$in": alone}}
        if alone:
            self._marks.get(user_id, session).delete_many(query, session=session)
        if more:
            query = {"user_id": user_id, "entry_id": {"$in": more}}
            self._marks.get(user_id, session).update_many(
                query, {"$unset": {"starred_at": ""}}, session=session
            )
        gone = (i for i, doc in starred.items() if not _is_kept(doc, "starred_at"))
        return [EntryKey(i, starred[i]["feed_id"], 0, 0) for i in gone]

    @translate_errors
    def like(self, user_id: int, entry: EntryKey, at: dt.datetime) -> bool:
        """Store a like of an entry; return False if there already is one."""
        query = {"user_id": user_id, "entry_id": entry.id, "liked_at": None}
        update = {"$set": {"liked_at": at}, "$setOnInsert": {"feed_id": entry.feed_id}}
        for last in (False, True):
            try:
                self._marks.get(user_id).update_one(query, update, upsert=True)
            except DuplicateKeyError:
                if last:
                    return False
                continue  # already liked, or being marked by another request
            return True
        return False

    @translate_errors
    def unlike(self, user_id: int, entry_id: int) -> bool:
        """Delete a like of an entry; return False if there is none."""
        query = {"user_id": user_id, "entry_id": entry_id, "liked_at": {"$type": "date"}}
        alone = {**query, "starred_at": None, "tags": None, "noted_at": None}
        if self._marks.get(user_id).delete_one(alone).deleted_count:
            return True
        return bool(self._marks.get(user_id).update_one(query, {"$unset": {"liked_at": ""}}).matched_count)

    @translate_errors
    def like_many(self, user_id: int, entries: Sequence[EntryKey], at: dt.datetime) -> None:
        """Store likes of many entries; those that have one keep it."""
        known = self._find(user_id, [entry.id for entry in entries])
        fresh = [e for e in entries if e.id not in known]
        others = any("liked_at" not in doc for doc in known.values())
        if fresh:
            rows = [
                {"user_id": user_id, "entry_id": e.id, "feed_id": e.feed_id, "liked_at": at} for e in fresh
            ]
            try:
                self._marks.get(user_id).insert_many(rows, ordered=False)
            except BulkWriteError as e:
                refused = any(error["code"] != DUPLICATE_KEY for error in e.details["writeErrors"])
                if refused or e.details.get("writeConcernErrors"):
                    raise
                others = True  # marked by another request meanwhile
        if others:
            query = {"user_id": user_id, "entry_id": {"$in": [e.id for e in entries]}, "liked_at": None}
            self._marks.get(user_id).update_many(query, {"$set": {"liked_at": at}})

    @translate_errors
    def unlike_many(self, user_id: int, entry_ids: Sequence[int]) -> None:
        """Delete the likes of many entries."""
        query = {"user_id": user_id, "entry_id": {"$in": list(entry_ids)}, "liked_at": {"$type": "date"}}
        self._marks.get(user_id).delete_many({**query, "starred_at": None, "tags": None, "noted_at": None})
        self._marks.get(user_id).update_many(query, {"$unset": {"liked_at": ""}})

    @translate_errors
    def find_liked(self, user_id: int, entry_ids: Sequence[int]) -> set[int]:
        """Return which of these entries the user likes."""
        return {i for i, doc in self._find(user_id, entry_ids).items() if "liked_at" in doc}

    def _find(self, user_id: int, entry_ids: Sequence[int], session: Session | None = None) -> dict[int, Doc]:
        """Return the documents of the entries that have any mark, by entry id."""

        def _fetch(missing: Sequence[int]) -> dict[int, Doc]:
            query = {"user_id": user_id, "entry_id": {"$in": list(missing)}}
            found = self._marks.get(user_id, session).find(query, _MARK, session=session, batch_size=BATCH)
            return {d["entry_id"]: d for d in found}

        if session is not None:
            return _fetch(entry_ids)
        return identity_map.find_each("marks", f"of {user_id}", entry_ids, _fetch)

    @translate_errors
    def find_liked_keys(self, user_id: int, limit: int) -> list[EntryKey]:
        """Return keys of liked entries, latest like first; ``at`` is the time of the like, ``seq`` 0."""
        found = self._marks.get(user_id).find({"user_id": user_id, "liked_at": {"$type": "date"}}, _LIKED)
        found = found.sort("liked_at", -1).limit(limit).hint("liked")
        return [EntryKey(d["entry_id"], d["feed_id"], 0, to_millis(d["liked_at"])) for d in found]

    @translate_errors
    def set_tags(
        self, user_id: int, entry: EntryKey, tags: Sequence[int], at: dt.datetime, session: Session
    ) -> bool:
        """Store all tags of an entry, at least one; return whether they are the first mark that keeps it.

        Raises:
            ConflictError: the entry was marked elsewhere at the same time; the transaction has ended.
        """
        query = {"user_id": user_id, "entry_id": entry.id}
        try:
            tagged = {
                "feed_id": entry.feed_id,
                "tags": {"$literal": list(tags)},
                "tagged_at": {"$ifNull": ["$tagged_at", at]},
            }
            was = find_and_update(
                self._marks.get(user_id, session), query, [{"$set": tagged}], session, upsert=True
            )
        except DuplicateKeyError as e:
            raise ConflictError(entry_id=entry.id) from e
        return was is None or not _is_kept(was)

    @translate_errors
    def remove_tags(self, user_id: int, entry_id: int, session: Session) -> bool:
        """Delete all tags of an entry; return whether no mark that keeps the entry is left."""
        query = {"user_id": user_id, "entry_id": entry_id}
        alone = {**query, "starred_at": None, "noted_at": None, "liked_at": None}
        if self._marks.get(user_id, session).delete_one(alone, session=session).deleted_count:
            return True
        gone = {"$unset": {"tags": "", "tagged_at": ""}}
        was = find_and_update(self._marks.get(user_id, session), query, gone, session)
        return was is not None and "tags" in was and not _is_kept(was, "tags")

    @translate_errors
    def tag_many(
        self, user_id: int, entries: Sequence[EntryKey], tag: int, at: dt.datetime, session: Session
    ) -> list[EntryKey]:
        """Add a tag to many entries without it; return those of which it is the first mark that keeps them.

        Raises:
            ConflictError: an entry was marked elsewhere at the same time; the transaction has ended.
        """
        known = self._find(user_id, [entry.id for entry in entries], session)
        fresh = [e for e in entries if e.id not in known]
        more = [e for e in entries if e.id in known]
        try:
            if fresh:
                shared = {"user_id": user_id, "tagged_at": at}
                rows = [{**shared, "tags": [tag], "entry_id": e.id, "feed_id": e.feed_id} for e in fresh]
                self._marks.get(user_id, session).insert_many(rows, session=session)
            if more:
                query = {"user_id": user_id, "entry_id": {"$in": [e.id for e in more]}}
                tags = {"$concatArrays": [{"$ifNull": ["$tags", []]}, [tag]]}
                change = {"tags": tags, "tagged_at": {"$ifNull": ["$tagged_at", at]}}
                self._marks.get(user_id, session).update_many(query, [{"$set": change}], session=session)
        except BulkWriteError as e:
            if e.has_error_label("TransientTransactionError"):
                raise
            raise ConflictError(user_id=user_id) from e
        return [*fresh, *(e for e in more if not _is_kept(known[e.id]))]

    @translate_errors
    def untag_many(
        self, user_id: int, entry_ids: Sequence[int], tag: int, session: Session
    ) -> tuple[int, list[EntryKey]]:
        """Remove a tag from many entries.

        Returns:
            How many had it, and those of which no mark that keeps them is left.
        """
        known = self._find(user_id, entry_ids, session)
        tagged = {i: doc for i, doc in known.items() if tag in (doc.get("tags") or ())}
        last = {i: doc for i, doc in tagged.items() if set(doc["tags"]) == {tag}}
        alone = [i for i, doc in last.items() if _is_last(doc, "tags")]
        marked = [i for i in last if i not in set(alone)]
        if alone:
            query: Doc = {"user_id": user_id, "entry_id": {"$in": alone}}
            self._marks.get(user_id, session).delete_many(query, session=session)
        if marked:
            query = {"user_id": user_id, "entry_id": {"$in": marked}}
            self._marks.get(user_id, session).update_many(
                query, {"$unset": {"tags": "", "tagged_at": ""}}, session=session
            )
        if len(last) < len(tagged):
            self.remove_tag(user_id, tag, [i for i in tagged if i not in last], session)
        left = [EntryKey(i, doc["feed_id"], 0, 0) for i, doc in last.items() if not _is_kept(doc, "tags")]
        return len(tagged), left

    @translate_errors
    def find_feed(self, user_id: int, entry_id: int) -> int | None:
        """Return the feed of an entry that the user has marked, or None."""
        doc = self._find(user_id, [entry_id]).get(entry_id)
        return int(doc["feed_id"]) if doc else None

    @translate_errors
    def find_marks(
        self, user_id: int, entry_ids: Sequence[int], session: Session | None = None
    ) -> dict[int, Mark]:
        """Return the marks of these entries, if any, by entry id."""
        return {i: _mark(doc) for i, doc in self._find(user_id, entry_ids, session).items()}

    @translate_errors
    def find_marked_keys(
        self,
        user_id: int,
        within: TimeRange,
        *,
        newest_first: bool,
        limit: int,
        tag: int | None = None,
        noted: bool = False,
    ) -> list[EntryKey]:
        """Return keys of entries with a star, a tag or (``noted``) a note, sorted by its time.

        That time, of the first tag or note, is the ``at`` of the keys; their ``seq`` is 0.
        """
        step, time = (-1 if newest_first else 1), "starred_at" if tag is None else "tagged_at"
        if noted:
            time = "noted_at"
        query: Doc = {"user_id": user_id, time: within.to_query().get("at") or {"$type": "date"}}
        if tag is not None:
            query["tags"] = tag
        shown = _NOTED if noted else _KEY if tag is None else _TAGGED
        found = (
            self._marks.get(user_id).find(query, shown).sort([(time, step), ("entry_id", step)]).limit(limit)
        )
        return [EntryKey(d["entry_id"], d["feed_id"], 0, to_millis(d[time])) for d in found]

    # -- notes

    @translate_errors
    def find_note(self, user_id: int, entry_id: int, session: Session | None = None) -> Note | None:
        """Return a user's note on an entry; None: there is none."""
        query = {"user_id": user_id, "entry_id": entry_id, "noted_at": {"$type": "date"}}
        doc = self._marks.get(user_id, session).find_one(query, _NOTE, session=session)
        return parse_note(doc) if doc else None

    @translate_errors
    def find_previews(self, user_id: int, entry_ids: Sequence[int]) -> dict[int, NotePreview]:
        """Return by entry what lists show of a user's notes."""
        if not entry_ids:
            return {}
        query = {"user_id": user_id, "entry_id": {"$in": list(entry_ids)}, "noted_at": {"$type": "date"}}
        found = self._marks.get(user_id).find(query, _PREVIEW)
        return {doc.pop("entry_id"): NotePreview(**doc) for doc in found}

    @translate_errors
    def find_notes(self, user_id: int, after: tuple[dt.datetime, int] | None, limit: int) -> list[Note]:
        """Return a user's notes, latest first, at most ``limit``.

        The last one may be that which exceeds :data:`PAGE_BYTES`.

        Args:
            after: (``at``, entry) of the note before the first.
        """
        query: Doc = {"user_id": user_id, "noted_at": {"$type": "date"}}
        if after is not None:
            at, last = after
            older = [{"noted_at": {"$lt": at}}, {"noted_at": at, "entry_id": {"$lt": last}}]
            query = {"user_id": user_id, "noted_at": {"$lte": at}, "$or": older}
        found = self._marks.get(user_id).find(query, _NOTE).sort([("noted_at", -1), ("entry_id", -1)])
        notes, size = list[Note](), 0
        for doc in found.limit(limit).batch_size(_NOTES):
            notes.append(note := parse_note(doc))
            size += note.size
            if size > PAGE_BYTES:
                found.close()
                break
        return notes

    @translate_errors
    def set_note(self, user_id: int, note: Note, session: Session) -> bool:
        """Store a note, which isn't empty; return whether it is the user's first mark that keeps the entry.

        Raises:
            ConflictError: the entry was marked elsewhere at the same time; the transaction has ended.
        """
        query = {"user_id": user_id, "entry_id": note.entry_id}
        doc = build_note_doc(note)
        update = {
            "$set": {"noted_at": note.at, "note": doc["note"]},
            "$setOnInsert": {"feed_id": note.feed_id},
        }
        try:
            was = find_and_update(self._marks.get(user_id, session), query, update, session, upsert=True)
        except DuplicateKeyError as e:
            raise ConflictError(entry_id=note.entry_id) from e
        return was is None or not _is_kept(was)

    @translate_errors
    def remove_note(self, user_id: int, entry_id: int, session: Session) -> bool:
        """Delete a note; return whether there was one and no mark that keeps the entry is left."""
        query = {"user_id": user_id, "entry_id": entry_id, "noted_at": {"$type": "date"}}
        alone = {**query, "starred_at": None, "tags": None, "liked_at": None}
        if self._marks.get(user_id, session).delete_one(alone, session=session).deleted_count:
            return True
        gone = {"$unset": {"noted_at": "", "note": ""}}
        was = find_and_update(self._marks.get(user_id, session), query, gone, session)
        return was is not None and not _is_kept(was, "noted_at")

    @translate_errors
    def find_by_tag(
        self, user_id: int, tag: int, session: Session | None = None, *, limit: int = 0
    ) -> list[Mark]:
        """Return the marks with a tag: all, or at most ``limit``."""
        found = self._marks.get(user_id, session).find(
            {"user_id": user_id, "tags": tag}, _MARK, session=session, limit=limit
        )
        return [_mark(d) for d in found]

    @translate_errors
    def find_batch(self, user_id: int, limit: int, session: Session) -> list[Mark]:
        """Return at most ``limit`` of a user's marks that keep entries, in no order."""
        query = {"user_id": user_id, "$or": KEEPING}
        found = self._marks.get(user_id, session).find(query, _MARK, limit=limit, session=session)
        return [_mark(d) for d in found]

    @translate_errors
    def remove(self, user_id: int, entry_ids: Sequence[int], session: Session) -> None:
        """Delete all of a user's marks of these entries."""
        query = {"user_id": user_id, "entry_id": {"$in": list(entry_ids)}}
        self._marks.get(user_id, session).delete_many(query, session=session)

    @translate_errors
    def find_all(self, user_id: int, entry_id: int, session: Session | None) -> Doc | None:
        """Return all of a user's marks of an entry, as stored; None: there are none."""
        marks, mine = self._marks.get_joined(user_id, session)
        found = marks.find_one({"user_id": user_id, "entry_id": entry_id}, {"_id": 0}, session=mine)
        return dict(found) if found else None

    @translate_errors
    def restore(self, doc: Doc, tags: Collection[int], session: Session) -> tuple[int, ...] | None:
        """Store the marks of an entry again, with those of their tags that are among ``tags``.

        Returns:
            The tags; None: the entry has marks already, or none are left.
        """
        kept = [tag for tag in doc.get("tags") or () if tag in tags]
        left = {name: value for name, value in doc.items() if name not in ("tags", "tagged_at")}
        if kept:
            left |= {"tags": kept, "tagged_at": doc["tagged_at"]}
        elif not _is_kept(left) and "liked_at" not in left:
            return None
        marks = self._marks.get(doc["user_id"], session)
        same = {"user_id": doc["user_id"], "entry_id": doc["entry_id"]}
        if marks.find_one(same, {"_id": 1}, session=session):
            return None
        marks.insert_one(left, session=session)
        return tuple(kept)

    @translate_errors
    def add_tag(self, user_id: int, tag: int, new_tag: int, session: Session) -> None:
        """Add a tag to every entry that has ``tag``."""
        self._marks.get(user_id, session).update_many(
            {"user_id": user_id, "tags": tag}, {"$addToSet": {"tags": new_tag}}, session=session
        )

    @translate_errors
    def remove_tag(self, user_id: int, tag: int, entry_ids: Sequence[int], session: Session) -> int:
        """Remove a tag from entries that keep another tag; return how many had it."""
        query = {"user_id": user_id, "entry_id": {"$in": list(entry_ids)}, "tags": tag}
        return (
            self._marks.get(user_id, session)
            .update_many(query, {"$pull": {"tags": tag}}, session=session)
            .matched_count
        )


def _is_kept(doc: Doc, besides: str = "") -> bool:
    """Return whether a document has a mark that keeps its entry, besides one."""
    return any(name in doc for name in _KEEPING if name != besides)


def _is_last(doc: Doc, name: str) -> bool:
    """Return whether a mark is the only one in its document."""
    return not _is_kept(doc, name) and "liked_at" not in doc


def _mark(doc: Doc) -> Mark:
    tags = tuple(doc.get("tags") or ())
    return Mark(
        doc["entry_id"],
        doc["feed_id"],
        "starred_at" in doc,
        tags,
        noted="noted_at" in doc,
        starred_at=doc.get("starred_at"),
        tagged_at=doc.get("tagged_at"),
    )


def build_note_doc(note: Note) -> Doc:
    """Return the fields of a note as stored."""
    quotes = [quote._asdict() for quote in note.quotes]
    said = {"text": note.text, "quotes": quotes, "edited": note.edited}
    return {"entry_id": note.entry_id, "feed_id": note.feed_id, "noted_at": note.at, "note": said}


def parse_note(doc: Doc) -> Note:
    """Return the note in a document."""
    said = doc["note"]
    quotes = tuple(Quote(**quote) for quote in said["quotes"])
    return Note(doc["entry_id"], doc["feed_id"], said["text"], quotes, doc["noted_at"], said["edited"])
