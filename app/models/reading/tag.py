"""Tags: words that a user puts on entries, and what he marked of one entry."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import NamedTuple

from app.models.names import fold_name, normalise_name


@dataclasses.dataclass(frozen=True, slots=True)
class Tag:
    """A tag of a user.

    Attributes:
        count: entries that have it.
        merged: entries that another tag got when this one was merged into it, with that tag's id.
    """

    id: int
    user_id: int
    name: str
    count: int = 0
    deleted_at: dt.datetime | None = None
    merged: tuple[int, tuple[int, ...]] | None = None


class Mark(NamedTuple):
    """What a user marked of an entry: starred, tagged (ids), or both."""

    entry_id: int
    feed_id: int
    starred: bool
    tags: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class SavedSearch:
    """A query with a name, in the tree."""

    id: int
    user_id: int
    name: str
    query: str


def normalise_tag(name: str) -> str:
    """Return a tag's name as it is shown: composed, one blank between words, no commas."""
    return normalise_name(name.replace(",", " "))


def make_tag_key(name: str) -> str:
    """Return what two spellings of one tag have in common."""
    return fold_name(normalise_tag(name))
