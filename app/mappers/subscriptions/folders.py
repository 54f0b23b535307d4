"""Folders: the collection ``folders``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pymongo import UpdateOne
from pymongo.errors import DuplicateKeyError

from app.mappers.mongo.cells import Cells
from app.mappers.mongo.errors import translate_errors
from app.mappers.mongo.store import Doc, Part, Session
from app.mappers.mongo.together import Kept, ListRead
from app.models.cache import CacheKind
from app.models.subscriptions.folder import Folder
from app.models.subscriptions.sort_key import rank
from app.runtime import identity_map


class FolderMapper:
    """Document ↔ :class:`Folder`. Every query contains ``user_id``."""

    def __init__(self, cells: Cells) -> None:
        self._folders = cells.get_table("folders")

    @translate_errors
    def add(self, user_id: int, name: str, parent: int | None) -> Folder:
        """Store a new folder."""
        while True:
            doc: Doc = {
                "_id": self._folders.reserve_id(),
                "user_id": user_id,
                "name": name,
                "parent": parent,
                "order": "",
            }
            try:
                self._folders.get(user_id).insert_one(doc)
                return _folder(doc)
            except DuplicateKeyError:
                continue  # only _id is unique here; the next id is free

    @translate_errors
    def find_by_user(
        self, user_id: int, session: Session | None = None, *, fresh: bool = False
    ) -> list[Folder]:
        """Return a user's folders in their order.

        Args:
            fresh: whether to read them again, even if this request has read them before.
        """
        if fresh:
            identity_map.forget(self._folders.name)

        def _fetch() -> list[Folder]:
            return _in_order(self._folders.get(user_id, session).find({"user_id": user_id}, session=session))

        return _fetch() if session else list(identity_map.find_once("folders", "of", user_id, _fetch))

    def plan_by_user(self, user_id: int) -> ListRead:
        """Return the read of :meth:`find_by_user`, to be sent with others."""
        part = Part(self._folders.get(user_id), [{"$match": {"user_id": user_id}}], "user")
        return ListRead(part, "of", user_id, _in_order, Kept(CacheKind.FOLDERS, user_id))

    @translate_errors
    def update(self, user_id: int, folder_id: int, changes: dict[str, Any]) -> bool:
        """Set the name, parent or order; return False if the user has no such folder."""
        query = {"_id": folder_id, "user_id": user_id}
        return bool(self._folders.get(user_id).update_one(query, {"$set": changes}).matched_count)

    @translate_errors
    def move(
        self, user_id: int, folder_id: int, parent: int | None, touched: Sequence[int], session: Session
    ) -> None:
        """Move a folder, and write to ``touched`` folders, so that dependent concurrent moves conflict."""
        self._folders.get(user_id, session).update_one(
            {"_id": folder_id, "user_id": user_id}, {"$set": {"parent": parent}}, session=session
        )
        query = {"_id": {"$in": list(touched)}, "user_id": user_id}
        self._folders.get(user_id, session).update_many(query, {"$inc": {"moves": 1}}, session=session)

    @translate_errors
    def reorder_folders(self, user_id: int, moves: Sequence[tuple[int, str, str]]) -> None:
        """Set sort keys of folders (folder, old key, new key), unless they were moved meanwhile."""
        self._folders.get(user_id).bulk_write(
            [
                UpdateOne(
                    {"_id": f, "user_id": user_id, "order": old or {"$in": ["", 0, None]}},
                    {"$set": {"order": new}},
                )
                for f, old, new in moves
            ],
            ordered=False,
        )

    @translate_errors
    def move_children(self, user_id: int, folder_id: int, parent: int | None) -> None:
        """Move the folders of a folder to another parent."""
        self._folders.get(user_id).update_many(
            {"user_id": user_id, "parent": folder_id}, {"$set": {"parent": parent}}
        )

    @translate_errors
    def restore(self, folder: Folder) -> None:
        """Store a deleted folder again under its old id, unless it exists."""
        doc = {"user_id": folder.user_id, "name": folder.name, "parent": folder.parent, "order": folder.order}
        self._folders.get(folder.user_id).update_one(
            {"_id": folder.id, "user_id": folder.user_id}, {"$setOnInsert": doc}, upsert=True
        )

    @translate_errors
    def move_into(self, user_id: int, folder_ids: Sequence[int], parent: int | None, into: int) -> None:
        """Move those of these folders that are in ``parent`` into another folder."""
        query = {"_id": {"$in": list(folder_ids)}, "user_id": user_id, "parent": parent}
        self._folders.get(user_id).update_many(query, {"$set": {"parent": into}})

    @translate_errors
    def remove(self, user_id: int, folder_id: int) -> bool:
        """Delete a folder; return False if the user has no such folder."""
        return bool(
            self._folders.get(user_id).delete_one({"_id": folder_id, "user_id": user_id}).deleted_count
        )


def _in_order(docs: Iterable[Doc]) -> list[Folder]:
    return sorted(map(_folder, docs), key=lambda f: rank(f.order, f.name, f.id))


def _folder(doc: Doc) -> Folder:
    # Old documents have the number 0 as their order.
    return Folder(doc["_id"], doc["user_id"], doc["name"], doc["parent"], doc["order"] or "")
