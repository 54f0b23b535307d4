"""Contracts that services own and outer layers fulfil."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from app.models.feeds.fetched import Fetched, FetchRequest
from app.models.jobs.job_engine import DeadKind, DeadPage, Engine, JobRecord
from app.models.jobs.jobs import Job, JobView, Outcome, Queue, Ticket
from app.models.reading.search import SearchDocument, SearchRequest, SearchResult


class JobPort(Protocol):
    """Enqueue jobs and await their ends; ``app.adapters.redis.jobs.RedisJobs`` in every process.

    All methods raise:
        StoreError: Redis does not answer.
    """

    def enqueue(self, job: Job) -> Ticket:
        """Queue a job, or join the one with the same task and arguments that is queued or running.

        Raises:
            TooLargeError: the arguments exceed 64 KiB as JSON.
            InvalidError: the arguments are not JSON.
        """
        ...

    def enqueue_many(self, jobs: Sequence[Job]) -> list[Ticket]:
        """The same for many jobs in few round trips; tickets in the order of the jobs."""
        ...

    def await_many(self, tickets: Sequence[Ticket], timeout: float) -> Iterator[Outcome]:
        """Yield outcomes as they come, at most ``timeout`` seconds long.

        What has not ended by then is simply not yielded: 95 of 100 may be enough for the caller.
        """
        ...

    def get_status(self, job_id: str) -> JobView:
        """Return a job's state and last progress; never raises for an unknown id."""
        ...


class FetchStreamer(Protocol):
    """Fetches many addresses at once; implemented by :class:`app.feeds.fetch.fetcher.Fetcher`."""

    def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        """Yield the outcome of each request as soon as it is there, in no particular order."""
        ...


class HostBudget(Protocol):
    """How often hosts may be asked, over all workers and servers;
    ``app.adapters.redis.host_budget.RedisBudget``.

    Without Redis everything is let through: nothing new is queued then either.
    """

    def take_tokens(self, hosts: Sequence[str], *, urgent: bool = False) -> list[float]:
        """Take one token per entry; return for each 0, or the seconds after which to come back.

        Entries of one host that find no token get different times, so they do not come back together.

        Args:
            hosts: names in lower case, one per request; equal names may be repeated.
            urgent: a person waits. His requests may run ahead of the rate by a second burst, which the
                updater's pay back.
        """
        ...

    def pause_host(self, host: str, seconds: float, url: str) -> None:
        """Leave a host alone, with all its feeds: it said so (429, 503), at this address, for so long.

        One address does not speak for a host that many share: of a long rest the host gets
        ``fetch_host_rest`` seconds, twice as much for each further address that asks.
        """
        ...

    def find_pauses(self, hosts: Sequence[str]) -> list[float]:
        """Return for each entry the seconds for which its host is still left alone, 0: it is not."""
        ...


class EventPort(Protocol):
    """Tell people's browsers what has happened; ``app.adapters.redis.events.RedisEvents`` in every process.

    Only :meth:`position` and :meth:`admit` raise StoreError; what cannot be told is dropped.
    """

    def notify_counts(self, user_id: int) -> None:
        """Tell a user's browsers that his counts or stars have changed."""
        ...

    def notify_new_entries(self, entries: Mapping[int, int]) -> None:
        """Tell whoever follows these feeds how many new entries each has got."""
        ...

    def notify_progress(self, user_id: int, import_id: int, report: Mapping[str, Any]) -> None:
        """Tell a user's browsers how far an import is."""
        ...

    def notify_follows(
        self, user_id: int, *, added: Collection[int] = (), removed: Collection[int] = ()
    ) -> None:
        """Note which feeds a user follows from now on, or no more."""
        ...

    def end_streams(self, user_id: int) -> None:
        """End all that a user listens to: a session of his is over, or a token revoked."""
        ...

    def get_position(self) -> str:
        """Return the place in the stream after which everything is still to come."""
        ...

    def issue_pass(self, user_id: int, feed_ids: Sequence[int], at: str) -> str:
        """Return a signed pass with which a browser of this user may listen."""
        ...


class SearchPort(Protocol):
    """A search engine; ``app.gateways.reading.search_engine.TextSearch`` on MongoDB until another one takes
    its place.

    It holds nothing that cannot be made anew from the entries. All methods raise StoreError.
    """

    def index(self, entries: Sequence[SearchDocument]) -> None:
        """Let entries be found, or found by what they say now; twice is the same as once."""
        ...

    def remove(self, feed_id: int, below: int, keep: Collection[int] = ()) -> int:
        """Forget a feed's entries with lower numbers than ``below``, but not ``keep``; return how many."""
        ...

    def find(self, wanted: SearchRequest, limit: int) -> SearchResult:
        """Return about ``limit`` entries, fewer only at the end or when the search was long.

        More than ``limit`` may come. What is found is exact; an entry that was stored a moment ago may
        not be known yet.
        """
        ...


class EnginePort(Protocol):
    """Look at the job engine and steer it; ``app.adapters.redis.job_engine.RedisEngine``.

    All methods raise:
        StoreError: Redis does not answer.
    """

    def load_engine(self) -> Engine:
        """Return queues, managers, controllers and updater as they are now."""
        ...

    def load_hours(self, numbers: Sequence[int]) -> dict[int, dict[str, int]]:
        """Return the counters of hours by their number, see :mod:`app.models.operations.hourly_stats`."""
        ...

    def load_minutes(self, numbers: Sequence[int]) -> dict[int, dict[str, int]]:
        """Return what is counted by the minute in these hours, by the number of the hour."""
        ...

    def list_running(self) -> list[JobRecord]:
        """Return the jobs that workers hold."""
        ...

    def list_dead(self, kind: DeadKind | None, cursor: str | None, limit: int) -> DeadPage:
        """Return dead tasks, newest first, of one kind or all."""
        ...

    def list_dead_kinds(self) -> list[DeadKind]:
        """Return the kinds of dead tasks with their numbers, the most frequent first."""
        ...

    def find_job(self, job_id: str) -> JobRecord | None:
        """Return all that is known of a job."""
        ...

    def retry_dead(self, target: str | DeadKind) -> int:
        """Queue a dead task again, or all of a kind; return how many were dead."""
        ...

    def remove_dead(self, target: str | DeadKind) -> int:
        """Forget a dead task, or all of a kind; return how many were dead."""
        ...

    def set_switches(self, queue: Queue, *, paused: bool | None = None, draining: bool | None = None) -> None:
        """Turn the switches of a queue for the whole system; None leaves one as it is."""
        ...
