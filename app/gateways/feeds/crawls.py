"""Crawling sites for feeds, one request at a time.

Each step sends one request, and stores when the next one may be sent. So a crawl waits nowhere, survives any
crash, and never asks a site more often than allowed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from urllib.parse import urlsplit

from app.feeds.discover import rank
from app.feeds.discover.core import read_feed
from app.feeds.discover.crawl import find_in_sitemap, find_targets, get_site
from app.feeds.parse import Limits, parse
from app.feeds.urls import hash_url, is_secret, normalise_address
from app.gateways.feeds.robots import RobotsGateway
from app.mappers.feeds.crawls import CrawlMapper
from app.models.feeds.crawl import Crawl, CrawlTarget
from app.models.feeds.discovery import Candidate, Source
from app.models.feeds.feed_search import is_public_host
from app.models.feeds.fetched import Fetched, FetchRequest, Target
from app.models.feeds.parsed import ParsedFeed
from app.ports import FetchStreamer

#: Most requests of one crawl, with robots.txt and the sitemap, and feeds after which it ends.
MAX_REQUESTS, ENOUGH = 30, 3
#: Time between two requests to a site; a longer one in its robots.txt counts up to the second value.
PAUSE, LONGEST_PAUSE = dt.timedelta(seconds=5), dt.timedelta(minutes=1)
#: Time after which another worker goes on if the one that sent a request died.
CLAIMED = dt.timedelta(minutes=2)
#: Workers that may die in a row at one step; then the crawl ends.
DEATHS = 3
#: Most sites that are crawled, or wait, because of one person.
PER_PERSON = 5
#: How long a result is kept; meanwhile the site isn't crawled again.
KEPT = dt.timedelta(days=30)


class CrawlGateway:
    """Starts crawls, and takes their steps."""

    def __init__(self, crawls: CrawlMapper, robots: RobotsGateway, limits: Limits) -> None:
        self.crawls, self._robots, self._limits = crawls, robots, limits

    def get_or_create(self, address: str, user_id: int, now: dt.datetime) -> Crawl | None:
        """Return the crawl of the site at an address that a person typed; None: it isn't crawled.

        That is so if the address is local, or if :data:`PER_PERSON` other sites are being crawled for them.
        """
        tries = normalise_address(address)
        if not tries or not is_public_host(tries[0]):
            return None
        host = get_site(tries[0])
        if (known := self.crawls.find_by_host(host)) is not None:
            return known
        if self.crawls.count_asked(user_id) >= PER_PERSON:
            return None
        parts = urlsplit(tries[0])
        home = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/"
        starts = [home] if is_secret(tries[0]) or parts.query else [home, tries[0]]
        todo = (f"{home}sitemap.xml", *starts)
        targets = {hash_url(url): CrawlTarget(url) for url in todo}
        crawl = Crawl(
            id=0, host=host, url=home, todo=tuple(targets.values()), tried=tuple(targets), next_at=now
        )
        self.crawls.add(crawl, now + KEPT)
        return self.crawls.find_by_host(host)

    async def take_step(self, crawl: Crawl, fetcher: FetchStreamer, now: dt.datetime) -> Crawl:
        """Send the next request of a claimed crawl that is allowed; return its progress, to be stored.

        The claim has counted the request.
        """
        died, crawl = crawl.attempts > DEATHS, dataclasses.replace(crawl, attempts=0)
        todo = [] if died else list(crawl.todo)
        while todo and crawl.requests <= MAX_REQUESTS and len(crawl.found) < ENOUGH:
            target = todo[0]
            allowed = await asyncio.to_thread(self._robots.may_fetch, target.url, now)
            if allowed is None:
                fetched = await _fetch(fetcher, self._robots.get_address(target.url), Target.PAGE)
                await asyncio.to_thread(self._robots.store_answer, target.url, fetched, now)
                return await asyncio.to_thread(self._wait, crawl, todo, target.url, now)
            todo.pop(0)
            if allowed:
                kind = Target.FEED if target.is_feed else Target.PAGE
                fetched = await _fetch(fetcher, target.url, kind)
                crawl = await asyncio.to_thread(self._read, crawl, target, fetched, todo, now)
                return await asyncio.to_thread(self._wait, crawl, todo, target.url, now)
        return dataclasses.replace(crawl, todo=(), requests=crawl.requests - 1, next_at=None)

    def _wait(self, crawl: Crawl, todo: list[CrawlTarget], url: str, now: dt.datetime) -> Crawl:
        pause = min(max(PAUSE, self._robots.get_pause(url, now)), LONGEST_PAUSE)
        return dataclasses.replace(crawl, todo=tuple(todo), next_at=now + pause)

    def _read(
        self, crawl: Crawl, target: CrawlTarget, fetched: Fetched, todo: list[CrawlTarget], now: dt.datetime
    ) -> Crawl:
        """Return a crawl with what an answer adds; new targets go into ``todo``."""
        if fetched.error or not fetched.body:
            return crawl
        feed, _ = read_feed(self._parse, fetched)
        if feed is not None and feed.entries:
            url = fetched.permanent_url or target.url
            if is_secret(url):
                return crawl
            proof = rank.ProvenFeed(url, Candidate(url, "", None, Source.LINK), feed, 0)
            others = [known for known in crawl.found if hash_url(known.url) != hash_url(url)]
            return dataclasses.replace(crawl, found=(*others, rank.describe(proof, now)))
        if target.is_feed:
            return crawl
        if target.url.endswith("/sitemap.xml"):
            new = find_in_sitemap(fetched.body, crawl.host)
        else:
            new = find_targets(
                fetched.body, fetched.url, fetched.content_type, depth=target.depth, site=crawl.host
            )
        fresh = {key: one for one in reversed(new) if (key := hash_url(one.url)) not in crawl.tried}
        # Possible feeds first, then what was there, then pages further away.
        ordered = list(reversed(fresh.values()))
        todo[:] = [
            *(one for one in (*todo, *ordered) if one.is_feed),
            *sorted((one for one in (*todo, *ordered) if not one.is_feed), key=lambda one: one.depth),
        ][: 2 * MAX_REQUESTS]
        return dataclasses.replace(crawl, tried=(*crawl.tried, *fresh))

    def _parse(self, body: bytes, *, url: str, content_type: str | None = None) -> ParsedFeed:
        return parse(body, url=url, content_type=content_type, limits=self._limits)


async def _fetch(fetcher: FetchStreamer, url: str, target: Target) -> Fetched:
    async for fetched in fetcher.stream_fetches([FetchRequest(url, target)]):
        return fetched
    raise AssertionError("a stream ended without the end of its request")
