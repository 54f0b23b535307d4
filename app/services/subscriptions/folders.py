"""What a user does with his folders."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from app import clock, logs
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.ordering import OrderingGateway
from app.models.accounts.actor import Actor, Permission
from app.models.subscriptions.folder import Folder, FolderEditMode
from app.ports import EventPort
from app.services.access import require_permission
from app.services.validation import check_id, check_ids, check_text

log = logs.get(__name__)

TOKEN_MAX = 64
#: Feeds and folders of one mass move.
FEEDS_MAX, FOLDERS_MAX = 20_000, 50


class FolderService:
    """List, create, rename, move, order, delete, and take that back.

    Args:
        undo_ttl: seconds.
    """

    def __init__(
        self, folders: FolderGateway, ordering: OrderingGateway, events: EventPort, *, undo_ttl: float
    ) -> None:
        self._folders = folders
        self._places = ordering
        self._events = events
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def list_folders(self, actor: Actor) -> list[Folder]:
        """Return the actor's folders in their order."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._folders.find_by_user(actor.user_id)

    def create(self, actor: Actor, name: str, *, parent: int | None = None) -> Folder:
        """Create a folder.

        Raises:
            InvalidError: the name does not fit, or there are too many.
            ExistsError: there is one with this name.
            NotFoundError: he has no folder ``parent``.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        parent = None if parent is None else check_id(parent, "parent")
        folder = self._folders.add(actor.user_id, check_text(name, "name", limit=128), parent)
        log.info("folder_created", user_id=actor.user_id, folder_id=folder.id)
        return folder

    def rename(self, actor: Actor, folder_id: int, name: str) -> Folder:
        """Give a folder another name.

        Raises:
            NotFoundError: he has no such folder.
            ExistsError: there is one with this name.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        name = check_text(name, "name", limit=128)
        return self._folders.rename(actor.user_id, check_id(folder_id, "folder_id"), name)

    def delete(self, actor: Actor, folder_id: int) -> str:
        """Delete a folder; its feeds stay.

        Returns:
            A token for :meth:`restore`, good for a day.

        Raises:
            NotFoundError: he has no such folder.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        expires = clock.now() + self._undo_ttl
        token = self._folders.remove(actor.user_id, check_id(folder_id, "folder_id"), expires)
        log.info("folder_deleted", user_id=actor.user_id, folder_id=folder_id)
        return token

    def restore(self, actor: Actor, token: str) -> Folder:
        """Take back a ``delete``, with the feeds and folders that were in the folder.

        Raises:
            NotFoundError: it was too long ago, was taken back already, or was never his.
            InvalidError: there are too many by now, or where it lay is too deep.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        folder = self._folders.restore(
            actor.user_id, check_text(token, "token", limit=TOKEN_MAX), clock.now()
        )
        log.info("folder_restored", user_id=actor.user_id, folder_id=folder.id)
        return folder

    def move_folder(
        self, actor: Actor, folder_id: int, *, parent: int | None, after: int | None = None
    ) -> str:
        """Put a folder into another, or to the top (None), with all that is in it.

        Args:
            after: the folder behind which it comes, 0: it comes first, None: by its name.

        Returns:
            A token for :meth:`undo_move`, good for a day.

        Raises:
            NotFoundError: he has no such folder.
            InvalidError: it would lie in itself, or too deep.
            ExistsError: there is one of its name.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        parent, after = _folder(parent, "parent"), _after(after)
        token = self._places.move_folder(
            actor.user_id, check_id(folder_id, "folder_id"), parent, after, self._expires()
        )
        self._changed(actor, "folder_moved", folder_id=folder_id)
        return token

    def move_feed(
        self,
        actor: Actor,
        feed_id: int,
        *,
        source: int | None,
        target: int | None,
        after: int | None = None,
    ) -> str:
        """Take a feed out of one folder and put it into another; None is the list outside of folders.

        Args:
            after: the feed behind which it comes, 0: it comes first, None: where it belongs by itself.

        Returns:
            A token for :meth:`undo_move`, good for a day.

        Raises:
            NotFoundError: he has no such subscription or folder.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        source, target = _folder(source, "source"), _folder(target, "target")
        feed_id = check_id(feed_id, "feed_id")
        token = self._places.move_feed(actor.user_id, feed_id, source, target, _after(after), self._expires())
        self._changed(actor, "feed_placed", feed_id=feed_id)
        return token

    def place_feeds(
        self, actor: Actor, feed_ids: Sequence[int], folder_ids: Sequence[int], mode: FolderEditMode
    ) -> tuple[str, int]:
        """Put feeds into folders (``ADD``), take them out (``REMOVE``), or let them lie in these only
        (``MOVE``; without folders: outside of all).

        Returns:
            A token for :meth:`undo_move` of all of it, and how many feeds it was about.

        Raises:
            NotFoundError: he has no such folder.
            InvalidError: too many at once.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        folders = check_ids(folder_ids, "folder_ids", FOLDERS_MAX)
        self._folders.check_folders(actor.user_id, folders)
        feeds = check_ids(feed_ids, "feed_ids", FEEDS_MAX)
        token, count = self._places.place_feeds(actor.user_id, feeds, folders, mode, self._expires())
        self._changed(actor, "feeds_placed", count=count, mode=mode.value)
        return token, count

    def undo_move(self, actor: Actor, token: str) -> None:
        """Take back a ``move``, ``move_feed`` or ``place``; what was moved again since then stays there.

        Raises:
            NotFoundError: it was too long ago, was taken back already, or was never his.
            InvalidError, ExistsError: the folder's old place is taken.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        self._places.restore(actor.user_id, check_text(token, "token", limit=TOKEN_MAX), clock.now())
        self._changed(actor, "move_undone")

    def _expires(self) -> dt.datetime:
        return clock.now() + self._undo_ttl

    def _changed(self, actor: Actor, event: str, **ids: object) -> None:
        # Folders count what lies in them: his other devices ask again.
        self._events.notify_counts(actor.user_id)
        log.info(event, user_id=actor.user_id, **ids)


def _folder(value: int | None, field: str) -> int | None:
    return None if value is None else check_id(value, field)


def _after(value: int | None) -> int | None:
    return value if value in (None, 0) else check_id(value, "after")
