"""Undo: removed items, kept while their user may restore them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from app.models.reading.notes import Note
from app.models.reading.tag import SavedSearch
from app.models.sharing.sharing import Share
from app.models.subscriptions.folder import Folder
from app.models.subscriptions.subscription import Subscription


class Step(enum.StrEnum):
    """Whether a saved page is being removed or restored, which takes steps in two stores."""

    REMOVE = "remove"
    RESTORE = "restore"


class FeedPlacement(NamedTuple):
    """The folders and positions of a feed before a move, and its folders after it."""

    feed_id: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    orders: Mapping[int, str]


class RestoreResult(NamedTuple):
    """The result of restoring subscriptions.

    Attributes:
        restored: the restored ones.
        requested_user_ids: accounts that now approve followers, to whom a follow request was sent.
        lost_count: how many people can no longer be followed.
        left_feed_ids: feeds that were read instead until now.
    """

    restored: tuple[Subscription, ...] = ()
    requested_user_ids: tuple[int, ...] = ()
    lost_count: int = 0
    left_feed_ids: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Removal:
    """A removed subscription, folder, saved search, share or saved page, or the positions before a move.

    Attributes:
        token: identifies it to the user.
        subscription: with name, folders and read state.
        replacement_id: the feed that is read instead, 0 for none.
        rules: the feeds of the rules that were moved to that feed, as they were before, by the rule's id.
        feed_ids: the feeds that were in the folder.
        subfolder_ids: the folders that were in it.
        moved: a folder as it was before its move. moved_to: the new parent, 0 for the top.
        places: the positions of feeds before they were moved.
        search: a saved search.
        share: with its note; title: of the shared entry.
        page: a saved page, as stored; mark: its star, tags and note, as stored.
        note: the removed parts of a note.
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
    page: Mapping[str, Any] | None = None
    mark: Mapping[str, Any] | None = None
    note: Note | None = None
    rules: Mapping[int, Sequence[int]] = dataclasses.field(default_factory=dict)
