"""An import of subscriptions: what was found in a file, what was chosen of it, and how far it is."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from app.errors import NO_ROOM


class ImportState(enum.StrEnum):
    """Stages of life; QUEUED waits for one of the places at which imports run."""

    PREVIEW = "preview"
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


ACTIVE = (ImportState.QUEUED, ImportState.RUNNING)
ENDED = (ImportState.DONE, ImportState.CANCELLED)


class ItemState(enum.StrEnum):
    """What has become of one outline."""

    WAITING = "waiting"  # chosen, and nothing done yet
    RETRY = "retry"  # failed, and is tried again
    FETCHING = "fetching"  # subscribed; its first fetch is under way
    ADDED = "added"
    ALREADY = "already"  # was subscribed before
    FAILED = "failed"
    DOUBLE = "double"  # stands earlier in the file; that one has its folders too
    SKIPPED = "skipped"  # not chosen


UNDER_WAY = (ItemState.RETRY, ItemState.FETCHING)
OPEN = (ItemState.WAITING, *UNDER_WAY)


@dataclasses.dataclass(frozen=True, slots=True)
class ImportFolder:
    """A folder of the file; ``parent`` is the place of the one around it in the list of folders."""

    name: str
    parent: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ImportItem:
    """One outline.

    Attributes:
        index: its place in the import, from 0.
        folders: places in the import's list of folders; doubles leave theirs with the first.
        line: where it stands in the file, from 1.
        error: word of :data:`app.errors.FEED_MESSAGES` when it failed.
        feed_id: of the feed, once it is known; before the start: he has it already.
    """

    index: int
    url: str
    title: str = ""
    folders: tuple[int, ...] = ()
    line: int = 0
    state: ItemState = ItemState.WAITING
    error: str | None = None
    feed_id: int | None = None

    @property
    def can_retry(self) -> bool:
        """Whether it failed, and may not the next time; what can never be fetched stays what it is."""
        passes = self.error == "rate_limited" or (self.error or "").startswith(NO_ROOM)
        return self.state is ItemState.FAILED and (self.feed_id is not None or passes)


@dataclasses.dataclass(frozen=True, slots=True)
class ItemChange:
    """What becomes of one outline."""

    state: ItemState
    error: str | None = None
    feed_id: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import, without its outlines.

    Attributes:
        name: of the file or pack.
        title: what the file calls itself.
        folders: those of the file, parents first; ``empty`` are the places of those without any feed.
        keep_folders: else all go to the one folder ``into``, or to none when that is empty.
        note: what was wrong with the file and could be mended.
        counts: state → outlines.
        goal: outlines of this run; a retry is a run of its own. failed_before: failures it began with.
        started: when this run began to work.
        run: who works on it. tries: how often somebody began without getting on.
    """

    id: int
    user_id: int
    name: str
    created: dt.datetime
    state: ImportState = ImportState.PREVIEW
    title: str = ""
    folders: tuple[ImportFolder, ...] = ()
    empty: tuple[int, ...] = ()
    keep_folders: bool = True
    into: str = ""
    note: str | None = None
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    goal: int = 0
    failed_before: int = 0
    started: dt.datetime | None = None
    touched: dt.datetime | None = None
    ended: dt.datetime | None = None
    run: str | None = None
    tries: int = 0

    def count_items(self, *states: ItemState) -> int:
        """Return how many outlines are in one of these states."""
        return sum(self.counts.get(state.value, 0) for state in states)

    @property
    def total(self) -> int:
        """All outlines."""
        return sum(self.counts.values())

    @property
    def left(self) -> int:
        """Outlines of this run that have not come to an end."""
        return self.count_items(*OPEN)

    @property
    def done(self) -> int:
        """Outlines of this run that have."""
        return max(0, self.goal - self.left)

    @property
    def failed(self) -> int:
        """Outlines of this run that failed."""
        return max(0, self.count_items(ItemState.FAILED) - self.failed_before)

    @property
    def is_active(self) -> bool:
        """Whether it runs or waits for its turn."""
        return self.state in ACTIVE

    @property
    def max_depth(self) -> int:
        """Return how deep its folders lie."""
        depths: list[int] = []
        for folder in self.folders:
            depths.append(1 if folder.parent is None else depths[folder.parent] + 1)
        return max(depths, default=0)

    def estimate_seconds_left(self, now: dt.datetime) -> int | None:
        """Return how long it will take by the pace so far, None while there is none."""
        if self.state is not ImportState.RUNNING or self.started is None or not self.done:
            return None
        return round((now - self.started).total_seconds() / self.done * self.left)

    def build_report(self, now: dt.datetime) -> dict[str, Any]:
        """Return its progress as a small JSON object, for pages and events."""
        return {
            "id": self.id,
            "state": self.state.value,
            "goal": self.goal,
            "done": self.done,
            "added": self.count_items(ItemState.ADDED),
            "already": self.count_items(ItemState.ALREADY),
            "fetching": self.count_items(*UNDER_WAY),
            "failed": self.count_items(ItemState.FAILED),
            "failed_now": self.failed,
            "seconds": self.estimate_seconds_left(now),
        }


def build_import_paths(folders: Sequence[ImportFolder]) -> list[tuple[str, ...]]:
    """Return the path of each folder, outermost name first."""
    found: list[tuple[str, ...]] = []
    for folder in folders:
        above = () if folder.parent is None else found[folder.parent]
        found.append((*above, folder.name))
    return found


class ImportedFeeds(NamedTuple):
    """Feeds that an import subscribed to: ``feeds`` are followed still, ``left`` are not."""

    feeds: tuple[int, ...] = ()
    left: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Pack:
    """A starter pack: feeds to begin with.

    Attributes:
        slug: its name in addresses.
        shipped: it came with Eventr and has not been changed.
        body: the OPML file.
    """

    slug: str
    title: str
    about: str
    body: bytes
    shipped: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ActiveImport:
    """An import that is to be worked on, as whoever queues its job sees it."""

    id: int
    user_id: int
    touched: dt.datetime | None


class PollResult(NamedTuple):
    """How a feed's last poll ended: ``errors`` failed in a row; ``read``: one succeeded, some time."""

    title: str
    has_succeeded: bool
    errors: int
    error: str | None
    checked_at: dt.datetime | None
