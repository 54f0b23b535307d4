"""What a user does with his folders."""

from __future__ import annotations

import datetime as dt

from app import clock, logs
from app.gateways.folders import FolderGateway
from app.models.actor import Actor, Permission
from app.models.folder import Folder
from app.services.access import require
from app.services.checks import a_text, an_id

log = logs.get(__name__)

TOKEN_MAX = 64


class FolderService:
    """List, create, rename, delete and take that back.

    Args:
        undo_ttl: seconds.
    """

    def __init__(self, folders: FolderGateway, *, undo_ttl: float) -> None:
        self._folders = folders
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def list(self, actor: Actor) -> list[Folder]:
        """Return the actor's folders in their order."""
        require(actor, Permission.SUBSCRIPTION_SEE)
        return self._folders.of_user(actor.user_id)

    def create(self, actor: Actor, name: str, *, parent: int | None = None) -> Folder:
        """Create a folder.

        Raises:
            InvalidError: the name does not fit, or there are too many.
            ExistsError: there is one with this name.
            NotFoundError: he has no folder ``parent``.
        """
        require(actor, Permission.FOLDER_EDIT)
        parent = None if parent is None else an_id(parent, "parent")
        folder = self._folders.add(actor.user_id, a_text(name, "name", most=128), parent)
        log.info("folder_created", user_id=actor.user_id, folder_id=folder.id)
        return folder

    def rename(self, actor: Actor, folder_id: int, name: str) -> Folder:
        """Give a folder another name.

        Raises:
            NotFoundError: he has no such folder.
            ExistsError: there is one with this name.
        """
        require(actor, Permission.FOLDER_EDIT)
        name = a_text(name, "name", most=128)
        return self._folders.rename(actor.user_id, an_id(folder_id, "folder_id"), name)

    def delete(self, actor: Actor, folder_id: int) -> str:
        """Delete a folder; its feeds stay.

        Returns:
            A token for :meth:`restore`, good for a day.

        Raises:
            NotFoundError: he has no such folder.
        """
        require(actor, Permission.FOLDER_EDIT)
        expires = clock.now() + self._undo_ttl
        token = self._folders.remove(actor.user_id, an_id(folder_id, "folder_id"), expires)
        log.info("folder_deleted", user_id=actor.user_id, folder_id=folder_id)
        return token

    def restore(self, actor: Actor, token: str) -> Folder:
        """Take back a ``delete``, with the feeds and folders that were in the folder.

        Raises:
            NotFoundError: it was too long ago, was taken back already, or was never his.
        """
        require(actor, Permission.FOLDER_EDIT)
        folder = self._folders.restore(actor.user_id, a_text(token, "token", most=TOKEN_MAX), clock.now())
        log.info("folder_restored", user_id=actor.user_id, folder_id=folder.id)
        return folder
