"""The updater's in-flight jobs: those that it queued and that haven't ended, with their feeds. In Redis.

They are written in the same transaction as the jobs, so a new updater knows the same jobs as the last one,
and no feed is in two batches. They need no expiry: a missing job has ended, and in an emptied Redis nothing
is in flight.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import redis

from app.adapters.redis.jobs import hash_job
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, State, Task

_UNFINISHED = {State.QUEUED, State.STARTED, State.SCHEDULED}
_FIELDS = ("status", "progress", "crashes")
#: Counts of a pull's progress that add up to the number of finished feeds.
_DONE = ("feeds", "skipped", "put_off")


@dataclasses.dataclass(slots=True)
class _Held:
    """One in-flight job; ``done`` of its feeds are counted already."""

    feeds: tuple[int, ...]
    done: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class InFlightCount:
    """Changes to the in-flight jobs since the last look.

    Attributes:
        done: Feeds that were pulled.
        waiting: Feeds in jobs that no worker has claimed, and other jobs of the queue.
        running: Feeds in jobs that workers have claimed.
    """

    done: int
    waiting: int
    running: int


class InFlightJobs:
    """The in-flight jobs, as known to the holder of the lease."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._jobs: dict[str, _Held] = {}
        #: Entries of the hash to remove, since their jobs have ended.
        self._ended: set[str] = set()
        #: Entries to add, since a batch was split.
        self._parts: dict[str, tuple[int, ...]] = {}

    def load(self) -> None:
        """Read the entries of the previous lease holder."""
        rows: Mapping[bytes, bytes] = self._client.hgetall(redis_keys.UPDATER_HAND)  # type: ignore[assignment]
        self._jobs = {job.decode(): _Held(_ids(text)) for job, text in rows.items()}
        self._ended, self._parts = set(), {}

    @property
    def feeds(self) -> frozenset[int]:
        """Feeds that must not be queued now."""
        return frozenset(feed for held in self._jobs.values() for feed in held.feeds)

    def count(self) -> InFlightCount:
        """Count the in-flight jobs, and drop those that have ended."""
        with self._client.pipeline(transaction=False) as pipe:
            pipe.llen(redis_keys.make_queue_key(Queue.PULL_SYSTEM))
            for job in self._jobs:
                pipe.hmget(redis_keys.make_job_key(job), _FIELDS)
            length, *rows = pipe.execute()
        done, waiting, queued = 0, 0, 0
        suspects: dict[str, tuple[int, ...]] = {}
        for (job, held), (status, progress, crashes) in zip(list(self._jobs.items()), rows, strict=True):
            state = status.decode() if status else State.MISSING
            reached = len(held.feeds) if state in (State.FINISHED, State.FAILED) else _reached(progress)
            done += max(0, reached - held.done)
            held.done = max(held.done, reached)
            if state == State.QUEUED:
                waiting, queued = waiting + len(held.feeds), queued + 1
            elif state not in _UNFINISHED:
                self._let_go(job)
                # A crashed batch ends by being split. Without its record this is unknown, so look for parts
                # too.
                if len(held.feeds) > 1 and (not status or int(crashes or 0)):
                    suspects.update(_parts(held.feeds))
        self._keep(suspects)
        running = sum(len(held.feeds) for held in self._jobs.values()) - waiting
        return InFlightCount(done, waiting + max(0, length - queued), running)

    def write(self, pipe: Any, tickets: Iterable[tuple[str, Sequence[int]]]) -> None:
        """Add the changes since the last transaction to this one, and new jobs with their feeds."""
        new = {job: tuple(feeds) for job, feeds in tickets}
        entries = {job: ",".join(map(str, feeds)) for job, feeds in (self._parts | new).items()}
        if gone := self._ended - entries.keys():
            pipe.hdel(redis_keys.UPDATER_HAND, *gone)
        if entries:
            pipe.hset(redis_keys.UPDATER_HAND, mapping=entries)

    def confirm_written(self, tickets: Iterable[tuple[str, Sequence[int]]]) -> None:
        """Record that the transaction took effect."""
        self._jobs |= {job: _Held(tuple(feeds)) for job, feeds in tickets}
        self._ended, self._parts = set(), {}

    def _let_go(self, job: str) -> None:
        del self._jobs[job]
        self._parts.pop(job, None)
        self._ended.add(job)

    def _keep(self, parts: Mapping[str, tuple[int, ...]]) -> None:
        """Add those of these jobs that haven't ended."""
        if not parts:
            return
        with self._client.pipeline(transaction=False) as pipe:
            for job in parts:
                pipe.hget(redis_keys.make_job_key(job), "status")
            states = pipe.execute()
        for (job, feeds), status in zip(parts.items(), states, strict=True):
            if status and status.decode() in _UNFINISHED:
                self._jobs[job] = _Held(feeds)
                self._parts[job] = feeds


def build_pull(feeds: Sequence[int]) -> Job:
    """Return the job that pulls a batch."""
    return Job(Task.PULL_SYSTEM, {"feed_ids": list(feeds)}, Queue.PULL_SYSTEM)


def _parts(feeds: Sequence[int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the jobs that a batch is split into: their ids follow from their content."""
    for feed in feeds:
        job = build_pull([feed])
        yield hash_job(job.task, job.args), (feed,)


def _ids(text: bytes) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(b","))


def _reached(progress: bytes | None) -> int:
    counts = json.loads(progress) if progress else {}
    return sum(int(counts.get(name, 0)) for name in _DONE)
