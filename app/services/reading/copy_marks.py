"""Marks of copies: what a mass mark of feeds reads is read in the reader's other feeds, too."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from app import clock, logs
from app.errors import StoreError
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.read_marks import NO_WORK, CopyWork, FeedMarks, ReadMarkGateway
from app.models.accounts.actor import Actor
from app.models.jobs.jobs import Job, Queue, Task
from app.models.reading.entry import EntryKey
from app.ports import EventPort, JobPort
from app.services.reading.stories import StoryService

log = logs.get(__name__)

#: Entries whose copies are looked up at once. A mass mark of more leaves that to a job.
AT_ONCE = 1000
#: Time between two looks for mass marks that need another job.
EVERY = dt.timedelta(minutes=1)


class CopyMarks:
    """Marks copies of the entries that a mass mark of feeds has read; its undo includes them.

    Args:
        undo_ttl: seconds for which a mark can be undone.
    """

    def __init__(
        self,
        stories: StoryService,
        entries: EntryGateway,
        read_marks: ReadMarkGateway,
        accounts: AccountGateway,
        *,
        jobs: JobPort,
        events: EventPort,
        undo_ttl: float,
    ) -> None:
        self._stories, self._entries = stories, entries
        self._reads, self._accounts = read_marks, accounts
        self._jobs, self._events = jobs, events
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)
        self._next: dt.datetime | None = None

    def choose_limit(self, actor: Actor, feed_ids: Collection[int] | None) -> int | None:
        """Return the number of entries above which a job marks their copies; None: no copies are marked.

        Args:
            feed_ids: the feeds that a mass mark is about to read; None: all of the actor's.
        """
        if feed_ids is None or not self._stories.has_other_feeds(actor, frozenset(feed_ids)):
            return None
        return AT_ONCE

    def mark(self, actor: Actor, done: FeedMarks, feed_ids: Collection[int]) -> int:
        """Mark the copies of entries that a mass mark has just read, or queue a job if there are many.

        Args:
            done: the mass mark.
            feed_ids: the feeds that it was to read. Entries that the mark left unread there stay unread.

        Returns:
            How many copies this marked; 0: a job does.
        """
        token, user_id = done.result.undo, actor.user_id
        if done.has_job:
            with contextlib.suppress(StoreError):  # found again in the database, see find_due_jobs
                self._jobs.enqueue(_make_job(user_id, token, 0))
            return 0
        copies = self._find_copies(actor, done.list_seqs(), feed_ids)
        if not copies:
            return 0
        marked = self._reads.mark_copies(user_id, token, copies, clock.now() + self._undo_ttl)
        return sum(map(len, marked.values()))

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return jobs for mass marks whose copies no job marks, at most once a minute."""
        if self._next is not None and now < self._next:
            return []
        self._next = now + EVERY
        return [_make_job(*row, 0) for row in self._reads.find_waiting_copies(now)]

    def run(
        self,
        user_id: int,
        token: str,
        after: int,
        *,
        seconds: float,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> dict[str, int]:
        """Mark the copies of the entries that a mass mark has read, unless it was undone.

        Safe to run twice, even concurrently, and to be killed anywhere. Another job continues if this one has
        no more time.

        Args:
            after: the last feed of the previous job, or 0.
        """
        user = self._accounts.find_user(user_id)
        if user is None:
            return {"entries": 0}
        work = self._reads.find_copy_work(user_id, token, clock.now()) or NO_WORK
        end, marked, place = time.monotonic() + seconds, 0, after
        for feed_id in sorted(f for f in work.seqs if f > after):
            # At least one feed: a job with the same arguments as this one would not be queued.
            if place != after and (is_stopping() or time.monotonic() >= end):
                self._jobs.enqueue(_make_job(user_id, token, place))
                self._events.notify_counts(user_id)
                return {"entries": marked}
            found = self._mark_feed(user.actor, token, feed_id, work)
            if found is None:
                break
            marked, place = marked + found, feed_id
        is_undone = self._reads.end_copies(user_id, token, synced=user.actor.synced)
        if marked or is_undone:
            self._events.notify_counts(user_id)
            log.info("copies_marked", user_id=user_id, count=marked, undone=is_undone)
        return {"entries": marked}

    def _mark_feed(self, actor: Actor, token: str, feed_id: int, work: CopyWork) -> int | None:
        """Mark the copies of a feed's entries; return how many, or None if the mass mark was undone."""
        marked = 0
        for part in _split(work.seqs[feed_id]):
            copies = self._find_copies(actor, {feed_id: part}, work.feed_ids)
            found = self._reads.mark_copies_in_job(actor.user_id, token, copies, synced=actor.synced)
            if found is None:
                return None
            marked += sum(map(len, found.values()))
        return marked

    def _find_copies(
        self, actor: Actor, seqs: Mapping[int, Sequence[int]], feed_ids: Collection[int]
    ) -> list[EntryKey]:
        """Return the copies of entries in feeds other than these."""
        marked = frozenset(feed_ids)
        copies = self._stories.find_copies(actor, self._entries.find_by_seqs(seqs))
        return [key for key in copies if key.feed_id not in marked]


def _split(seqs: Sequence[int]) -> Iterator[list[int]]:
    numbers = iter(seqs)
    while part := list(itertools.islice(numbers, AT_ONCE)):
        yield part


def _make_job(user_id: int, token: str, after: int) -> Job:
    args = {"user_id": user_id, "token": token, "after": after}
    return Job(Task.MARK_COPIES, args, Queue.MAINTENANCE)
