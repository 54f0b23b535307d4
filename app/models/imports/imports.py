"""Imports of subscriptions: a file's outlines, the chosen ones, and the progress."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from app.errors import NO_ROOM
from app.models.imports.archives import MarkCount
from app.models.imports.choices import ChoiceKind
from app.models.imports.pulls import Pull, PullKind

#: The attribute of OPML 2.0 that names the language of a feed.
_LANGUAGE = re.compile(rb'<outline [^>]*?\blanguage="([A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*)"')


class ImportState(enum.StrEnum):
    """The stages of an import; QUEUED waits for one of the slots in which imports run.

    READING: a job reads an uploaded file, or another server. UNREADABLE: it couldn't, see ``fault``.
    """

    READING = "reading"
    UNREADABLE = "unreadable"
    PREVIEW = "preview"
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


ACTIVE = (ImportState.QUEUED, ImportState.RUNNING)
ENDED = (ImportState.DONE, ImportState.CANCELLED)


class ItemState(enum.StrEnum):
    """The state of one outline."""

    WAITING = "waiting"  # chosen, not processed yet
    RETRY = "retry"  # failed, to be retried
    FETCHING = "fetching"  # subscribed, first fetch in progress
    ADDED = "added"
    ALREADY = "already"  # already subscribed before
    FAILED = "failed"
    DOUBLE = "double"  # a duplicate; the first one in the file has its folders too
    SKIPPED = "skipped"  # not chosen


UNDER_WAY = (ItemState.RETRY, ItemState.FETCHING)
OPEN = (ItemState.WAITING, *UNDER_WAY)


@dataclasses.dataclass(frozen=True, slots=True)
class ImportFolder:
    """A folder of the file; ``parent`` is the index of its parent in the list of folders."""

    name: str
    parent: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ImportItem:
    """One outline.

    Attributes:
        index: its position in the import, from 0.
        folders: indexes in the import's list of folders; duplicates move theirs to the first outline.
        line: its line in the file, from 1.
        error: word of :data:`app.errors.FEED_MESSAGES` if it failed.
        feed_id: of the feed, once known; before the start: the user already subscribes to it.
        detail: what exactly happened, as in :class:`app.errors.FeedError`.
    """

    index: int
    url: str
    title: str = ""
    folders: tuple[int, ...] = ()
    line: int = 0
    state: ItemState = ItemState.WAITING
    error: str | None = None
    feed_id: int | None = None
    detail: str = ""

    @property
    def can_retry(self) -> bool:
        """Whether it failed, but may succeed next time; addresses that can never be fetched stay failed."""
        passes = self.error == "rate_limited" or (self.error or "").startswith(NO_ROOM)
        return self.state is ItemState.FAILED and (self.feed_id is not None or passes)


@dataclasses.dataclass(frozen=True, slots=True)
class ItemChange:
    """The new state of one outline."""

    state: ItemState
    error: str | None = None
    feed_id: int | None = None
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import, without its outlines.

    Attributes:
        name: of the file or pack.
        title: the title in the file.
        folders: those of the file, parents first; ``empty`` holds the indexes of folders without feeds.
        keep_folders: False: all feeds go to the one folder ``into``, or to none if that is empty.
        note: the fault in the file that was repaired.
        counts: state → number of outlines.
        goal: outlines of this run; a retry is a new run. failed_before: failures before this run.
        started: when this run began to work.
        run: the worker's run. tries: how often a run began without progress.
        file_id: the user's file that is being read.
        fault: sentence and values of the error that made the file unreadable.
        pull: how far it is in reading another server; None: it comes from a file, or all is read.
        server: the other server's interface and address, if it couldn't be read: to begin anew with these.
        choice_counts: :class:`ChoiceKind` → number of rules, searches and feeds with settings in an archive.
        choice_kinds: the kinds of these that are taken over at the end: the starter wants and may that.
        choices_taken: kind → how many of them were new; None: they aren't taken over, or not yet.
        marks: :class:`MarkCount` → number of entries of an archive; empty: the file held only subscriptions.
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
    marks: Mapping[str, int] = dataclasses.field(default_factory=dict)
    file_id: int | None = None
    fault: tuple[str, Mapping[str, Any]] | None = None
    pull: Pull | None = None
    server: tuple[PullKind, str] | None = None
    choice_counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    choice_kinds: tuple[str, ...] = ()
    choices_taken: Mapping[str, int] | None = None

    @property
    def has_waiting_choices(self) -> bool:
        """Whether rules, searches or settings of feeds are still to be taken over."""
        return bool(self.choice_kinds) and self.choices_taken is None

    @property
    def has_choices(self) -> bool:
        """Whether an archive brings rules, searches or settings of feeds."""
        return bool(self.choice_counts.keys() - {ChoiceKind.CUT})

    @property
    def can_go_without_feeds(self) -> bool:
        """Whether it brings something although no feed is selected."""
        rest = {ChoiceKind.RULES, ChoiceKind.SEARCHES}
        return bool(self.waiting_marks or self.choice_counts.keys() & rest)

    @property
    def waiting_marks(self) -> int:
        """The number of marked entries whose feeds aren't imported yet."""
        return self.marks.get(MarkCount.WAITING, 0)

    def count_items(self, *states: ItemState) -> int:
        """Return how many outlines are in one of these states."""
        return sum(self.counts.get(state.value, 0) for state in states)

    @property
    def total(self) -> int:
        """The number of all outlines."""
        return sum(self.counts.values())

    @property
    def left(self) -> int:
        """The number of unfinished outlines of this run."""
        return self.count_items(*OPEN)

    @property
    def done(self) -> int:
        """The number of finished outlines of this run."""
        return max(0, self.goal - self.left)

    @property
    def failed(self) -> int:
        """The number of outlines of this run that failed."""
        return max(0, self.count_items(ItemState.FAILED) - self.failed_before)

    @property
    def is_active(self) -> bool:
        """Whether it is running or queued."""
        return self.state in ACTIVE

    @property
    def max_depth(self) -> int:
        """The depth of the deepest folder."""
        depths: list[int] = []
        for folder in self.folders:
            depths.append(1 if folder.parent is None else depths[folder.parent] + 1)
        return max(depths, default=0)

    def estimate_seconds_left(self, now: dt.datetime) -> int | None:
        """Return the remaining seconds at the pace so far, None until there is a pace."""
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
            "entries": self.pull.entries if self.pull else 0,
            "waits": self.pull is not None and self.pull.is_waiting(now),
        }


def build_import_paths(folders: Sequence[ImportFolder]) -> list[tuple[str, ...]]:
    """Return the path of each folder, outermost name first."""
    found: list[tuple[str, ...]] = []
    for folder in folders:
        above = () if folder.parent is None else found[folder.parent]
        found.append((*above, folder.name))
    return found


class ImportedFeeds(NamedTuple):
    """Feeds that an import subscribed to: ``feeds`` are still subscribed, ``left`` are not."""

    feeds: tuple[int, ...] = ()
    left: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Pack:
    """A starter pack: feeds for new users.

    Attributes:
        slug: its name in addresses.
        shipped: it came with Eventr and hasn't been changed.
        body: the OPML file.
    """

    slug: str
    title: str
    about: str
    body: bytes
    shipped: bool = False

    @property
    def language(self) -> str:
        """The language of the file's first feed that names one (BCP 47), else empty."""
        found = _LANGUAGE.search(self.body)
        return found[1].decode() if found else ""


@dataclasses.dataclass(frozen=True, slots=True)
class ActiveImport:
    """An import to be worked on, as the code that queues its job sees it."""

    id: int
    user_id: int
    touched: dt.datetime | None


class PollResult(NamedTuple):
    """The result of a feed's last poll: ``errors`` in a row; ``has_succeeded``: any poll ever did."""

    title: str
    has_succeeded: bool
    errors: int
    error: str | None
    checked_at: dt.datetime | None
    detail: str = ""
