"""Tags on entries, a user's marks, and saved searches."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import NamedTuple

from app.models.names import fold_name, normalise_name


@dataclasses.dataclass(frozen=True, slots=True)
class Tag:
    """A tag of a user.

    Attributes:
        count: the number of its entries.
        merged: the id of the tag that this one was merged into, and the entries that got that tag then.
    """

    id: int
    user_id: int
    name: str
    count: int = 0
    deleted_at: dt.datetime | None = None
    merged: tuple[int, tuple[int, ...]] | None = None


class Mark(NamedTuple):
    """A user's marks on an entry: starred, tagged (ids), with a note, or several; and times of marks."""

    entry_id: int
    feed_id: int
    starred: bool
    tags: tuple[int, ...] = ()
    noted: bool = False
    starred_at: dt.datetime | None = None
    tagged_at: dt.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class SavedSearch:
    """A query with a name, in the tree; ``notify``: new entries that match it notify the user."""

    id: int
    user_id: int
    name: str
    query: str
    notify: bool = False


def normalise_tag(name: str) -> str:
    """Return a tag's name as shown: NFC, one space between words, no commas."""
    return normalise_name(name.replace(",", " "))


def make_tag_key(name: str) -> str:
    """Return a key that is equal for all spellings of a tag."""
    return fold_name(normalise_tag(name))
