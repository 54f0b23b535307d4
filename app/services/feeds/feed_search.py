"""Finding feeds by words, as people type, and keeping the index of their words up to date."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence

from app import clock
from app.gateways.feeds.feed_search import FeedSearchGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.feed_search import FoundByWords, PackFeed, parse_query
from app.models.jobs.jobs import Job, Queue, Task
from app.ports import JobPort
from app.services.access import Limiter, require_permission, throttle
from app.services.validation import check_text

#: Characters of the longest query.
QUERY_MAX = 200
#: Time between two runs that bring the index up to date.
EVERY = dt.timedelta(minutes=10)
#: Seconds over which searches of one person are counted.
MINUTE = 60


class FeedSearchService:
    """Finds feeds by words; workers index them.

    Args:
        list_pack_feeds: returns all feeds of starter packs.
        per_minute: searches that one person may make per minute.
    """

    def __init__(
        self,
        search: FeedSearchGateway,
        list_pack_feeds: Callable[[], Sequence[PackFeed]],
        jobs: JobPort,
        *,
        limiter: Limiter,
        per_minute: int,
    ) -> None:
        self._search = search
        self._list_pack_feeds = list_pack_feeds
        self._jobs = jobs
        self._limiter = limiter
        self._per_minute = per_minute
        self._next: dt.datetime | None = None

    def find(self, actor: Actor, text: str) -> list[FoundByWords]:
        """Return the feeds that have all these words, the best first; the last word may be unfinished.

        Raises:
            InvalidError: the text is too long.
            RateLimitedError: too many searches within the minute.
        """
        require_permission(actor, Permission.FEED_DISCOVER)
        query = parse_query(check_text(text, "q", limit=QUERY_MAX, empty=True))
        if not query:
            return []
        throttle(self._limiter, f"feed_search:{actor.user_id}", limit=self._per_minute, window=MINUTE)
        admin = actor.has_permission(Permission.ADMIN_SEE)
        return self._search.find(actor.user_id, query, self._list_pack_feeds(), clock.now(), admin=admin)

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the job that brings the index up to date, if it is time."""
        if self._next is not None and now < self._next:
            return []
        self._next = now + EVERY
        return [_make_job(0)]

    def run(
        self, after: int, *, seconds: float, is_stopping: Callable[[], bool] = lambda: False
    ) -> dict[str, int | None]:
        """Index the feeds after this one; another job continues if there are more.

        Safe to run twice, even concurrently, and to be killed anywhere.

        Args:
            after: the last feed of the previous job, or 0.
            seconds: the time after which another job continues.
        """
        end, at = time.monotonic() + seconds, self._search.index_next(after, clock.now())
        while at is not None and not is_stopping() and time.monotonic() < end:
            at = self._search.index_next(at, clock.now())
        if at is not None:
            self._jobs.enqueue(_make_job(at))
        return {"next": at}


def _make_job(after: int) -> Job:
    return Job(Task.FEED_WORDS, {"after": after}, Queue.MAINTENANCE)
