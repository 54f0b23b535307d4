"""A user's folders: listing, editing, moving and ordering them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from app import clock, logs
from app.errors import ExistsError, InvalidError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.subscriptions.folders import FolderGateway
from app.gateways.subscriptions.ordering import OrderingGateway
from app.models.accounts.actor import Actor, Permission
from app.models.subscriptions.folder import PATH_SEPARATOR, Folder, FolderEditMode, build_folder_paths
from app.models.subscriptions.tree_order import TreeOrder
from app.ports import EventPort
from app.services.access import require_permission
from app.services.validation import check_id, check_ids, check_text

log = logs.get(__name__)

TOKEN_MAX = 64
#: Feeds and folders per mass move.
FEEDS_MAX, FOLDERS_MAX = 20_000, 50


class FolderService:
    """Lists, creates, renames, moves, orders, deletes and restores folders.

    Args:
        undo_ttl: seconds for which an action can be undone.
    """

    def __init__(
        self,
        folders: FolderGateway,
        ordering: OrderingGateway,
        accounts: AccountGateway,
        events: EventPort,
        *,
        undo_ttl: float,
    ) -> None:
        self._folders, self._accounts = folders, accounts
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
            InvalidError: the name is invalid, or there are too many folders.
            ExistsError: there is a folder with this name.
            NotFoundError: the actor has no folder ``parent``.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        parent = None if parent is None else check_id(parent, "parent")
        folder = self._folders.add(actor.user_id, check_text(name, "name", limit=128), parent)
        log.info("folder_created", user_id=actor.user_id, folder_id=folder.id)
        return folder

    def get_or_create(self, actor: Actor, name: str) -> Folder:
        """Return the folder of this path (“News › Local”) or top-level name; create a missing one.

        Raises:
            InvalidError: the name is invalid, or there are too many folders.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        name = " ".join(name.split())
        if known := self._find_by_path(actor, name):
            return known
        try:
            return self.create(actor, name)
        except ExistsError:
            # It may have been created in this moment, by the same form sent twice.
            if created := self._find_by_path(actor, name):
                return created
            raise

    def _find_by_path(self, actor: Actor, name: str) -> Folder | None:
        mine = self.list_folders(actor)
        paths = build_folder_paths(mine)
        return next((folder for folder in mine if PATH_SEPARATOR.join(paths[folder.id]) == name), None)

    def rename(self, actor: Actor, folder_id: int, name: str) -> Folder:
        """Rename a folder.

        Raises:
            NotFoundError: the actor has no such folder.
            ExistsError: there is a folder with this name.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        name = check_text(name, "name", limit=128)
        return self._folders.rename(actor.user_id, check_id(folder_id, "folder_id"), name)

    def delete(self, actor: Actor, folder_id: int) -> str:
        """Delete a folder; its feeds stay.

        Returns:
            A token for :meth:`restore`, valid for ``undo_ttl``.

        Raises:
            NotFoundError: the actor has no such folder.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        expires = clock.now() + self._undo_ttl
        token = self._folders.remove(actor.user_id, check_id(folder_id, "folder_id"), expires)
        log.info("folder_deleted", user_id=actor.user_id, folder_id=folder_id)
        return token

    def restore(self, actor: Actor, token: str) -> Folder:
        """Undo a ``delete``, with the feeds and folders that were in the folder.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the actor's.
            InvalidError: there are too many folders now, or the old place is too deep.
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
        """Move a folder with its contents into another folder, or to the top level (None).

        Args:
            after: the folder to place it behind; 0: first; None: by name.

        Returns:
            A token for :meth:`undo_move`, valid for ``undo_ttl``.

        Raises:
            NotFoundError: the actor has no such folder.
            InvalidError: the folder would contain itself, be too deep, or stay where it is in a tree that is
                sorted.
            ExistsError: there is a folder with its name.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        parent, after, folder_id = _folder(parent, "parent"), _after(after), check_id(folder_id, "folder_id")
        if any(f.id == folder_id and f.parent == parent for f in self._folders.find_by_user(actor.user_id)):
            self._require_own_order(actor)
        token = self._places.move_folder(actor.user_id, folder_id, parent, after, self._expires())
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
        """Move a feed from one folder into another; None is the list outside of folders.

        Args:
            after: the feed to place it behind; 0: first; None: its automatic place.

        Returns:
            A token for :meth:`undo_move`, valid for ``undo_ttl``.

        Raises:
            NotFoundError: the actor has no such subscription or folder.
            InvalidError: the feed would stay in its folder, in a tree that is sorted.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        source, target = _folder(source, "source"), _folder(target, "target")
        feed_id = check_id(feed_id, "feed_id")
        if source == target:
            self._require_own_order(actor)
        token = self._places.move_feed(
            actor.user_id, feed_id, source, target=target, after=_after(after), expires=self._expires()
        )
        self._changed(actor, "feed_placed", feed_id=feed_id)
        return token

    def _require_own_order(self, actor: Actor) -> None:
        """Raise InvalidError if a new place within a folder wouldn't show, because the tree is sorted."""
        user = self._accounts.find_user(actor.user_id)
        if user and user.preferences.tree_order != TreeOrder.OWN:
            raise InvalidError(
                "Your feeds are sorted automatically. To arrange them yourself, choose “Your own order” in "
                "Settings → Reading."
            )

    def place_feeds(
        self, actor: Actor, feed_ids: Sequence[int], folder_ids: Sequence[int], mode: FolderEditMode
    ) -> tuple[str, int]:
        """Add feeds to folders (``ADD``), remove them (``REMOVE``), or replace their folders (``MOVE``).

        ``MOVE`` without folders puts the feeds outside of all folders.

        Returns:
            A token for :meth:`undo_move` of the whole action, and the number of feeds.

        Raises:
            NotFoundError: the actor has no such folder.
            InvalidError: too many feeds or folders at once.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        folders = check_ids(folder_ids, "folder_ids", FOLDERS_MAX)
        self._folders.check_folders(actor.user_id, folders)
        feeds = check_ids(feed_ids, "feed_ids", FEEDS_MAX)
        token, count = self._places.place_feeds(actor.user_id, feeds, folders, mode, self._expires())
        self._changed(actor, "feeds_placed", count=count, mode=mode.value)
        return token, count

    def undo_move(self, actor: Actor, token: str) -> None:
        """Undo :meth:`move_folder`, :meth:`move_feed` or :meth:`place_feeds`, except for later moves.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the actor's.
            InvalidError, ExistsError: the folder's old place is taken.
        """
        require_permission(actor, Permission.FOLDER_EDIT)
        self._places.restore(actor.user_id, check_text(token, "token", limit=TOKEN_MAX), clock.now())
        self._changed(actor, "move_undone")

    def _expires(self) -> dt.datetime:
        return clock.now() + self._undo_ttl

    def _changed(self, actor: Actor, event: str, **ids: object) -> None:
        # The unread counts of folders have changed: the user's other devices reload them.
        self._events.notify_counts(actor.user_id)
        log.info(event, user_id=actor.user_id, **ids)


def _folder(value: int | None, field: str) -> int | None:
    return None if value is None else check_id(value, field)


def _after(value: int | None) -> int | None:
    return value if value in (None, 0) else check_id(value, "after")
