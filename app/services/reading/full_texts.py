"""Full texts: a job fetches an entry's page and finds the article in it, once for all readers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from app import clock, logs
from app.config import Settings
from app.errors import InvalidError, LaterError, NotFoundError, StoreError, get_page_message
from app.gateways.feeds.robots import RobotsGateway
from app.gateways.reading.entries import EntryGateway
from app.gateways.reading.full_texts import FullTextGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.fetched import Fetched, FetchRequest, Target
from app.models.feeds.hosts import parse_host
from app.models.jobs.jobs import Job, Queue, Task
from app.models.reading.entry import Entry, EntryKey
from app.models.reading.full_text import NO_STORE, ROBOTS, FullText
from app.ports import FetchStreamer, HostBudget, JobPort
from app.services.access import Limiter, require_permission, throttle
from app.services.fetch_budget import FetchBudget
from app.services.validation import check_id

log = logs.get(__name__)

#: Attempts that may end their worker: after these the page counts as unreadable.
ATTEMPTS_MAX = 2
#: Seconds and attempts after which a page that nobody waits for is left to its first reader, if the rate
#: limit of its host doesn't allow it.
AHEAD_PAUSE = 900.0
WAITS_MAX = 20
#: Most pages of one feed that are fetched ahead after a pull.
AHEAD_MAX = 20


class _HostBusyError(Exception):
    """The rate limit of a host doesn't allow a request for ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class FullTextService:
    """Brings the full text of entries whose feeds publish only a part."""

    def __init__(
        self,
        full_texts: FullTextGateway,
        robots: RobotsGateway,
        entries: EntryGateway,
        jobs: JobPort,
        *,
        limiter: Limiter,
        budget: HostBudget,
        fetch_budget: FetchBudget,
        settings: Settings,
    ) -> None:
        self._full_texts, self._entries, self._jobs = full_texts, entries, jobs
        self._robots = robots
        self._limiter, self._budget, self._fetch_budget = limiter, budget, fetch_budget
        self._settings = settings

    def request_text(self, actor: Actor, entry_id: int, *, wait: float | None = None) -> FullText | None:
        """Return the text of an entry's page; None: a job fetches it, and this took longer than ``wait``.

        Two readers who request it cause one fetch.

        Args:
            wait: seconds; None: as in the settings.

        Raises:
            NotFoundError: there is no such entry, or the actor may not see it.
            InvalidError: the entry has no page.
            RateLimitedError: too many requests within the hour, or bytes within the day.
            StoreError: MongoDB or Redis does not answer.
        """
        require_permission(actor, Permission.ENTRY_READ)
        entry = self._get_root(self._entries.get(actor.user_id, check_id(entry_id, "entry_id")))
        if self._full_texts.find_page(entry) is None:
            raise InvalidError("This entry has no page of its own.", entry_id=entry_id)
        if not self._full_texts.is_due(entry, clock.now()):
            return self._full_texts.clean(entry)
        limit = self._settings.full_texts_per_hour
        throttle(self._limiter, f"full_text:{actor.user_id}", limit=limit, window=clock.HOUR)
        self._fetch_budget.require_budget(actor)
        args = {"feed_id": entry.feed_id, "entry_id": entry.id}
        ticket = self._jobs.enqueue(Job(Task.FULL_TEXT, args, Queue.ARTICLES))
        wait = self._settings.full_text_wait if wait is None else wait
        if next(iter(self._jobs.await_many([ticket], wait)), None) is None:
            return None
        fresh = self._full_texts.find(entry.feed_id, entry.id)
        if fresh is None:
            raise NotFoundError(entry_id=entry_id)
        # The job itself may have failed; nothing is stored then, and the next request tries again.
        return fresh.full or FullText(clock.now(), error="unreadable")

    def find(self, actor: Actor, entry: Entry) -> FullText | None:
        """Return the stored text of an entry's page; None: nobody has requested it yet."""
        require_permission(actor, Permission.ENTRY_READ)
        if entry.full is None:
            return None
        return self._full_texts.clean(self._get_root(entry))

    def _get_root(self, entry: Entry) -> Entry:
        """Return the entry that a share shows, whose page it is."""
        if entry.of is None or entry.of.entry_id == entry.id:
            return entry
        root = self._full_texts.find(entry.of.feed_id, entry.of.entry_id)
        if root is None:
            raise NotFoundError(entry_id=entry.id)
        return root

    def has_gain(self, actor: Actor, feed_id: int) -> bool:
        """Return whether the pages of a feed are fetched ahead: they say more than the feed."""
        require_permission(actor, Permission.SUBSCRIPTION_SEE)
        return self._full_texts.has_gain(feed_id)

    def request_ahead(self, new: Mapping[int, int]) -> None:
        """Let the pages of new entries be fetched (feed → their number), where someone reads full texts."""
        with contextlib.suppress(StoreError):  # opening an entry requests its page again
            pages = self._full_texts.find_new_pages(new, AHEAD_MAX) if new else ()
            self._jobs.enqueue_many([_make_ahead_job(*page) for page in pages])

    def request_matches(self, user_id: int, keys: Sequence[EntryKey]) -> None:
        """Let the pages of entries be fetched that a user's rules have matched; of shares, their roots.

        These are the same jobs as for readers of full texts, so a page is fetched once for all. The first
        ones count, up to the user's limit for an hour. Opening an entry requests the page of any other.
        """
        limit, key = self._settings.rule_full_texts, f"rule_texts:{user_id}"

        def may_fetch(_page: object) -> bool:
            return not self._limiter.count_try(key, limit, clock.HOUR)

        with contextlib.suppress(StoreError):
            pages = itertools.takewhile(may_fetch, self._full_texts.find_pages_without_text(keys))
            self._jobs.enqueue_many([_make_ahead_job(*page) for page in pages])

    async def fetch(
        self,
        feed_id: int,
        entry_id: int,
        fetcher: FetchStreamer,
        *,
        ahead: bool = False,
        attempts: int = 0,
        waits: int = 0,
    ) -> dict[str, Any]:
        """Fetch an entry's page and store its text, unless that was done; safe to run twice.

        Args:
            ahead: nobody waits for it, so the site's robots.txt and ``no-store`` hold.
            attempts: earlier attempts that ended with the worker, or took too long.
            waits: earlier attempts that waited for the rate limit of the host.

        Raises:
            LaterError: nobody waits for it, and the rate limit of the host allows it soon.
        """
        texts = self._full_texts
        entry = texts.find(feed_id, entry_id)
        url = texts.find_page(entry) if entry else None
        if entry is None or url is None or not texts.is_due(entry, clock.now()):
            return {"error": None}
        if ahead and (entry.full is not None or not texts.has_gain(feed_id)):
            return {"error": None}
        try:
            full = await self._fetch(entry, url, fetcher, ahead=ahead, attempts=attempts)
        except _HostBusyError as e:
            pause = e.seconds
            if not ahead:
                full = texts.store_failure(entry, "busy", clock.now())
            elif pause <= AHEAD_PAUSE and waits < WAITS_MAX:
                raise LaterError(pause) from e
            else:  # nothing is stored: opening the entry requests its page again
                full = FullText(clock.now(), error="busy")
        log.info("full_text_fetched", error=full.error, ahead=ahead)
        return {"error": full.error}

    async def _fetch(
        self, entry: Entry, url: str, fetcher: FetchStreamer, *, ahead: bool, attempts: int
    ) -> FullText:
        store_failure = self._full_texts.store_failure
        if attempts >= ATTEMPTS_MAX:
            return store_failure(entry, "unreadable", clock.now())
        if ahead and not await self._is_allowed(entry.feed_id, url, fetcher):
            return store_failure(entry, ROBOTS, clock.now())
        page = await self._fetch_page(entry.feed_id, url, fetcher, ahead=ahead)
        if page.error is not None:
            return store_failure(entry, page.error.word, clock.now())
        if ahead and "no-store" in page.headers.get("cache-control", "").lower():
            return store_failure(entry, NO_STORE, clock.now())
        return self._full_texts.store_page(entry, page)

    async def _is_allowed(self, feed_id: int, url: str, fetcher: FetchStreamer) -> bool:
        """Return whether a site allows a program to fetch a page."""
        known = self._robots.may_fetch(url, clock.now())
        if known is not None:
            return known
        answer = await self._fetch_page(feed_id, self._robots.get_address(url), fetcher, ahead=True)
        return self._robots.store_answer(url, answer, clock.now())

    async def _fetch_page(self, feed_id: int, url: str, fetcher: FetchStreamer, *, ahead: bool) -> Fetched:
        """Fetch a page within the rate limit of its host.

        Raises:
            _HostBusyError: that takes too long.
        """
        wait = self._find_wait(parse_host(url), urgent=not ahead)
        if wait > self._settings.full_text_patience:
            raise _HostBusyError(wait)
        await asyncio.sleep(wait)  # the rate limit of the host
        pages = [page async for page in fetcher.stream_fetches([self._make_request(feed_id, url)])]
        self._fetch_budget.charge_pictures(sum(page.wire_bytes for page in pages))
        return pages[0]

    def _make_request(self, feed_id: int, url: str) -> FetchRequest:
        # The feed named the page, so the page may not lead to private addresses of other hosts (S11).
        named_by = self._full_texts.get_feed_url(feed_id) or "https://invalid/"
        return FetchRequest(url, target=Target.PAGE, referred_by=named_by)

    def _find_wait(self, host: str, *, urgent: bool) -> float:
        if self._fetch_budget.is_spent(clock.now()):
            return math.inf
        return max(*self._budget.find_pauses([host]), *self._budget.take_tokens([host], urgent=urgent))


def _make_ahead_job(feed_id: int, entry_id: int) -> Job:
    args = {"feed_id": feed_id, "entry_id": entry_id, "ahead": True}
    return Job(Task.FULL_TEXT, args, Queue.ARTICLES_SYSTEM)


def describe_failure(full: FullText) -> str | None:
    """Return the sentence that says why an entry's page has no text for readers; None: it has."""
    return get_page_message(full.error) if full.error else None
