"""Folders: the collection ``folders``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from app.mappers import ids
from app.mappers.errors import translated
from app.mappers.store import Doc
from app.models.folder import Folder


class FolderMapper:
    """Document ↔ :class:`Folder`. Every query carries ``user_id``."""

    def __init__(self, database: Database[Doc]) -> None:
        self._folders: Collection[Doc] = database["folders"]

    @translated
    def add(self, user_id: int, name: str, parent: int | None) -> Folder:
        """Store a new folder."""
        while True:
            doc: Doc = {"_id": ids.take(), "user_id": user_id, "name": name, "parent": parent, "order": 0}
            try:
                self._folders.insert_one(doc)
                return _folder(doc)
            except DuplicateKeyError:
                continue  # only _id is unique here; the next id is free

    @translated
    def of_user(self, user_id: int) -> list[Folder]:
        """Return a user's folders in their order."""
        found = self._folders.find({"user_id": user_id}).sort([("order", 1), ("name", 1), ("_id", 1)])
        return [_folder(d) for d in found]

    @translated
    def edit(self, user_id: int, folder_id: int, changes: dict[str, Any]) -> bool:
        """Set name, parent or order; False: the user has no such folder."""
        query = {"_id": folder_id, "user_id": user_id}
        return bool(self._folders.update_one(query, {"$set": changes}).matched_count)

    @translated
    def lift(self, user_id: int, folder_id: int, parent: int | None) -> None:
        """Move the folders of a folder to another parent."""
        self._folders.update_many({"user_id": user_id, "parent": folder_id}, {"$set": {"parent": parent}})

    @translated
    def restore(self, folder: Folder) -> None:
        """Store a folder that was deleted, under its own id; nothing is done when it is there."""
        doc = {"user_id": folder.user_id, "name": folder.name, "parent": folder.parent, "order": folder.order}
        self._folders.update_one(
            {"_id": folder.id, "user_id": folder.user_id}, {"$setOnInsert": doc}, upsert=True
        )

    @translated
    def take_in(self, user_id: int, folder_ids: Sequence[int], parent: int | None, into: int) -> None:
        """Move those of these folders that lie in ``parent`` into another one."""
        query = {"_id": {"$in": list(folder_ids)}, "user_id": user_id, "parent": parent}
        self._folders.update_many(query, {"$set": {"parent": into}})

    @translated
    def remove(self, user_id: int, folder_id: int) -> bool:
        """Delete a folder; False: the user has no such folder."""
        return bool(self._folders.delete_one({"_id": folder_id, "user_id": user_id}).deleted_count)


def _folder(doc: Doc) -> Folder:
    return Folder(doc["_id"], doc["user_id"], doc["name"], doc["parent"], doc["order"])
