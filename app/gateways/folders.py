"""Folders: a small tree per user."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors import ExistsError, InvalidError, NotFoundError
from app.mappers.folders import FolderMapper
from app.mappers.subscriptions import SubscriptionMapper
from app.models.folder import Folder

DEPTH = 8
MOST = 1000


class FolderGateway:
    """Everything about folders."""

    def __init__(self, folders: FolderMapper, subscriptions: SubscriptionMapper) -> None:
        self._folders = folders
        self._subscriptions = subscriptions

    def of_user(self, user_id: int) -> list[Folder]:
        """Return a user's folders in their order."""
        return self._folders.of_user(user_id)

    def check(self, user_id: int, folder_ids: Sequence[int]) -> None:
        """Raise NotFoundError unless the user has all these folders."""
        if not folder_ids:
            return
        mine = {f.id for f in self._folders.of_user(user_id)}
        if missing := [f for f in folder_ids if f not in mine]:
            raise NotFoundError(folder_id=missing[0])

    def below(self, user_id: int, folder_id: int) -> list[int]:
        """Return a folder and all folders in it.

        Raises:
            NotFoundError: the user has no such folder.
        """
        folders = self._folders.of_user(user_id)
        if folder_id not in {f.id for f in folders}:
            raise NotFoundError(folder_id=folder_id)
        found = [folder_id]
        for parent in found:
            found.extend(f.id for f in folders if f.parent == parent and f.id not in found)
        return found

    def add(self, user_id: int, name: str, parent: int | None = None) -> Folder:
        """Create a folder.

        Raises:
            ExistsError: there is one with this name beside it.
            InvalidError: too many, or too deep.
            NotFoundError: the user has no folder ``parent``.
        """
        folders = self._folders.of_user(user_id)
        if len(folders) >= MOST:
            raise InvalidError(f"You have {MOST} folders, and that is the most.", limit=MOST)
        self._check_place(folders, parent)
        self._check_name(folders, name, parent)
        return self._folders.add(user_id, name, parent)

    def rename(self, user_id: int, folder_id: int, name: str) -> Folder:
        """Give a folder another name.

        Raises:
            NotFoundError: the user has no such folder.
            ExistsError: there is one with this name beside it.
        """
        folders = self._folders.of_user(user_id)
        folder = next((f for f in folders if f.id == folder_id), None)
        if folder is None:
            raise NotFoundError(folder_id=folder_id)
        self._check_name([f for f in folders if f.id != folder_id], name, folder.parent)
        self._folders.edit(user_id, folder_id, {"name": name})
        return Folder(folder.id, user_id, name, folder.parent, folder.order)

    def remove(self, user_id: int, folder_id: int) -> None:
        """Delete a folder; its feeds stay, and folders in it move up.

        Feeds leave first: a crash between leaves an empty folder, never a feed in a folder that is gone.

        Raises:
            NotFoundError: the user has no such folder.
        """
        folder = next((f for f in self._folders.of_user(user_id) if f.id == folder_id), None)
        if folder is None:
            raise NotFoundError(folder_id=folder_id)
        self._subscriptions.leave_folder(user_id, folder_id)
        self._folders.lift(user_id, folder_id, folder.parent)
        self._folders.remove(user_id, folder_id)

    def _check_place(self, folders: Sequence[Folder], parent: int | None) -> None:
        parents = {f.id: f.parent for f in folders}
        if parent is not None and parent not in parents:
            raise NotFoundError(folder_id=parent)
        depth = 0
        while parent is not None and depth < DEPTH:
            parent, depth = parents.get(parent), depth + 1
        if depth >= DEPTH:
            raise InvalidError(f"Folders lie at most {DEPTH} deep.", field="parent")

    def _check_name(self, folders: Sequence[Folder], name: str, parent: int | None) -> None:
        if any(f.name == name and f.parent == parent for f in folders):
            raise ExistsError("There is a folder with this name already.", field="name")
