"""Looking for the feeds of whole sites in the background, and notifying the people who looked for them."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import Any

from app import clock, logs
from app.gateways.feeds.crawls import CLAIMED, KEPT, CrawlGateway
from app.models.accounts.actor import Actor, Permission
from app.models.feeds.crawl import Crawl, CrawlFigures
from app.models.jobs.jobs import Job, Queue, Task
from app.ports import JobPort
from app.services.access import require_permission
from app.services.fetch_budget import CountingFetcher

log = logs.get(__name__)

#: Crawls that are queued at once.
AT_ONCE = 10
#: People who are notified, and then forgotten, at a time.
NOTIFIED = 200


class CrawlService:
    """Crawls sites where a discovery found no feed.

    Args:
        notify: notifies a person of the feeds found: user id, crawl id.
        running: most crawls at a time, more sites wait; 0: no site is crawled.
    """

    def __init__(
        self, crawls: CrawlGateway, jobs: JobPort, notify: Callable[[int, int], None], *, running: int
    ) -> None:
        self._crawls = crawls
        self._jobs = jobs
        self._notify = notify
        self._running = running

    def request_crawl(self, actor: Actor, address: str) -> Crawl | None:
        """Return the crawl of the site at a typed address, with its feeds so far; None: it isn't crawled.

        If the crawl hasn't ended, the actor is notified of its feeds.
        """
        require_permission(actor, Permission.FEED_DISCOVER)
        if not self._running:
            return None
        now = clock.now()
        crawl = self._crawls.get_or_create(address, actor.user_id, now)
        if crawl is None or crawl.next_at is None:
            return crawl
        self._crawls.crawls.add_asker(crawl.id, actor.user_id, now + KEPT)
        crawl = self._crawls.crawls.find_by_host(crawl.host)
        if crawl is not None and crawl.next_at is None:
            # It ended in between, and the actor gets its result now.
            self._crawls.crawls.remove_askers(crawl.id, [actor.user_id])
        return crawl

    def find_due_jobs(self, now: dt.datetime) -> list[Job]:
        """Return the jobs of crawls that may send their next request, or whose people aren't notified yet."""
        if not self._running:
            return []
        found = self._crawls.crawls.find_due(now, AT_ONCE, running=self._running)
        return [Job(Task.CRAWL, {"crawl_id": crawl_id}, Queue.PULL_SYSTEM) for crawl_id in found]

    async def run(self, crawl_id: int, fetcher: Any) -> dict[str, Any]:
        """Take one step of a crawl in a worker; at its end, notify people of the feeds found.

        Safe to run twice and to be killed anywhere: then another worker goes on two minutes later.
        """
        if not self._running:
            return {"requests": 0}
        now = clock.now()
        until = now + CLAIMED
        crawl = await asyncio.to_thread(self._crawls.crawls.claim, crawl_id, now, until)
        if crawl is not None:
            crawl = await self._crawls.take_step(crawl, CountingFetcher(fetcher), clock.now())
            await asyncio.to_thread(self._crawls.crawls.store_crawl, crawl, until, clock.now())
        if crawl is None or crawl.next_at is None:
            await asyncio.to_thread(self._end, crawl_id)
        return {"requests": crawl.requests, "feeds": len(crawl.found)} if crawl else {"requests": 0}

    def _end(self, crawl_id: int) -> None:
        # The end is stored, so nobody is added. After a crash, a second notification changes nothing.
        now = clock.now()
        crawl = self._crawls.crawls.claim_end(crawl_id, now, now + CLAIMED)
        if crawl is None:
            return
        while people := self._crawls.crawls.find_askers(crawl.id, NOTIFIED):
            for user_id in people if crawl.found else ():
                self._notify(user_id, crawl.id)
            self._crawls.crawls.remove_askers(crawl.id, people)
        self._crawls.crawls.finish_end(crawl.id)
        log.info("crawled", host=crawl.host, requests=crawl.requests, feeds=len(crawl.found))

    def get_figures(self, actor: Actor) -> CrawlFigures:
        """Return the numbers of the crawls of the last 30 days, for administrators."""
        require_permission(actor, Permission.ADMIN_SEE)
        return self._crawls.crawls.count_all()
