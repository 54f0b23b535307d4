"""What many share, and who reads alike."""

from __future__ import annotations

import dataclasses

from app.models.reading.entry import Entry
from app.models.sharing.sharing import Profile, Sharer


@dataclasses.dataclass(frozen=True, slots=True)
class Trend:
    """An entry that is shared much: some of the last who did, and how many all in all do so publicly."""

    entry: Entry
    sharers: tuple[Sharer, ...]
    total: int


@dataclasses.dataclass(frozen=True, slots=True)
class SimilarReader:
    """Somebody who reads the same: how many feeds are common."""

    profile: Profile
    common: int
