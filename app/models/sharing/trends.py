"""Trends and similar readers."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from app.models.reading.entry import Entry
from app.models.reading.stream import EntryRow
from app.models.sharing.sharing import Profile, Relationship, Sharer


@dataclasses.dataclass(frozen=True, slots=True)
class Trend:
    """An entry that many people share: some of the latest sharers, and the number of public shares."""

    entry: Entry
    sharers: tuple[Sharer, ...]
    total: int


class TrendRow(NamedTuple):
    """A trend beside the row of its entry, as lists show it."""

    trend: Trend
    row: EntryRow


class FoundPerson(NamedTuple):
    """Someone found by their name, and the viewer's relationship to them."""

    profile: Profile
    tie: Relationship


@dataclasses.dataclass(frozen=True, slots=True)
class SimilarReader:
    """Someone with similar subscriptions: how many feeds they have in common."""

    profile: Profile
    common: int
