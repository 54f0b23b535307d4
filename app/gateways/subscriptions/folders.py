"""Folders: a small tree per user, with limits on depth and number."""

from __future__ import annotations

import dataclasses
import datetime as dt
import secrets
from collections.abc import Sequence

from app.errors import ExistsError, InvalidError, NotFoundError
from app.mappers.subscriptions.folders import FolderMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.mappers.subscriptions.undo import RemovalMapper
from app.models.subscriptions.folder import Folder
from app.models.subscriptions.undo import Removal

DEPTH = 8
MOST = 1000


class FolderGateway:
    """Reads and changes folders."""

    def __init__(
        self, folders: FolderMapper, subscriptions: SubscriptionMapper, removals: RemovalMapper
    ) -> None:
        self._folders = folders
        self._subscriptions = subscriptions
        self._removals = removals

    def find_by_user(self, user_id: int) -> list[Folder]:
        """Return a user's folders in their order."""
        return self._folders.find_by_user(user_id)

    def check_folders(self, user_id: int, folder_ids: Sequence[int]) -> None:
        """Raise NotFoundError unless the user has all these folders."""
        if not folder_ids:
            return
        mine = {f.id for f in self._folders.find_by_user(user_id)}
        if missing := [f for f in folder_ids if f not in mine]:
            raise NotFoundError(folder_id=missing[0])

    def find_with_descendants(self, user_id: int, folder_id: int) -> list[int]:
        """Return the ids of a folder and all folders in it.

        Raises:
            NotFoundError: the user has no such folder.
        """
        folders = self._folders.find_by_user(user_id)
        if folder_id not in {f.id for f in folders}:
            raise NotFoundError(folder_id=folder_id)
        found = [folder_id]
        for parent in found:
            found.extend(f.id for f in folders if f.parent == parent and f.id not in found)
        return found

    def add(self, user_id: int, name: str, parent: int | None = None) -> Folder:
        """Create a folder.

        Raises:
            ExistsError: there is a folder with this name in the same place.
            InvalidError: too many folders, or the place is too deep.
            NotFoundError: the user has no folder ``parent``.
        """
        # No index keeps names unique, so check right before the write.
        folders = self._folders.find_by_user(user_id, fresh=True)
        self._check_number(folders)
        self._check_place(folders, parent)
        self._check_name(folders, name, parent)
        return self._folders.add(user_id, name, parent)

    def rename(self, user_id: int, folder_id: int, name: str) -> Folder:
        """Rename a folder.

        Raises:
            NotFoundError: the user has no such folder.
            ExistsError: there is a folder with this name in the same place.
        """
        folders = self._folders.find_by_user(user_id)
        folder = next((f for f in folders if f.id == folder_id), None)
        if folder is None:
            raise NotFoundError(folder_id=folder_id)
        self._check_name([f for f in folders if f.id != folder_id], name, folder.parent)
        self._folders.update(user_id, folder_id, {"name": name})
        return Folder(folder.id, user_id, name, folder.parent, folder.order)

    def remove(self, user_id: int, folder_id: int, expires: dt.datetime) -> str:
        """Delete a folder; its feeds stay, and its subfolders move up.

        The undo is stored first, so that even an interrupted removal can be undone. Feeds are removed from
        the folder next: a crash may leave an empty folder, but never a feed in a missing folder.

        Returns:
            A token for :meth:`restore`, valid until ``expires``.

        Raises:
            NotFoundError: the user has no such folder.
        """
        folders = self._folders.find_by_user(user_id)
        folder = next((f for f in folders if f.id == folder_id), None)
        if folder is None:
            raise NotFoundError(folder_id=folder_id)
        feeds = tuple(s.feed_id for s in self._subscriptions.find_in_folders(user_id, [folder_id]))
        inner = tuple(f.id for f in folders if f.parent == folder_id)
        token = secrets.token_urlsafe(16)
        self._removals.add(
            Removal(token, user_id, folder=folder, feed_ids=feeds, subfolder_ids=inner), expires
        )
        self._subscriptions.remove_from_folder(user_id, folder_id)
        self._folders.move_children(user_id, folder_id, folder.parent)
        self._folders.remove(user_id, folder_id)
        return token

    def restore(self, user_id: int, token: str, now: dt.datetime) -> Folder:
        """Restore a deleted folder, with the feeds and folders that were in it and still exist.

        If another folder has its place and name now, that folder gets them instead.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the user's.
            InvalidError: there are too many folders now, or the old place is too deep.
        """
        removal = self._removals.find(user_id, token, now)
        if removal is None or removal.folder is None:
            raise NotFoundError("This can no longer be undone.", undo=token)
        folders, folder, parent = self._folders.find_by_user(user_id), removal.folder, removal.folder.parent
        if parent not in {f.id for f in folders}:
            folder = dataclasses.replace(folder, parent=None)
        # Not a former subfolder: it moved up, maybe with the same name, and must not be moved into itself.
        beside = [f for f in folders if f.parent == folder.parent and f.id not in removal.subfolder_ids]
        same = next((f for f in beside if f.name == folder.name), None)
        if same is None:
            self._check_number(folders)
            self._check_place(folders, folder.parent)
        folder = same or folder
        self._folders.restore(folder)
        self._subscriptions.add_to_folder(user_id, removal.feed_ids, folder.id)
        self._folders.move_into(user_id, removal.subfolder_ids, parent, folder.id)
        self._removals.remove(user_id, token)
        return folder

    def _check_number(self, folders: Sequence[Folder]) -> None:
        if len(folders) >= MOST:
            raise InvalidError("You can have at most %(limit)s folders.", limit=MOST)

    def _check_place(self, folders: Sequence[Folder], parent: int | None) -> None:
        parents = {f.id: f.parent for f in folders}
        if parent is not None and parent not in parents:
            raise NotFoundError(folder_id=parent)
        depth = 0
        while parent is not None and depth < DEPTH:
            parent, depth = parents.get(parent), depth + 1
        if depth >= DEPTH:
            raise InvalidError(
                "Folders can be nested at most %(depth)s levels deep.", field="parent", depth=DEPTH
            )

    def _check_name(self, folders: Sequence[Folder], name: str, parent: int | None) -> None:
        if any(f.name == name and f.parent == parent for f in folders):
            raise ExistsError("You already have a folder with this name.", field="name")
