"""Discovery of the feeds behind an address: known feed → cache → job, awaited for a few seconds."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from app import clock, logs
from app.config import Settings
from app.errors import SEARCH_FAILED, NotFoundError, get_public_word, get_search_message
from app.gateways.feeds.discoveries import DiscoveryGateway, parse_addresses
from app.gateways.feeds.feeds import FeedGateway
from app.gateways.subscriptions.subscriptions import SubscriptionGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.crawl import Crawl
from app.models.feeds.discovery import HEADLINES, Discovered, Discovery, FoundFeed, StoredDiscovery
from app.models.feeds.feed import Feed, count_shown_readers
from app.models.jobs.jobs import Job, Outcome, Queue, Task, Ticket
from app.ports import JobPort
from app.services.access import Limiter, require_permission, throttle
from app.services.feeds.crawls import CrawlService
from app.services.fetch_budget import CountingFetcher, FetchBudget
from app.services.validation import check_id, check_text

log = logs.get(__name__)

ADDRESS_MAX = 2048


class DiscoveryService:
    """Answers discoveries of users, and runs the search in the worker."""

    def __init__(
        self,
        discoveries: DiscoveryGateway,
        feeds: FeedGateway,
        subscriptions: SubscriptionGateway,
        jobs: JobPort,
        *,
        limiter: Limiter,
        fetch_budget: FetchBudget,
        settings: Settings,
        crawls: CrawlService | None = None,
    ) -> None:
        self._crawls = crawls
        self._discoveries = discoveries
        self._feeds = feeds
        self._subscriptions = subscriptions
        self._jobs = jobs
        self._limiter = limiter
        self._fetch_budget = fetch_budget
        self._settings = settings

    def discover(self, actor: Actor, address: str, *, wait: float | None = None) -> Discovery:
        """Return the feeds behind the text that a person typed, or ``wait`` set if the search isn't done in
        time.

        A second call with the same address joins the running search.

        Args:
            wait: seconds to wait for the search; None: as in the settings.

        Raises:
            InvalidError: there is no web address in the text.
            RateLimitedError: too many new searches within the hour, or bytes within the day.
            StoreError: MongoDB or Redis does not answer.
        """
        require_permission(actor, Permission.FEED_DISCOVER)
        address = check_text(address, "address", limit=ADDRESS_MAX, empty=True)
        now = clock.now()
        for url in parse_addresses(address):
            known = self._feeds.find_by_url(url)
            # A feed in error is searched again: the site may have fixed it or moved it. But nothing is
            # fetched while the site limits requests.
            if known is not None and (_find_rest(known, now) or (known.last_seq and not known.error)):
                rate = self._feeds.find_rates([known.id], now).get(known.id)
                lines = self._feeds.list_headlines(known, HEADLINES)
                return Discovery(0, address, feeds=self._offered(actor, [_known(known, rate, lines)]))
        is_new = False
        if self._discoveries.find_by_address(address, now) is None:
            limit = self._settings.discoveries_per_hour
            throttle(self._limiter, f"discover:{actor.user_id}", limit=limit, window=clock.HOUR)
            self._fetch_budget.require_budget(actor)
            is_new = True
        row = self._discoveries.get_or_create(address, now)
        if is_new:
            self._fetch_budget.set_payer(row.key, actor)
        if row.result is not None:
            return self._answer(actor, row.key, row.result)
        return self._await(actor, row, self._settings.discovery_wait if wait is None else wait)

    def get_progress(self, actor: Actor, key: int) -> Discovery:
        """Return the state of a discovery.

        Raises:
            NotFoundError: there is no discovery with this key, or it has expired.
        """
        require_permission(actor, Permission.FEED_DISCOVER)
        row = self._discoveries.find(check_id(key, "key"), clock.now())
        if row is None:
            raise NotFoundError(key=key)
        if row.result is not None:
            return self._answer(actor, row.key, row.result)
        return self._await(actor, row, 0)

    async def run(self, key: int, fetcher: Any, progress: Callable[..., None]) -> dict[str, Any]:
        """Run a discovery in the worker, store the result and return {"feeds": count, "error": code or None}.

        ``progress`` is called with ``step=<text>`` at each step.
        """
        # Store calls run in threads, so that other jobs of this process go on while the store is slow.
        row = await asyncio.to_thread(self._discoveries.find, key, clock.now())
        if row is None:
            return {"feeds": 0, "error": "gone"}
        if row.result is None:
            counted = CountingFetcher(fetcher)
            try:
                found = await self._discoveries.search(row, counted, lambda step: progress(step=step))
            finally:
                size = sum(counted.take_received().values())
                await asyncio.to_thread(self._fetch_budget.charge_search, key, size)
            await asyncio.to_thread(self._discoveries.store_result, key, found, clock.now())
            log.info("discovered", key=key, feeds=len(found.feeds), error=found.error)
        else:
            found = row.result
        return {"feeds": len(found.feeds), "error": found.error}

    def _await(self, actor: Actor, row: StoredDiscovery, wait: float) -> Discovery:
        ticket = self._jobs.enqueue(Job(Task.DISCOVER, {"key": row.key}, Queue.DISCOVERY))
        outcome = next(iter(self._jobs.await_many([ticket], wait)), None)
        if outcome is None:
            return Discovery(row.key, row.address, wait=True, step=self._step(ticket))
        return self._ended(actor, row, outcome)

    def _ended(self, actor: Actor, row: StoredDiscovery, outcome: Outcome) -> Discovery:
        stored = self._discoveries.find(row.key, clock.now())
        if stored is not None and stored.result is not None:
            return self._answer(actor, row.key, stored.result)
        # The job itself failed (crash, time limit): nothing is stored, so the next attempt searches again.
        log.warning("discovery_failed", error=outcome.error)
        return Discovery(row.key, row.address, error=SEARCH_FAILED, message=get_search_message(SEARCH_FAILED))

    def _answer(self, actor: Actor, key: int, result: Discovered) -> Discovery:
        if result.error is None:
            feeds = self._offered(actor, result.feeds)
            return Discovery(key, result.address, feeds=feeds, more=result.more)
        crawl = self._crawl(actor, result)
        if crawl is not None and crawl.found:
            return Discovery(key, result.address, feeds=self._offered(actor, crawl.found))
        # Only administrators learn what listens on which host (S13).
        word = get_public_word(result.error, admin=actor.has_permission(Permission.ADMIN_SEE))
        return Discovery(
            key,
            result.address,
            error=word,
            message=get_search_message(word),
            detail=result.detail,
            is_crawled=crawl is not None and crawl.next_at is not None,
        )

    def _crawl(self, actor: Actor, result: Discovered) -> Crawl | None:
        """Return the crawl of a site without a feed, which is begun if there is none."""
        if self._crawls is None or result.error != "no_feed_found":
            return None
        return self._crawls.request_crawl(actor, result.address)

    def _offered(self, actor: Actor, found: Sequence[FoundFeed]) -> tuple[FoundFeed, ...]:
        """Add to each feed its subscriber count and whether the actor subscribes: the result may be older."""
        stored = [self._feeds.find_by_url(feed.url) for feed in found]
        ids = [known.id for known in stored if known]
        mine = {own.feed_id for own in self._subscriptions.find_by_user(actor.user_id, ids)} if ids else set()
        admin, now = actor.has_permission(Permission.ADMIN_SEE), clock.now()
        return tuple(
            dataclasses.replace(
                feed,
                feed_id=known.id,
                readers=count_shown_readers(known.subscribers, admin=admin),
                mine=known.id in mine,
                icon=known.icon_path,
                rests_until=_find_rest(known, now),
            )
            if known
            else feed
            for feed, known in zip(found, stored, strict=True)
        )

    def _step(self, ticket: Ticket) -> str:
        return str(self._jobs.get_status(ticket.id).progress.get("step", ""))


def _find_rest(feed: Feed, now: dt.datetime) -> dt.datetime | None:
    """Return until when a feed's site wants no requests; None: it said nothing, or the time is over."""
    return feed.retry_at if feed.retry_at is not None and feed.retry_at > now else None


def _known(feed: Feed, rate: float | None, headlines: tuple[str, ...]) -> FoundFeed:
    """Return a stored feed as a found feed."""
    return FoundFeed(
        url=feed.url,
        title=feed.title or feed.url,
        site_url=feed.site_url,
        format=None,
        entries=feed.last_seq - feed.first_seq + 1,
        last_published=feed.last_entry_at,
        per_week=rate,
        headlines=headlines,
        feed_id=feed.id,
    )
