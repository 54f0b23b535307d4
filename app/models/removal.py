"""What a user removed, kept for as long as he may take that back."""

from __future__ import annotations

import dataclasses

from app.models.folder import Folder
from app.models.subscription import Subscription


@dataclasses.dataclass(frozen=True, slots=True)
class Removal:
    """A subscription, or a folder with what lay in it.

    Attributes:
        token: names it to the user.
        subscription: with name, folders and read state.
        feed_ids: the feeds that were in the folder.
        inner: the folders that were in it.
    """

    token: str
    user_id: int
    subscription: Subscription | None = None
    folder: Folder | None = None
    feed_ids: tuple[int, ...] = ()
    inner: tuple[int, ...] = ()
