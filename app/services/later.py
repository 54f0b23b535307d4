"""Delayed tasks: the table of kinds, and the updater's side of running them.

A kind makes a job of a request, and lists the tasks that the database says are pending. So nothing is lost
with Redis: the tasks are restored from the database. A task may run twice, and must do no harm then.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from app import logs
from app.errors import DrainingError, InvalidError, TooLargeError
from app.models.jobs.jobs import Job, Queue, State
from app.models.jobs.later import KEY_MAX, DeadLetter, DueBatch, DueTask, PendingTask
from app.ports import JobPort, LaterQueue

log = logs.get(__name__)

#: Time between two looks at what the database says is pending.
REBUILD_EVERY: Final = dt.timedelta(minutes=10)
#: A task that is this late was missed.
MISSED: Final = dt.timedelta(seconds=60)
#: Batches of one turn; the updater does its other work in between.
BATCHES: Final = 10
#: Seconds by which a task is postponed whose job is running, or whose batch failed.
PAUSE: Final = 5.0
#: States of a job that will run after this moment.
_TO_COME = (State.QUEUED, State.SCHEDULED)


@dataclasses.dataclass(frozen=True, slots=True)
class LaterKind:
    """A kind of delayed tasks.

    Attributes:
        name: as in :meth:`app.ports.LaterPort.touch`.
        make_job: makes the job from the arguments of the last request.
        rebuild: yields what the database says is pending at a time; what Redis already has is left alone.
    """

    name: str
    make_job: Callable[[Mapping[str, Any]], Job]
    rebuild: Callable[[dt.datetime], Iterable[PendingTask]]


class DeadLetters(Protocol):
    """Where tasks go that can't be queued; ``app.mappers.operations.dead_letters.DeadLetterMapper``.

    All methods raise:
        StoreError: MongoDB isn't responding.
    """

    def add_many(self, letters: Collection[DeadLetter]) -> None:
        """Store letters; a task's new letter replaces its old one."""
        ...

    def find(self, letter_id: str) -> DeadLetter | None:
        """Return a letter, or None."""
        ...

    def find_newest(self, limit: int) -> list[DeadLetter]:
        """Return the newest letters."""
        ...

    def remove(self, letter_id: str) -> bool:
        """Delete a letter; return False if it doesn't exist."""
        ...


class LaterRunner:
    """Queues the jobs of delayed tasks whose time has come. Several processes may do so at once."""

    def __init__(
        self, later: LaterQueue, jobs: JobPort, letters: DeadLetters, kinds: Sequence[LaterKind]
    ) -> None:
        self._later, self._jobs, self._letters = later, jobs, letters
        self._kinds = {kind.name: kind for kind in kinds}
        self._rebuild_at: dt.datetime | None = None

    def run_due(self, now: dt.datetime) -> dt.datetime | None:
        """Queue the jobs of due tasks; return when to look again, None: nothing is pending.

        Raises:
            StoreError: Redis isn't responding, or MongoDB isn't when a letter must be stored. The tasks stay.
        """
        for _ in range(BATCHES):
            found = self._later.claim_due(now)
            if not isinstance(found, DueBatch):
                return found
            self._run_batch(found, now)
        return now

    def rebuild(self, now: dt.datetime, *, at_once: bool = False) -> int:
        """Restore what the database says is pending, every ten minutes; return how many tasks were lost.

        Args:
            at_once: the updater has just started, or Redis may have lost everything.

        Raises:
            StoreError: a store isn't responding; the next call tries again.
        """
        if self._rebuild_at is not None and now < self._rebuild_at and not at_once:
            return 0
        self._rebuild_at = None
        lost = sum(self._later.restore(kind.name, kind.rebuild(now)) for kind in self._kinds.values())
        self._rebuild_at = now + REBUILD_EVERY
        if lost:
            log.info("later_restored", count=lost)
        return lost

    def _run_batch(self, batch: DueBatch, now: dt.datetime) -> None:
        # After an error all tasks stay, and the batch is released for a later turn.
        postponed = dict.fromkeys((task.member for task in batch.tasks), PAUSE)
        try:
            postponed = self._queue(batch.tasks, now)
        finally:
            self._later.finish(batch, postponed, now)
        late = sum(1 for task in batch.tasks if task.due < now - MISSED)
        if late:
            log.warning("later_missed", count=late)
            self._later.count_missed(late)

    def _queue(self, tasks: Sequence[DueTask], now: dt.datetime) -> dict[bytes, float]:
        """Queue the jobs of tasks; return which ones to postpone, and by how many seconds."""
        queues: defaultdict[Queue, list[tuple[DueTask, Job]]] = defaultdict(list)
        letters: list[DeadLetter] = []
        for task in tasks:
            job = self._make_job(task)
            if isinstance(job, str):
                letters.append(_write_letter(task, job, now))
            else:
                queues[job.queue].append((task, job))
        postponed: list[bytes] = []
        for pairs in queues.values():
            self._enqueue(pairs, now, postponed, letters)
        if letters:
            log.warning("later_dead", count=len(letters), error=letters[0].error)
            self._letters.add_many(letters)
        return dict.fromkeys(postponed, PAUSE)

    def _enqueue(
        self,
        pairs: Sequence[tuple[DueTask, Job]],
        now: dt.datetime,
        postponed: list[bytes],
        letters: list[DeadLetter],
    ) -> None:
        """Enqueue jobs of one queue; those that can't be queued become letters."""
        try:
            tickets = self._jobs.enqueue_many([job for _, job in pairs])
        except DrainingError as e:
            letters += [_write_letter(task, e.word, now) for task, _ in pairs]
        except (InvalidError, TooLargeError) as e:
            if len(pairs) == 1:
                letters.append(_write_letter(pairs[0][0], e.word, now))
            else:  # none was queued: find the bad ones by halves
                half = len(pairs) // 2
                for some in (pairs[:half], pairs[half:]):
                    self._enqueue(some, now, postponed, letters)
        else:
            for (task, _), ticket in zip(pairs, tickets, strict=True):
                if not ticket.fresh and self._jobs.get_status(ticket.id).state not in _TO_COME:
                    postponed.append(task.member)  # that run may have read older data

    def _make_job(self, task: DueTask) -> Job | str:
        """Return the job of a task, or the error word that says why there can't be one."""
        kind = self._kinds.get(task.kind)
        if kind is None:
            return "unknown_kind"
        if task.args is None:
            return InvalidError.code
        try:
            return kind.make_job(task.args)
        except (KeyError, TypeError, ValueError):  # Redis isn't trusted (J01)
            return InvalidError.code


def _write_letter(task: DueTask, error: str, now: dt.datetime) -> DeadLetter:
    kind, key = task.kind[:KEY_MAX], task.key[:KEY_MAX]
    ident = hashlib.sha256(task.member).hexdigest()[:32]
    args = None if error == TooLargeError.code else task.args
    return DeadLetter(ident, kind, key, args, error, task.due, now)
