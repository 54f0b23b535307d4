"""What a user removed, kept for as long as he may take that back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from app.models.reading.tag import SavedSearch
from app.models.sharing.sharing import Share
from app.models.subscriptions.folder import Folder
from app.models.subscriptions.subscription import Subscription


class FeedPlacement(NamedTuple):
    """Where a feed lay before a move, and in which folders after it."""

    feed_id: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    orders: Mapping[int, str]


class RestoreResult(NamedTuple):
    """What became of subscriptions that somebody wanted back.

    Attributes:
        back: those that came back. asked: people who want to be asked by now, and were, by account.
        lost: how many people can no longer be followed.
        left: feeds that were read in their place until now.
    """

    restored: tuple[Subscription, ...] = ()
    requested_user_ids: tuple[int, ...] = ()
    lost_count: int = 0
    left_feed_ids: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Removal:
    """A subscription, a folder with what lay in it, a saved search, or where something lay before a move.

    Attributes:
        token: names it to the user.
        subscription: with name, folders and read state.
        instead: the feed that is read in its place, 0: none.
        feed_ids: the feeds that were in the folder.
        inner: the folders that were in it.
        moved: a folder as it was before it was moved. goal: where it was put, 0: to the top.
        places: where feeds lay before they were moved.
        search: a saved search.
        share: with its note; title: what it was called.
    """

    token: str
    user_id: int
    subscription: Subscription | None = None
    replacement_id: int = 0
    folder: Folder | None = None
    feed_ids: tuple[int, ...] = ()
    subfolder_ids: tuple[int, ...] = ()
    moved: Folder | None = None
    moved_to: int = 0
    places: tuple[FeedPlacement, ...] = ()
    search: SavedSearch | None = None
    share: Share | None = None
    title: str = ""
