"""Tags and saved searches: the collections ``tags`` and ``searches``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import Any

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from app.errors import ConflictError, ExistsError
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Part, Session, is_duplicate
from app.mappers.mongo.together import Kept, ListRead
from app.models.cache import CacheKind
from app.models.reading.tag import SavedSearch, Tag, make_tag_key
from app.runtime import identity_map

_NAME_ORDER = [("key", 1)]


class TagMapper:
    """Document ↔ :class:`Tag`. Every query contains ``user_id``.

    A deleted tag stays while the deletion can be undone, under a key that no name can have.
    """

    def __init__(self, cells: Cells) -> None:
        self._tags = cells.get_table("tags")

    @translate_errors
    def find_by_user(self, user_id: int, session: Session | None = None) -> list[Tag]:
        """Return a user's tags sorted by name, including deleted ones."""

        def _fetch() -> list[Tag]:
            found = (
                self._tags.get(user_id, session).find({"user_id": user_id}, session=session).sort(_NAME_ORDER)
            )
            return [_tag(d) for d in found]

        return _fetch() if session else list(identity_map.find_once("tags", "of", user_id, _fetch))

    def plan_by_user(self, user_id: int) -> ListRead:
        """Return the read of :meth:`find_by_user`, to be sent with others."""
        part = Part(
            self._tags.get(user_id), [{"$match": {"user_id": user_id}}, {"$sort": {"key": 1}}], "user_key"
        )
        kept = Kept(CacheKind.TAGS, user_id)
        return ListRead(part, "of", user_id, lambda docs: list(map(_tag, docs)), kept)

    @translate_errors
    def add(self, user_id: int, name: str, session: Session) -> Tag:
        """Store a new tag.

        Raises:
            ConflictError: there is a tag with this key; the transaction has ended.
        """
        doc: Doc = {
            "_id": self._tags.reserve_id(),
            "user_id": user_id,
            "name": name,
            "key": make_tag_key(name),
            "count": 0,
        }
        try:
            self._tags.get(user_id, session).insert_one(doc, session=session)
        except DuplicateKeyError as e:
            raise ConflictError(tag=name) from e
        return _tag(doc)

    @translate_errors
    def change_count(self, user_id: int, tag_id: int, delta: int, session: Session) -> None:
        """Change a tag's count of entries."""
        self._tags.get(user_id, session).update_one(
            {"_id": tag_id, "user_id": user_id}, {"$inc": {"count": delta}}, session=session
        )

    @translate_errors
    def set_name(self, user_id: int, tag_id: int, name: str, session: Session | None = None) -> bool:
        """Rename a tag, and restore it if it was deleted; return False if there is no such tag.

        Raises:
            ExistsError: another tag has this name.
        """
        update: Doc = {
            "$set": {"name": name, "key": make_tag_key(name)},
            "$unset": {"deleted_at": "", "merged": ""},
        }
        try:
            done = self._tags.get(user_id, session).update_one(
                {"_id": tag_id, "user_id": user_id}, update, session=session
            )
        except DuplicateKeyError as e:
            raise ExistsError(tag_id=tag_id) from e
        return bool(done.matched_count)

    @translate_errors
    def mark_deleted(
        self, user_id: int, tag_id: int, at: dt.datetime, session: Session, merged: Any = None
    ) -> None:
        """Mark a tag as deleted, so that it can be restored."""
        fields = {"deleted_at": at, "key": f"\u0000{tag_id}", **({"merged": merged} if merged else {})}
        self._tags.get(user_id, session).update_one(
            {"_id": tag_id, "user_id": user_id}, {"$set": fields}, session=session
        )

    @translate_errors
    def remove(self, user_id: int, tag_id: int, session: Session) -> None:
        """Delete a tag permanently."""
        self._tags.get(user_id, session).delete_one({"_id": tag_id, "user_id": user_id}, session=session)


class SavedSearchMapper:
    """Document ↔ :class:`SavedSearch`. Every query contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._searches = cells.get_table("searches")

    @translate_errors
    def find_by_user(self, user_id: int, session: Session | None = None) -> list[SavedSearch]:
        """Return a user's saved searches, sorted by name."""

        def _fetch() -> list[SavedSearch]:
            found = (
                self._searches.get(user_id, session)
                .find({"user_id": user_id}, session=session)
                .sort([("name", 1)])
            )
            return [_saved(doc) for doc in found]

        return _fetch() if session else list(identity_map.find_once("searches", "of", user_id, _fetch))

    def plan_by_user(self, user_id: int) -> ListRead:
        """Return the read of :meth:`find_by_user`, to be sent with others."""
        part = Part(
            self._searches.get(user_id),
            [{"$match": {"user_id": user_id}}, {"$sort": {"name": 1}}],
            "user_name",
        )
        kept = Kept(CacheKind.SEARCHES, user_id)
        return ListRead(part, "of", user_id, lambda docs: list(map(_saved, docs)), kept)

    @translate_errors
    def put(self, user_id: int, name: str, query: str) -> SavedSearch:
        """Store a search and return it; an existing name gets the new query."""
        while True:
            try:
                doc: Any = self._searches.get(user_id).find_one_and_update(
                    {"user_id": user_id, "name": name},
                    {"$set": {"query": query}, "$setOnInsert": {"_id": self._searches.reserve_id()}},
                    upsert=True,
                    return_document=ReturnDocument.AFTER,
                )
                return _saved(doc)
            except DuplicateKeyError as e:
                if not is_duplicate(e, "_id"):
                    raise

    @translate_errors
    def set_notify(self, user_id: int, search_id: int, notify: bool, session: Session) -> SavedSearch | None:
        """Switch the notifications of a search, and return it; None: there is no such search."""
        doc = self._searches.get(user_id, session).find_one_and_update(
            {"_id": search_id, "user_id": user_id},
            {"$set": {"notify": True}} if notify else {"$unset": {"notify": ""}},
            return_document=ReturnDocument.AFTER,
            session=session,
        )
        return _saved(doc) if doc else None

    @translate_errors
    def find_notifying(self, user_ids: Collection[int]) -> dict[int, list[SavedSearch]]:
        """Return the searches of these users that notify; users without one are left out."""
        found = dict[int, list[SavedSearch]]()
        for searches, users in self._searches.group_by_people(user_ids):
            for doc in searches.find({"user_id": {"$in": users}, "notify": True}):
                found.setdefault(doc["user_id"], []).append(_saved(doc))
        return found

    @translate_errors
    def add(self, search: SavedSearch, session: Session) -> None:
        """Store a search again under its old id.

        Raises:
            ConflictError: another search has its name now; the transaction has ended.
        """
        doc = {"_id": search.id, "user_id": search.user_id, "name": search.name, "query": search.query}
        doc |= {"notify": True} if search.notify else {}
        try:
            self._searches.get(search.user_id, session).insert_one(doc, session=session)
        except DuplicateKeyError as e:
            raise ConflictError(search=search.name) from e

    @translate_errors
    def remove(self, user_id: int, search_id: int, session: Session) -> SavedSearch | None:
        """Delete a search and return it; None: there is no such search."""
        doc = self._searches.get(user_id, session).find_one_and_delete(
            {"_id": search_id, "user_id": user_id}, session=session
        )
        return _saved(doc) if doc else None


def _saved(doc: Doc) -> SavedSearch:
    return SavedSearch(doc["_id"], doc["user_id"], doc["name"], doc["query"], doc.get("notify", False))


def _tag(doc: Doc) -> Tag:
    merged = doc.get("merged")
    return Tag(
        doc["_id"],
        doc["user_id"],
        doc["name"],
        doc["count"],
        doc.get("deleted_at"),
        (merged["into"], tuple(merged["added"])) if merged else None,
    )
