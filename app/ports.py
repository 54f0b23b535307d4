"""Ports: contracts that services own and outer layers implement."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from app.models.cache import Changed, LogChanges, LogPosition, WriteHold
from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.feeds.spent_bytes import SpentBytes
from app.models.jobs.job_engine import DeadKind, DeadPage, Engine, JobRecord
from app.models.jobs.jobs import Job, JobView, Outcome, Queue, Ticket
from app.models.jobs.later import DueBatch, PendingTask
from app.models.media.blob import Purpose
from app.models.media.drawn import Drawn
from app.models.media.store import Piece, StoredFile, StoreSpace, StoreState
from app.models.media.upload import PartDigest, StagedFile, Upload
from app.models.reading.search import IndexPart, SearchDocument, SearchRequest, SearchResult


class JobPort(Protocol):
    """Enqueue jobs and await their results; ``app.adapters.redis.jobs.RedisJobs`` in every process.

    All methods raise:
        StoreError: Redis isn't responding.
    """

    def enqueue(self, job: Job) -> Ticket:
        """Queue a job, or join a queued or running one with the same task and arguments.

        Raises:
            TooLargeError: the arguments exceed 64 KiB as JSON.
            InvalidError: the arguments aren't JSON.
        """
        ...

    def enqueue_many(self, jobs: Sequence[Job]) -> list[Ticket]:
        """Queue many jobs in few round trips; return tickets in the order of the jobs."""
        ...

    def await_many(self, tickets: Sequence[Ticket], timeout: float) -> Iterator[Outcome]:
        """Yield outcomes as they arrive, for at most ``timeout`` seconds.

        Jobs that haven't ended by then are omitted: 95 of 100 may be enough for the caller.
        """
        ...

    def get_status(self, job_id: str) -> JobView:
        """Return a job's state and last progress; never raises for an unknown id."""
        ...


class FetchStreamer(Protocol):
    """Fetches many addresses at once; implemented by :class:`app.feeds.fetch.fetcher.Fetcher`."""

    def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        """Yield the result of each request as soon as it arrives, in no particular order."""
        ...


class HostBudget(Protocol):
    """The rate limit of hosts, across all workers and servers;
    ``app.adapters.redis.host_budget.RedisBudget``.

    Without Redis every request is allowed, because nothing new is queued then either.
    """

    def take_tokens(
        self, hosts: Sequence[str], *, urgent: bool = False, unpaused: Sequence[bool] = ()
    ) -> list[float]:
        """Take one token per entry; return for each 0, or the seconds after which to retry.

        Entries of one host that get no token have different waits, so that they don't retry together.

        Args:
            hosts: names in lower case, one per request; names may repeat.
            urgent: a person waits. Their requests may exceed the rate by a second burst, which later
                requests of the updater pay back. One of them passes a paused host.
            unpaused: for each entry, whether a pause of its host doesn't apply to it; empty: to none.
        """
        ...

    def pause_host(self, host: str, seconds: float, url: str) -> None:
        """Pause requests to a host and all its feeds, as it requested (429, 503) at this address.

        One address doesn't speak for a host that many share. The host is paused once three addresses have
        asked; a long pause is limited to ``fetch_host_rest`` seconds, doubled for each further address.

        Args:
            host: name in lower case.
            seconds: the requested pause.
            url: the feed's address, by which the addresses that asked are counted.
        """
        ...

    def find_pauses(self, hosts: Sequence[str]) -> list[float]:
        """Return for each host the remaining seconds of its pause, 0 without one."""
        ...


class ByteLedger(Protocol):
    """Counts the bytes fetched per day; ``app.adapters.redis.byte_ledger.RedisByteLedger``.

    Without Redis nothing is counted, and nothing is refused.
    """

    def get_spent(self, day: dt.date) -> SpentBytes:
        """Return what was spent on a day (UTC)."""
        ...

    def add(self, day: dt.date, total: int, users: Mapping[int, int]) -> None:
        """Count fetched bytes: of the whole system, and of users (id → bytes)."""
        ...

    def set_payer(self, search: int, user_id: int) -> None:
        """Remember for an hour which user started a search."""
        ...

    def find_payer(self, search: int) -> int | None:
        """Return which user started a search; None: it isn't known."""
        ...


class EventPort(Protocol):
    """Notify people's browsers of events; ``app.adapters.redis.events.RedisEvents`` in every process.

    Only :meth:`get_position` and :meth:`issue_pass` raise StoreError; other events are dropped on failure.
    """

    def notify_counts(self, user_id: int) -> None:
        """Notify a user's browsers that their counts or stars have changed."""
        ...

    def notify_new_entries(self, entries: Mapping[int, int]) -> None:
        """Notify the subscribers of these feeds how many new entries each feed has."""
        ...

    def notify_progress(self, user_id: int, import_id: int, report: Mapping[str, Any]) -> None:
        """Notify a user's browsers of an import's progress."""
        ...

    def notify_follows(
        self, user_id: int, *, added: Collection[int] = (), removed: Collection[int] = ()
    ) -> None:
        """Report which feeds a user has subscribed to or unsubscribed from."""
        ...

    def end_streams(self, user_id: int) -> None:
        """End all of a user's event streams, because a session ended or a token was revoked."""
        ...

    def get_position(self) -> str:
        """Return the position in the stream after which all future events come."""
        ...

    def issue_pass(self, user_id: int, feed_ids: Sequence[int], at: str) -> str:
        """Return a signed pass that lets a browser of this user listen."""
        ...


class SearchPort(Protocol):
    """A search engine; ``app.adapters.search.local.LocalSearch`` on this server, or another server's.

    Raises:
        SearchUnavailableError: there is no index, it can't be read, or it takes too long.
    """

    def find(self, wanted: SearchRequest, limit: int) -> SearchResult:
        """Return about ``limit`` entries; fewer only at the end or after a time limit.

        More than ``limit`` entries may be returned. Results are exact, but an entry that was just stored may
        be missing.
        """
        ...


class SearchIndexPort(Protocol):
    """The index that the engine searches, for its one writer; ``app.adapters.search.local.LocalSearch``.

    It can always be rebuilt from the entries. Changes are neither visible nor durable before
    :meth:`commit_batch`. During a rebuild there are two indexes, the present and the new one; changes reach
    both unless the caller names one.

    All methods raise:
        SearchUnavailableError: the index can't be written. Close it; the next ``open`` begins anew.
    """

    @property
    def is_supported(self) -> bool:
        """Whether this server can have an index at all."""
        ...

    def get_identity(self) -> str:
        """Return the name of this place for an index, which survives the index itself."""
        ...

    @property
    def position(self) -> int | None:
        """The last feed that the new index has completely; None: there is no new index."""
        ...

    @property
    def is_replacing(self) -> bool:
        """Whether a new index is built beside a present one."""
        ...

    def open(self, *, answer_early: bool) -> list[int]:
        """Open the index unless it is open; without one, begin a new one.

        Args:
            answer_early: let a new index that replaces nothing answer before it is complete.

        Returns:
            The feeds of a batch that was committed without :meth:`finish_batch`.
        """
        ...

    def has_index(self) -> bool:
        """Return whether an index answers."""
        ...

    def count_entries(self, feeds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """Return the number of indexed entries of each feed, from its first to its last number."""
        ...

    def find_last_number(self, feed_id: int) -> int:
        """Return the highest number of a feed's entries; 0: there are none."""
        ...

    def list_entries(self, after: int, limit: int) -> list[tuple[int, int]]:
        """Return the entries with ids above ``after``, ascending: pairs of id and feed."""
        ...

    def begin_build(self) -> None:
        """Begin a new index beside the present one, which answers until :meth:`finish_build`."""
        ...

    def finish_build(self) -> None:
        """Let the new index answer from now on, and delete its predecessor."""
        ...

    def add(self, entries: Collection[SearchDocument], part: IndexPart = IndexPart.BOTH) -> None:
        """Add entries, or replace them; idempotent."""
        ...

    def remove(self, feed_id: int, below: int, keep: Collection[int] = ()) -> None:
        """Remove a feed's entries below number ``below``, except ``keep``."""
        ...

    def remove_feed(self, feed_id: int, part: IndexPart = IndexPart.BOTH) -> None:
        """Remove all entries of a feed."""
        ...

    def remove_entries(self, feed_id: int, entry_ids: Collection[int]) -> None:
        """Remove entries of a feed; an entry that has moved to another feed stays there."""
        ...

    def commit_batch(self, feed_ids: Collection[int], position: int | None = None) -> None:
        """Make all changes durable and visible.

        Args:
            feed_ids: the feeds with changes, for :meth:`open` after a crash.
            position: the last feed that the new index has completely.
        """
        ...

    def finish_batch(self) -> None:
        """Record that the marks of the committed feeds are removed."""
        ...

    def close(self) -> None:
        """Release the index; changes since the last commit are lost."""
        ...


class PartSource(Protocol):
    """The bytes of a part: the first ``size`` bytes of an open file."""

    @property
    def descriptor(self) -> int:
        """The open file; its owner closes it."""
        ...

    @property
    def size(self) -> int:
        """How many bytes there are."""
        ...


class MediaStore(Protocol):
    """A place for files by key; ``app.adapters.media.disk.DiskStore`` and its siblings.

    All methods raise:
        MediaStoreError: the store isn't responding, or refuses.
    """

    @property
    def name(self) -> str:
        """The name of the store in :attr:`Blob.copies`, the same after each start."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether the store is a folder of this machine, so that its pieces are descriptors."""
        ...

    def put(self, key: str, source: BinaryIO, size: int) -> None:
        """Store a file durably: afterwards it is there as a whole, after an error or a crash not at all.

        Raises:
            NoSpaceError: the store is full.
        """
        ...

    def open(self, key: str, first: int = 0, last: int | None = None) -> Piece:
        """Return a file, or its bytes from ``first`` to ``last`` inclusive.

        Raises:
            NotFoundError: there is no such file.
        """
        ...

    def delete(self, key: str) -> None:
        """Delete a file; a missing one is a success."""
        ...

    def list_files(self, shard: str) -> Iterator[StoredFile]:
        """Yield all files of a shard, the first two digits of their keys; temporary ones, too."""
        ...

    def measure_space(self) -> StoreSpace | None:
        """Return the store's space, None: it has no limit that it knows of."""
        ...


class UploadStaging(Protocol):
    """The files of uploads in progress; ``app.adapters.media.staging.FolderStaging``.

    A file's length is the upload's offset: no document repeats it.

    All methods raise:
        NoSpaceError: the disk is full, or doesn't accept data; nothing has changed.
    """

    @property
    def home(self) -> str:
        """The id of the EVENTR_HOME that has the files; servers that share the folder have the same one.

        Raises:
            StoreError: it can't be read.
        """
        ...

    def create(self, upload: Upload) -> None:
        """Create the empty file of a new upload."""
        ...

    def append(
        self,
        upload: Upload,
        offset: int,
        source: PartSource | bytes,
        *,
        digest: PartDigest | None = None,
        part_start: int | None = None,
    ) -> int:
        """Append a part durably, or the next slice of one, and return the new length. The file must exist.

        Args:
            offset: the length that the sender expects.
            digest: checksum of the part, given with its last slice. If it doesn't match, the file ends where
                the part began; it never has bytes of the last slice.
            part_start: where the part begins; None: at ``offset``.

        Raises:
            NotFoundError: the upload was deleted.
            OffsetError: the file has another length; the error names it.
            ChecksumError: the part doesn't match its checksum.
        """
        ...

    def truncate_file(self, upload: Upload, size: int, expected: int) -> None:
        """Cut the file to ``size`` bytes if it has ``expected``, as after a part that broke off."""
        ...

    def measure(self, upload: Upload) -> StagedFile | None:
        """Return length and time of the last part; None: there is no such file on this machine."""
        ...

    def open(self, upload: Upload) -> AbstractContextManager[Path]:
        """Return a path to the file's bytes, valid within the context.

        Raises:
            NotFoundError: there is no such file on this machine.
        """
        ...

    def remove(self, upload: Upload) -> None:
        """Delete the file; a missing one is a success."""
        ...

    def list_days(self) -> list[dt.date]:
        """Return the days of which there are files, oldest first."""
        ...

    def list_ids(self, day: dt.date) -> list[str]:
        """Return the uploads of a day that have files."""
        ...

    def remove_day(self, day: dt.date, keep: Collection[str]) -> int:
        """Delete the files of a day except those of the uploads in ``keep``; return how many."""
        ...


class MediaStores(Protocol):
    """All media stores together; ``app.adapters.media.store_set.StoreSet``.

    A store that fails three times in a row is passed over for a while.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the stores, in the order of reading."""
        ...

    @property
    def stores(self) -> Sequence[MediaStore]:
        """The stores one by one, in the order of reading; for cleaners that list files."""
        ...

    def put(self, key: str, source: Path | bytes, size: int) -> tuple[str, ...]:
        """Store a file in all stores at once; return the names of the stores that have it.

        Raises:
            MediaStoreError: fewer than ``media_copies`` stores have it.
            NoSpaceError: as before, because a store is full.
        """
        ...

    def open(self, key: str, first: int = 0, last: int | None = None, copies: Collection[str] = ()) -> Piece:
        """Return a file, or its bytes from ``first`` to ``last`` inclusive, from the first store that has it.

        Stores that should have the file and lack it get it again, in the background.

        Args:
            copies: names of the stores that have the file; they are tried first.

        Raises:
            NotFoundError: no store has the file.
            MediaStoreError: no store gave the file, but one that isn't responding may have it.
        """
        ...

    def delete(self, key: str) -> bool:
        """Delete a file everywhere; return whether each store has confirmed it. Never raises."""
        ...

    def copy(self, key: str, name: str) -> None:
        """Copy a file from the other stores to the store of this name, even if that is passed over.

        Raises:
            NotFoundError: no other store has the file.
            MediaStoreError: a store isn't responding, or is unknown.
        """
        ...

    def measure_space(self) -> StoreSpace | None:
        """Return the space of the store with the least free space; None: no store knows its own."""
        ...

    def describe(self) -> list[StoreState]:
        """Return the state of each store; measures their space."""
        ...


class PictureDrawer(Protocol):
    """Draws pictures anew; ``app.adapters.media.drawing.PillowDrawer``.

    It decodes what strangers made, so it is only called in a worker, whose memory and time are limited.
    """

    def draw(self, source: Path | bytes, purpose: Purpose) -> Drawn:
        """Draw a picture in all sizes of a purpose: icon, avatar or picture.

        Raises:
            PictureError: it isn't a picture, is damaged, or exceeds a limit.
        """
        ...


class PictureBodies(Protocol):
    """Pictures that wait to be drawn; ``app.adapters.media.bodies.DiskBodies``.

    A name has 32 hexadecimal digits. A subject and a hyphen may precede them: ``avatar-7`` is for person 7.

    All methods raise:
        NotFoundError: the name isn't one of ours.
    """

    @property
    def home(self) -> str:
        """The id of the EVENTR_HOME that has the files; servers that share the folder have the same one.

        Raises:
            StoreError: it can't be read.
        """
        ...

    def put(self, name: str, source: BinaryIO) -> None:
        """Store a body; it is there as a whole, or not at all.

        Raises:
            StoreError: the disk is full or refuses.
        """
        ...

    def get_path(self, name: str) -> Path:
        """Return the file of a body, which may be missing."""
        ...

    def delete(self, name: str) -> None:
        """Delete a body; a missing one is a success."""
        ...

    def delete_older(self, name: str) -> None:
        """Delete what came before a body for the same subject."""
        ...

    def delete_of(self, subject: str) -> None:
        """Delete all bodies of a subject."""
        ...

    def list_waiting(self, seconds: float) -> list[tuple[str, str]]:
        """Return (subject, name) of the bodies with a subject that have waited for longer than this."""
        ...

    def delete_old(self, seconds: float) -> int:
        """Delete what has been waiting for longer than this; return how many files it was."""
        ...


class ChangeLog(Protocol):
    """What processes have written to MongoDB; ``app.adapters.redis.change_log.RedisChangeLog``.

    No method raises: without Redis, nothing may be used that an earlier request has read.
    """

    @property
    def connections(self) -> int:
        """How often this process has connected; a new connection may lead to another server."""
        ...

    def read_changes(self, position: LogPosition | None) -> LogChanges | None:
        """Return what has changed since a position; None: Redis isn't responding.

        Args:
            position: the end of the log at an earlier call; None: there was none.
        """
        ...

    def begin_write(self, changed: Sequence[Changed]) -> WriteHold:
        """Report what a write is about to change; until its end, nobody keeps these values."""
        ...

    def end_write(self, hold: WriteHold) -> None:
        """Report that a write has ended."""
        ...


class LaterPort(Protocol):
    """Delayed tasks, of which only the last of several counts; ``app.adapters.redis.later.RedisLater``.

    Nothing lives here alone: after Redis was emptied, each kind's ``rebuild`` says again what is pending.
    """

    def touch(self, kind: str, key: str, args: Mapping[str, Any], *, delay: float, limit: float) -> None:
        """Run a task after ``delay`` seconds without another touch of the same kind and key.

        Args:
            kind: name of a kind in ``app.bootstrap.services.Services.later_kinds``.
            key: names what the task is about within its kind: ids, at most 200 characters.
            args: arguments of its job; those of the last touch count.
            limit: seconds after the first touch at which it runs in any case.

        Raises:
            InvalidError: the arguments aren't JSON, or not a job's.
            TooLargeError: the arguments exceed 64 KiB as JSON.
            StoreError: Redis isn't responding.
        """
        ...


class LaterQueue(LaterPort, Protocol):
    """The updater's side of delayed tasks; ``app.adapters.redis.later.RedisLater``.

    All methods raise:
        StoreError: Redis isn't responding.
    """

    def restore(self, kind: str, tasks: Iterable[PendingTask]) -> int:
        """Add tasks that aren't pending; return how many there were."""
        ...

    def claim_due(self, now: dt.datetime) -> DueBatch | dt.datetime | None:
        """Lock due tasks; without any, return when the next task is due, None: there is none."""
        ...

    def finish(self, batch: DueBatch, postponed: Mapping[bytes, float], now: dt.datetime) -> int:
        """Remove the tasks of a claimed batch, unless they were touched in the meantime.

        Args:
            postponed: member → seconds by which to postpone a task instead.

        Returns:
            How many tasks stay; -1: another process has claimed the batch, and nothing has changed.
        """
        ...

    def count_missed(self, count: int) -> None:
        """Count tasks that were more than a minute late."""
        ...


class EnginePort(Protocol):
    """Inspect and control the job engine; ``app.adapters.redis.job_engine.RedisEngine``.

    All methods raise:
        StoreError: Redis isn't responding.
    """

    def load_engine(self) -> Engine:
        """Return the current queues, managers, controllers and updater."""
        ...

    def load_hours(self, numbers: Sequence[int]) -> dict[int, dict[str, int]]:
        """Return the counters of hours by their number, see :mod:`app.models.operations.hourly_stats`."""
        ...

    def load_minutes(self, numbers: Sequence[int]) -> dict[int, dict[str, int]]:
        """Return the counters by the minute in these hours, by the number of the hour."""
        ...

    def list_running(self) -> list[JobRecord]:
        """Return the jobs that workers hold."""
        ...

    def list_dead(self, kind: DeadKind | None, cursor: str | None, limit: int) -> DeadPage:
        """Return dead tasks, newest first, of one kind or all."""
        ...

    def list_dead_kinds(self) -> list[DeadKind]:
        """Return the kinds of dead tasks with their counts, most frequent first."""
        ...

    def find_job(self, job_id: str) -> JobRecord | None:
        """Return everything known about a job, None if it doesn't exist."""
        ...

    def retry_dead(self, target: str | DeadKind) -> int:
        """Queue a dead task again, or all of a kind; return how many were dead."""
        ...

    def remove_dead(self, target: str | DeadKind) -> int:
        """Forget a dead task, or all of a kind; return how many were dead."""
        ...

    def set_switches(self, queue: Queue, *, paused: bool | None = None, draining: bool | None = None) -> None:
        """Set the switches of a queue for the whole system; None leaves a switch unchanged."""
        ...
