"""The places and the order of feeds and folders: moves, each a single write, and their undo.

When two devices move the same feed at the same time, both moves take effect, in any order. Removing from a
folder and adding to one apply to the state at that time. Items without a manual place follow those with one,
sorted by name.
"""

from __future__ import annotations

import bisect
import collections
import datetime as dt
import secrets
from collections.abc import Callable, Sequence
from functools import partial

from app.errors import ExistsError, InvalidError, NotFoundError
from app.gateways.subscriptions.folders import DEPTH
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.mongo.cells import Cells
from app.mappers.mongo.store import Session
from app.mappers.subscriptions.folders import FolderMapper
from app.mappers.subscriptions.subscriptions import SubscriptionMapper
from app.mappers.subscriptions.undo import RemovalMapper
from app.models.subscriptions.folder import Folder, FolderEditMode
from app.models.subscriptions.sort_key import LONG, make_key_between, make_spread_keys, rank
from app.models.subscriptions.subscription import TOP, Subscription
from app.models.subscriptions.undo import FeedPlacement, Removal

#: Ids with sort keys and names, in their order.
Line = Sequence[tuple[int, str, str]]
Renumber = Callable[[Sequence[tuple[int, str, str]]], None]


class OrderingGateway:
    """Moves feeds and folders, and undoes moves."""

    def __init__(
        self,
        cells: Cells,
        feeds: FeedMapper,
        folders: FolderMapper,
        subscriptions: SubscriptionMapper,
        removals: RemovalMapper,
    ) -> None:
        self._cells = cells
        self._feeds = feeds
        self._folders = folders
        self._subscriptions = subscriptions
        self._removals = removals

    # -- feeds

    def move_feed(
        self,
        user_id: int,
        feed_id: int,
        source: int | None,
        *,
        target: int | None,
        after: int | None,
        expires: dt.datetime,
    ) -> str:
        """Move a feed from one folder into another; it stays in further folders.

        Args:
            source, target: None: outside of all folders.
            after: the feed to place it behind; 0: first; None: its automatic place.

        Returns:
            A token for :meth:`restore`, valid until ``expires``.

        Raises:
            NotFoundError: the user has no such subscription or folder.
        """
        mine = self._subscriptions.find(user_id, feed_id)
        if mine is None:
            raise NotFoundError(feed_id=feed_id)
        known = {f.id for f in self._folders.find_by_user(user_id)}
        if target is not None and target not in known:
            raise NotFoundError(folder_id=target)
        add = [] if target is None else [target]
        remove = [source] if source is not None and source != target else []
        spot = TOP if target is None else target
        before = FeedPlacement(
            feed_id, mine.folder_ids, _moved(mine, add, remove), {spot: mine.orders.get(spot, "")}
        )
        token = self._keep(Removal(_token(), user_id, places=(before,)), expires)
        key = self._feed_key(user_id, feed_id, spot, known, after)
        self._subscriptions.update_folders(user_id, [feed_id], add, remove, key=(spot, key))
        return token

    def _feed_key(self, user_id: int, feed_id: int, spot: int, known: set[int], after: int | None) -> str:
        here = [
            s
            for s in self._subscriptions.find_by_user(user_id)
            if s.feed_id == feed_id
            or (spot in s.folder_ids if spot else not known.intersection(s.folder_ids))
        ]
        cards = self._feeds.find_cards([s.feed_id for s in here])
        names = {
            s.feed_id: s.title or (c.title or c.url if (c := cards.get(s.feed_id)) else "") for s in here
        }
        line = [(s.feed_id, s.orders.get(spot, ""), names[s.feed_id]) for s in here if s.feed_id != feed_id]
        line.sort(key=lambda one: rank(one[1], one[2], one[0]))
        renumber = partial(self._subscriptions.reorder_feeds, user_id, spot)
        return (
            make_room(line, find_predecessor(line, names[feed_id]) if after is None else after, renumber)
            or ""
        )

    def place_feeds(
        self,
        user_id: int,
        feed_ids: Sequence[int],
        folder_ids: Sequence[int],
        mode: FolderEditMode,
        expires: dt.datetime,
    ) -> tuple[str, int]:
        """Add feeds to folders, remove them, or replace their folders.

        Returns:
            A token for :meth:`restore` of the whole action, and the number of feeds.
        """
        add = [] if mode is FolderEditMode.REMOVE else list(folder_ids)
        remove = {FolderEditMode.ADD: [], FolderEditMode.REMOVE: list(folder_ids), FolderEditMode.MOVE: None}[
            mode
        ]
        mine = self._subscriptions.find_by_user(user_id, feed_ids)
        places = tuple(FeedPlacement(s.feed_id, s.folder_ids, _moved(s, add, remove), {}) for s in mine)
        token = self._keep(Removal(_token(), user_id, places=places), expires)
        self._subscriptions.update_folders(user_id, [s.feed_id for s in mine], add, remove)
        return token, len(mine)

    # -- folders

    def move_folder(
        self, user_id: int, folder_id: int, parent: int | None, after: int | None, expires: dt.datetime
    ) -> str:
        """Move a folder with its contents into another folder, or to the top level.

        Args:
            after: as in :meth:`move_feed`.

        Returns:
            A token for :meth:`restore`.

        Raises:
            NotFoundError: the user has no such folder.
            InvalidError: the folder would contain itself, or be too deep.
            ExistsError: there is a folder with its name.
        """
        was = self._folder(user_id, folder_id)
        token = self._keep(Removal(_token(), user_id, moved=was, moved_to=parent or TOP), expires)
        self._cells.run_in_transaction(
            user_id, lambda session: self._move(user_id, folder_id, parent, session)
        )
        if after is not None or parent != was.parent:
            line = [
                (f.id, f.order, f.name)
                for f in self._folders.find_by_user(user_id)
                if f.parent == parent and f.id != folder_id
            ]
            after = find_predecessor(line, was.name) if after is None else after
            key = make_room(line, after, partial(self._folders.reorder_folders, user_id))
            self._folders.reorder_folders(user_id, [(folder_id, was.order, key or "")])
        return token

    def _folder(self, user_id: int, folder_id: int) -> Folder:
        found = next((f for f in self._folders.find_by_user(user_id) if f.id == folder_id), None)
        if found is None:
            raise NotFoundError(folder_id=folder_id)
        return found

    def _move(self, user_id: int, folder_id: int, parent: int | None, session: Session) -> None:
        folders = {f.id: f for f in self._folders.find_by_user(user_id, session)}
        folder = folders.get(folder_id)
        if folder is None or (parent is not None and parent not in folders):
            raise NotFoundError(folder_id=folder_id if folder is None else parent)
        above = _above(folders, parent)
        if folder_id in above:
            raise InvalidError("You can't move a folder into itself.", field="parent")
        if len(above) + _height(folders, folder_id) > DEPTH:
            raise InvalidError(
                "Folders can be nested at most %(depth)s levels deep.", field="parent", depth=DEPTH
            )
        if any(f.name == folder.name and f.parent == parent and f.id != folder_id for f in folders.values()):
            raise ExistsError(
                "You already have a folder named “%(name)s” there. Rename one of them.",
                field="name",
                name=folder.name,
            )
        if folder.parent != parent:
            # The write includes the folders that were checked, so that a concurrent move conflicts. Otherwise
            # two devices could move two folders into each other and make both unreachable.
            self._folders.move(user_id, folder_id, parent, above, session)

    # -- undo

    def restore(self, user_id: int, token: str, now: dt.datetime) -> None:
        """Undo a move; feeds and folders that were moved again since then stay where they are.

        Raises:
            NotFoundError: the token has expired, was used, or isn't the user's.
            InvalidError, ExistsError: the folder's old place is gone or taken.
        """
        removal = self._removals.find(user_id, token, now)
        if removal is None or not (removal.places or removal.moved):
            raise NotFoundError("This can no longer be undone.", undo=token)
        if removal.moved:
            self._restore_folder(user_id, removal.moved, removal.moved_to)
        self._restore_places(user_id, removal.places)
        self._removals.remove(user_id, token)

    def _restore_folder(self, user_id: int, was: Folder, target: int) -> None:
        now = self._folder(user_id, was.id)
        known = {f.id for f in self._folders.find_by_user(user_id)}
        if (now.parent or TOP) != target and target in {TOP, *known}:
            return  # it was moved again, not merely moved up when its parent was deleted
        parent = was.parent if was.parent in known else None
        self._cells.run_in_transaction(user_id, lambda session: self._move(user_id, was.id, parent, session))
        self._folders.reorder_folders(user_id, [(was.id, now.order, was.order)])

    def _restore_places(self, user_id: int, places: Sequence[FeedPlacement]) -> None:
        known = {f.id for f in self._folders.find_by_user(user_id)}
        mine = self._subscriptions.find_by_user(user_id, [place.feed_id for place in places])
        homes = {s.feed_id: s.folder_ids for s in mine}
        groups: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = collections.defaultdict(list)
        for place in places:
            put = known.intersection(place.after).difference(place.before)
            if put and put.isdisjoint(homes.get(place.feed_id, ())):
                continue  # it was moved again since, and must not also return to its old place
            add = tuple(f for f in place.before if f not in place.after and f in known)
            remove = tuple(f for f in place.after if f not in place.before)
            groups[add, remove].append(place.feed_id)
            for folder, key in place.orders.items():
                self._subscriptions.update_folders(user_id, [place.feed_id], add, remove, key=(folder, key))
        for (add, remove), feed_ids in groups.items():
            self._subscriptions.update_folders(user_id, feed_ids, add, remove)

    def _keep(self, removal: Removal, expires: dt.datetime) -> str:
        # Before the move itself, so that even an interrupted move can be undone.
        self._removals.add(removal, expires)
        return removal.token


def find_predecessor(line: Line, name: str) -> int | None:
    """Return the predecessor of an item without a place: by name if the line is sorted so, else the last.

    None: no item has a place, so the order is by name alone. ``treemove.js`` has the same rule.
    """
    if not any(key for _, key, _ in line):
        return None
    names = [other.casefold() for _, _, other in line]
    before = bisect.bisect(names, name.casefold()) if names == sorted(names) else len(line)
    return line[before - 1][0] if before else 0


def make_room(line: Line, after: int | None, renumber: Renumber) -> str | None:
    """Return a sort key behind ``after`` (0: at the start); None: no key is needed, or ``after`` is gone.

    If there is no room, ``renumber`` gets (id, old key, new key) for the whole line.
    """
    ids = [ident for ident, _, _ in line]
    if after is None or (after and after not in ids):
        return None
    place = ids.index(after) + 1 if after else 0
    low = line[place - 1][1] if place else ""
    high = line[place][1] if place < len(line) else ""
    if (low or not place) and (not high or low < high) and len(key := make_key_between(low, high)) <= LONG:
        return key
    keys = make_spread_keys(len(line))
    renumber([(ident, old, new) for (ident, old, _), new in zip(line, keys, strict=True)])
    return make_key_between(keys[place - 1] if place else "", keys[place] if place < len(line) else "")


def _moved(subscription: Subscription, add: Sequence[int], remove: Sequence[int] | None) -> tuple[int, ...]:
    kept = [] if remove is None else [f for f in subscription.folder_ids if f not in remove]
    return tuple(dict.fromkeys([*kept, *add]))


def _above(folders: dict[int, Folder], folder_id: int | None) -> list[int]:
    """Return the ids of a folder and its ancestors."""
    found: list[int] = []
    while folder_id is not None and folder_id in folders and folder_id not in found:
        found.append(folder_id)
        folder_id = folders[folder_id].parent
    return found


def _height(folders: dict[int, Folder], folder_id: int) -> int:
    inner = [f.id for f in folders.values() if f.parent == folder_id]
    return 1 + max((_height(folders, f) for f in inner), default=0)


def _token() -> str:
    return secrets.token_urlsafe(16)
