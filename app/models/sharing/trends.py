"""Trends and similar readers."""

from __future__ import annotations

import dataclasses

from app.models.reading.entry import Entry
from app.models.sharing.sharing import Profile, Sharer


@dataclasses.dataclass(frozen=True, slots=True)
class Trend:
    """An entry that many people share: some of the latest sharers, and the number of public shares."""

    entry: Entry
    sharers: tuple[Sharer, ...]
    total: int


@dataclasses.dataclass(frozen=True, slots=True)
class SimilarReader:
    """Someone with similar subscriptions: how many feeds they have in common."""

    profile: Profile
    common: int
