"""Marks of copies: what a mass mark of feeds reads is read in the reader's other feeds, too."""

from __future__ import annotations

import datetime as dt
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from app import clock, logs
from app.gateways.accounts.accounts import AccountGateway
from app.gateways.reading.changes import ChangeGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.read_marks import FeedMarks, ReadMarkGateway
from app.models.accounts.actor import Actor
from app.models.jobs.jobs import Job, Queue, Task
from app.models.reading.entry import EntryKey
from app.ports import EventPort, JobPort
from app.services.reading.stories import StoryService

log = logs.get(__name__)

#: Entries whose copies are looked up at once. A mass mark of more leaves that to a job.
AT_ONCE = 1000


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
        changes: ChangeGateway,
        accounts: AccountGateway,
        *,
        jobs: JobPort,
        events: EventPort,
        undo_ttl: float,
    ) -> None:
        self._stories, self._entries = stories, entries
        self._reads, self._changes, self._accounts = read_marks, changes, accounts
        self._jobs, self._events = jobs, events
        self._undo_ttl = dt.timedelta(seconds=undo_ttl)

    def mark(self, actor: Actor, done: FeedMarks) -> int:
        """Mark the copies of entries that a mass mark has just read, or queue a job if there are many.

        Args:
            done: the mass mark.

        Returns:
            How many copies this marked; 0: a job does.
        """
        if not self._stories.has_other_feeds(actor, done.ranges):
            return 0
        if done.result.count > AT_ONCE:
            self._jobs.enqueue(_make_job(actor.user_id, done.result.undo, 0))
            return 0
        return sum(map(len, self._mark_part(actor, done.result.undo, done.list_seqs()).values()))

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
        seqs = self._reads.find_marked(user_id, token, clock.now())
        end, marked = time.monotonic() + seconds, 0
        for feed_id in sorted(f for f in seqs if f > after):
            if is_stopping() or time.monotonic() >= end:
                self._jobs.enqueue(_make_job(user_id, token, after))
                break
            for part in _split(seqs[feed_id]):
                found = self._mark_part(user.actor, token, {feed_id: part})
                if user.actor.synced:
                    self._changes.record_changes(user_id, found)
                marked += sum(map(len, found.values()))
            after = feed_id
        if marked:
            if not self._reads.is_undoable(user_id, token, clock.now()):
                self._reads.undo_mass_mark(user_id, token, clock.now())  # it was undone meanwhile
            self._events.notify_counts(user_id)
            log.info("copies_marked", user_id=user_id, count=marked)
        return {"entries": marked}

    def _mark_part(
        self, actor: Actor, token: str, seqs: Mapping[int, Sequence[int]]
    ) -> Mapping[int, Sequence[int]]:
        keys = self._entries.find_by_seqs(seqs)
        copies: Sequence[EntryKey] = self._stories.find_copies(actor, keys)
        if not copies:
            return {}
        return self._reads.mark_copies(actor.user_id, token, copies, clock.now() + self._undo_ttl)


def _split(seqs: Sequence[int]) -> Iterator[list[int]]:
    numbers = iter(seqs)
    while part := list(itertools.islice(numbers, AT_ONCE)):
        yield part


def _make_job(user_id: int, token: str, after: int) -> Job:
    args = {"user_id": user_id, "token": token, "after": after}
    return Job(Task.MARK_COPIES, args, Queue.MAINTENANCE)
