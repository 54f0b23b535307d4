"""Notifications: the collection ``notifications``, one document per person, kind and subject.

    {user_id, kind, subject, share_id?, last: [{by, id}], count, at, read, expires, rang?, events?}

So a thousand likes of one share are one document, one row and one unread. Only the last few people are
stored, with the last few comments of each, since some may be removed. Names are read from the accounts at
display time. With cells, ``events`` has the ids of the last events, because one may be delivered twice.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence

from bson import ObjectId
from bson.int64 import Int64
from pymongo.errors import DuplicateKeyError

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Part
from app.mappers.mongo.together import Kept, ListRead
from app.mappers.reading.entry_keys import from_millis, to_millis
from app.models.cache import CacheKind
from app.models.discussion.comments import NotificationKind, NotificationRow
from app.runtime import identity_map

#: People stored in a row.
KEPT = 5
#: Comments stored per person.
SAID = 5
#: Most comments, or likers, stored in a row.
KNOWN = KEPT * SAID
#: Ids of events stored in a row.
EVENTS = 20
#: Attempts of an upsert that may conflict with a concurrent one.
ROUNDS = 5


class NotificationMapper:
    """Document ↔ :class:`NotificationRow`. Every query for a reader contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._notes = cells.get_table("notifications")

    @translate_errors
    def add_event(
        self,
        note: NotificationRow,
        by: int,
        target_id: int,
        expires: dt.datetime,
        *,
        count_people: bool,
        once: bool = False,
        event_id: str | None = None,
    ) -> bool:
        """Add an event to a row, creating the row if needed; atomic.

        Events that were already read no longer count.

        Args:
            by: the user who did it.
            target_id: the comment or share that was made.
            count_people: count the people, not their events.
            once: don't change a row in which the reader has already read of this person.
            event_id: don't change a row that has this event already; None: it is added in any case.

        Returns:
            Whether the row is new.
        """
        key = _key(note.user_id, note.kind, note.subject)
        known: Doc = {"$ifNull": ["$last", []]}
        last = known if once else {"$cond": [{"$eq": ["$read", False]}, "$last", []]}
        count: Doc = {"$cond": [{"$eq": ["$read", False]}, "$count", 0]}
        by_them: Doc = {"$in": [by, {"$ifNull": ["$last.by", []]}]}
        more: Doc | int = {"$cond": [by_them, 0, 1]} if count_people else 1
        more = {"$cond": [{"$eq": ["$read", False]}, more, 1]}
        others = {"$filter": {"input": last, "cond": {"$ne": ["$$this.by", by]}}}
        own = {"$filter": {"input": last, "cond": {"$eq": ["$$this.by", by]}}}
        before = [others] if count_people else [others, {"$slice": [own, 1 - SAID]}]
        most = KEPT if count_people and not once else KNOWN
        changes: Doc = {
            "last": {
                "$slice": [{"$concatArrays": [*before, [{"by": Int64(by), "id": Int64(target_id)}]]}, -most]
            },
            "count": {"$add": [count, more]},
            "at": note.at,
            "read": False,
            "expires": expires,
            **({"share_id": Int64(note.share_id)} if note.share_id else {}),
        }
        again = {"$and": [{"$eq": ["$read", True]}, by_them]}
        return self._change(key, changes, event_id, *([again] if once else []))

    def _change(self, key: Doc, changes: Doc, event_id: str | None, *unless: Doc) -> bool:
        """Change a row unless one of the conditions holds, or it has the event; return whether it is new."""
        if event_id is not None:
            known: Doc = {"$ifNull": ["$events", []]}
            changes = {**changes, "events": {"$slice": [{"$concatArrays": [known, [event_id]]}, -EVENTS]}}
            unless = (*unless, {"$in": [event_id, known]})
        if not unless:
            return self._upsert(key, [{"$set": changes}])
        changed = {"$mergeObjects": ["$$ROOT", changes]}
        return self._upsert(key, [{"$replaceWith": {"$cond": [{"$or": list(unless)}, "$$ROOT", changed]}}])

    @translate_errors
    def add_count(self, note: NotificationRow, expires: dt.datetime, event_id: str | None = None) -> bool:
        """Add the count of ``note`` to its row, which is made if needed. A read row counts anew.

        Args:
            event_id: of a row that has this event already, only what is more than its count is added.

        Returns:
            Whether the row is new.
        """
        before: Doc = {"$cond": [{"$eq": ["$read", False]}, "$count", 0]}
        known: Doc = {"$ifNull": ["$counted", []]}
        mine: Doc = {"$filter": {"input": known, "cond": {"$eq": ["$$this.id", event_id]}}}
        others: Doc = {"$filter": {"input": known, "cond": {"$ne": ["$$this.id", event_id]}}}
        counted: Doc = {"$max": {"$concatArrays": [[0], {"$map": {"input": mine, "in": "$$this.count"}}]}}
        more: Doc = {"$subtract": [note.count, counted]}
        changes: Doc = {
            "last": [],
            "count": {"$add": [before, more]},
            "at": note.at,
            "read": False,
            "expires": expires,
        }
        key = _key(note.user_id, note.kind, note.subject)
        if event_id is None:
            return self._change(key, changes, None)
        event = {"id": event_id, "count": note.count}
        changes["counted"] = {"$slice": [{"$concatArrays": [others, [event]]}, -EVENTS]}
        return self._change(key, changes, None, {"$lte": [more, 0]})

    @translate_errors
    def add_once(self, note: NotificationRow, by: int, target_id: int, expires: dt.datetime) -> bool:
        """Store a row unless it exists; return whether it is new."""
        doc: Doc = {
            "last": [{"by": Int64(by), "id": Int64(target_id)}] if by else [],
            "count": note.count,
            "at": note.at,
            "read": note.read,
            "expires": expires,
            **({"share_id": Int64(note.share_id)} if note.share_id else {}),
        }
        return self._upsert(_key(note.user_id, note.kind, note.subject), {"$setOnInsert": doc})

    def _upsert(self, key: Doc, update: Doc | list[Doc]) -> bool:
        notes = self._notes.get(int(key["user_id"]))
        for _ in range(ROUNDS - 1):
            try:
                return notes.update_one(key, update, upsert=True).upserted_id is not None
            except DuplicateKeyError:
                continue  # just created by another request: change it
        return notes.update_one(key, update, upsert=True).upserted_id is not None

    @translate_errors
    def prune(self, user_id: int, limit: int) -> None:
        """Keep only the newest ``limit`` rows of a user."""
        query = {"user_id": user_id}
        found = (
            self._notes.get(user_id)
            .find(query, {"at": 1})
            .sort([("at", -1), ("_id", -1)])
            .skip(limit)
            .limit(1)
        )
        for doc in found:
            older = [{"at": {"$lt": doc["at"]}}, {"at": doc["at"], "_id": {"$lte": doc["_id"]}}]
            self._notes.get(user_id).delete_many({**query, "$or": older})

    @translate_errors
    def list_notifications(self, user_id: int, after: str, limit: int) -> list[NotificationRow]:
        """Return rows, newest first; ``after``: the place of the row to continue after."""
        query: Doc = {"user_id": user_id}
        at, _, last = after.partition(".")
        if at.isascii() and at.isdigit() and ObjectId.is_valid(last):
            when = from_millis(int(at[:13]))
            query["$or"] = [{"at": {"$lt": when}}, {"at": when, "_id": {"$lt": ObjectId(last)}}]
        found = (
            self._notes.get(user_id).find(query).sort([("at", -1), ("_id", -1)]).limit(limit).hint("newest")
        )
        return [_note(d) for d in found]

    @translate_errors
    def find_unread(self, user_id: int, limit: int) -> list[NotificationRow]:
        """Return at most ``limit`` unread rows."""

        def _fetch() -> list[NotificationRow]:
            found = (
                self._notes.get(user_id).find({"user_id": user_id, "read": False}).hint("unread").limit(limit)
            )
            return [_note(d) for d in found]

        return list(identity_map.find_once("notifications", "unread", (user_id, limit), _fetch))

    def plan_unread(self, user_id: int, limit: int) -> ListRead:
        """Return the read of :meth:`find_unread`, to be sent with others."""
        pipeline: list[Doc] = [{"$match": {"user_id": user_id, "read": False}}, {"$limit": limit}]
        part = Part(self._notes.get(user_id), pipeline, "unread")
        kept = Kept(CacheKind.NOTIFICATIONS, user_id)
        return ListRead(part, "unread", (user_id, limit), lambda docs: list(map(_note, docs)), kept)

    @translate_errors
    def find_by_kind(
        self, user_id: int, kind: NotificationKind, subjects: Collection[int]
    ) -> dict[int, NotificationRow]:
        """Return rows of a kind by subject."""
        query = {"user_id": user_id, "kind": kind.value, "subject": {"$in": list(subjects)}}
        return {d["subject"]: _note(d) for d in self._notes.get(user_id).find(query)}

    @translate_errors
    def mark_pushed(self, note: NotificationRow, now: dt.datetime, since: dt.datetime) -> bool:
        """Record a push of an unread row; return False if it was pushed since ``since``, or is read.

        Args:
            now: time of the event; a repeated call with the same time gives the same answer.
        """
        key = _key(note.user_id, note.kind, note.subject)
        quiet = [{"rang": None}, {"rang": {"$lte": since}}, {"rang": now}]
        done = self._notes.get(note.user_id).update_one(
            {**key, "read": False, "$or": quiet}, {"$set": {"rang": now}}
        )
        return bool(done.matched_count)

    @translate_errors
    def mark_read(
        self,
        user_id: int,
        kind: NotificationKind,
        subject: int,
        now: dt.datetime | None = None,
        *,
        until: dt.datetime | None = None,
    ) -> None:
        """Mark a row as read, setting its time to ``now``; with ``until``, only if it isn't newer."""
        query = {**_key(user_id, kind, subject), **({"at": {"$lte": until}} if until else {})}
        changes: Doc = {"read": True, **({"at": now} if now else {})}
        self._notes.get(user_id).update_one(query, {"$set": changes})

    @translate_errors
    def mark_all_read(self, user_id: int, until: dt.datetime | None = None) -> int:
        """Mark all rows up to a time as read; return how many were unread."""
        query: Doc = {"user_id": user_id, "read": False, **({"at": {"$lte": until}} if until else {})}
        return (
            self._notes.get(user_id)
            .update_many(query, {"$set": {"read": True}}, hint="unread")
            .modified_count
        )

    @translate_errors
    def remove_actor(self, user_id: int, kind: NotificationKind, subject: int, by: int) -> None:
        """Remove a person from an unread row, so that later events by the same person count as new.

        If nobody is left, the row becomes read.
        """
        query = {**_key(user_id, kind, subject), "read": False, "last.by": by}
        others = {"$filter": {"input": "$last", "cond": {"$ne": ["$$this.by", by]}}}
        less = {"last": others, "count": {"$subtract": ["$count", 1]}}
        # The row may count more people than it stores.
        is_over = {"$and": [{"$eq": ["$last", []]}, {"$lte": ["$count", 0]}]}
        self._notes.get(user_id).update_one(query, [{"$set": less}, {"$set": {"read": is_over}}])

    @translate_errors
    def forget(self, by: int, share_ids: Sequence[int]) -> None:
        """Remove a person from other users' rows, and delete rows about these shares."""
        one = {"last.by": by}
        others = {"$filter": {"input": "$last", "cond": {"$ne": ["$$this.by", by]}}}
        gone = {"$subtract": [{"$size": "$last"}, {"$size": others}]}
        less = {"$set": {"last": others, "count": {"$max": [0, {"$subtract": ["$count", gone]}]}}}
        # Recipients may live anywhere.
        for notes in self._notes.iterate_tables():
            notes.delete_many({"share_id": {"$in": list(share_ids)}})
            notes.delete_many({**one, "last": {"$not": {"$elemMatch": {"by": {"$ne": by}}}}})
            notes.update_many(one, [less])


def _key(user_id: int, kind: NotificationKind, subject: int) -> Doc:
    return {"user_id": Int64(user_id), "kind": kind.value, "subject": Int64(subject)}


def _note(doc: Doc) -> NotificationRow:
    return NotificationRow(
        user_id=doc["user_id"],
        kind=NotificationKind(doc["kind"]),
        subject=doc["subject"],
        at=doc["at"],
        share_id=doc.get("share_id", 0),
        last=tuple((one["by"], one["id"]) for one in doc["last"]),
        count=doc["count"],
        read=doc["read"],
        place=f"{to_millis(doc['at'])}.{doc['_id']}",
    )
