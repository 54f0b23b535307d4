"""The discovery search: fetch the page, verify its candidates, and widen the search until a feed is found.

address → page (https, then http) ─ is a feed → done
             │
             ├─ announced: site rules and <link>         ┐
             ├─ source pages: the site's directory       │
             ├─ anchors: links that look like feeds      │ each step only when the steps
             ├─ guesses: common feed addresses           │ before found no suitable feed
             └─ home page and related pages: their links ┘
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Protocol

from app import clock
from app.errors import N_, FetchError, ParseError
from app.feeds import urls
from app.feeds.discover import rank
from app.feeds.discover.consent import choose_cookie, find_page_behind
from app.feeds.discover.page import Page, is_comment_feed
from app.models.feeds.discovery import Candidate, Discovered, FoundFeed, Source
from app.models.feeds.fetched import Fetched, FetchRequest, Target
from app.models.feeds.parsed import ParsedFeed
from app.ports import FetchStreamer

Report = Callable[[str], None]

#: Most candidates fetched in one step, and how many of them at once.
MAX_PROBES = 18
AT_ONCE = 6
#: Errors behind which a feed may well exist; statuses of 500 or more count too.
_TROUBLES = ("http_401", "http_403", "http_407", "http_429", "too_large", "broken_feed")


class FeedParser(Protocol):
    """The signature of :func:`app.feeds.parse.parse`."""

    def __call__(self, body: bytes, *, url: str, content_type: str | None = None) -> ParsedFeed: ...


class _Budget:
    """A fetcher for one search that sends a limited number of requests and drops the rest."""

    def __init__(self, fetcher: FetchStreamer, limit: int) -> None:
        self._fetcher, self._left = fetcher, limit
        self.is_spent = False  #: whether requests were dropped

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        wanted = list(requests)
        allowed = wanted[: self._left]
        self._left -= len(allowed)
        self.is_spent = self.is_spent or len(allowed) < len(wanted)
        async for fetched in self._fetcher.stream_fetches(allowed):
            yield fetched


class Discoverer:
    """Finds the feeds behind an address, once.

    Args:
        max_requests: most requests of the search; redirects don't count.
    """

    def __init__(self, fetcher: FetchStreamer, parse: FeedParser, max_requests: int) -> None:
        self._fetcher = _Budget(fetcher, max_requests)
        self._parse = parse

    async def run(self, address: str, report: Report = lambda step: None) -> Discovered:
        """Return the feeds of an address as a person typed it, or the error that explains why there is none.

        ``report`` gets a message for each step. Faults of the remote site never raise.
        """
        tries = urls.normalise_address(address)
        if not tries:
            return Discovered(address, error="invalid_url")
        report(N_("Reading the page"))
        fetched, feed, why = await self._first(tries)
        if feed is not None:
            return Discovered(address, (self._direct(fetched, feed),))
        error = fetched.error.word if fetched.error else None
        if error and not (error.startswith("http_") or error in ("empty", "too_large")):
            return Discovered(address, error=error, detail=fetched.error.detail if fetched.error else "")
        landed = fetched.url or tries[0]
        behind = find_page_behind(fetched.request.url, landed)
        # Nobody typed the address in a consent page's query, so it may not lead to private addresses (S11).
        referrer = landed if behind and behind != fetched.request.url else ""
        search = _Search(self._fetcher, self._parse, report, referrer)
        page = await self._read_behind(behind, landed) if behind else _page_of(fetched, landed)
        feeds = await search.find_feeds(page)
        if not feeds:
            nothing = "consent_page" if behind and page.is_empty else "no_feed_found"
            return Discovered(address, error=error or _trouble(why) or search.trouble or nothing)
        more = search.more or self._fetcher.is_spent
        read = () if page.is_empty else (behind or fetched.request.url, page.url)
        pages = tuple(dict.fromkeys(map(urls.hash_url, read)))
        return Discovered(address, tuple(feeds), more=more, pages=pages, icons=tuple(page.find_icons()))

    async def _first(self, tries: Sequence[str]) -> tuple[Fetched, ParsedFeed | None, str]:
        """Return the first response, trying https before http, with its feed or the reason it has none."""
        for number, url in enumerate(tries):
            fetched = await self._page(url)
            if fetched.error is None or number == len(tries) - 1 or not _elsewhere(fetched.error):
                break
        return fetched, *read_feed(self._parse, fetched)

    async def _page(self, url: str) -> Fetched:
        async for fetched in self._fetcher.stream_fetches([FetchRequest(url, Target.PAGE)]):
            if fetched.error is None or fetched.error.word != "too_large":
                return fetched
        # No page is that large, but a feed may be.
        async for fetched in self._fetcher.stream_fetches([FetchRequest(url, Target.FEED)]):
            return fetched
        raise AssertionError("a stream ended without the end of its request")

    async def _read_behind(self, url: str, landed: str) -> Page:
        """Return the page behind a consent page; an empty one if the site insists on consent.

        Rules for sites and common addresses are still of use then: few sites ask for consent before a feed.
        """
        cookie = choose_cookie(url)
        request = FetchRequest(url, Target.PAGE, headers=cookie, referred_by=landed)
        async for fetched in self._fetcher.stream_fetches([request] if cookie else []):
            if find_page_behind(url, fetched.url) is None:
                return _page_of(fetched, url)
        return Page(b"", url)

    def _direct(self, fetched: Fetched, feed: ParsedFeed) -> FoundFeed:
        candidate = Candidate(fetched.url, "", None, Source.SITE)
        return rank.describe(rank.ProvenFeed(_lasting(fetched), candidate, feed, 0), clock.now())


class _Search:
    """One search below one page."""

    def __init__(self, fetcher: FetchStreamer, parse: FeedParser, report: Report, referrer: str = "") -> None:
        self._fetcher = fetcher
        self._parse = parse
        self._referrer = referrer
        self._report = report
        self._proofs: list[rank.ProvenFeed] = []
        self._tried: set[str] = set()
        self.more = False  #: whether candidates were left out
        #: Why a feed that the page announces couldn't be read, if the error is temporary or the feed's fault.
        self.trouble = ""

    async def find_feeds(self, page: Page) -> list[FoundFeed]:
        """Return the feeds of a page, best first."""
        await self._prove(page.find_announced(), page.url, N_("Checking feeds announced by the page"))
        if not self._proofs and page.find_source_pages():
            await self._read_others(page, page.find_source_pages())
        if not self._done:
            await self._prove(page.find_anchors(), page.url, N_("Checking feeds linked from the page"))
        if not self._proofs:
            await self._prove(page.guess_addresses(), page.url, N_("Trying common feed addresses"), stop=True)
        if not self._proofs:
            await self._look_around(page)
        now: dt.datetime = clock.now()
        return [rank.describe(p, now, page.title) for p in rank.rank_best_first(self._proofs, now)]

    @property
    def _done(self) -> bool:
        return any(rank.is_wanted(proof) for proof in self._proofs)

    async def _look_around(self, page: Page) -> None:
        """Read the site's home page and related pages that are likely to announce its feed."""
        others = page.find_related_pages()
        if others:
            self._report(N_("Reading other pages on the site"))
            await self._read_others(page, others)

    async def _read_others(self, page: Page, others: list[str]) -> None:
        """Check the feeds that other pages announce or link to."""
        requests = [FetchRequest(url, Target.PAGE, referred_by=self._referrer or page.url) for url in others]
        announced: list[Candidate] = []
        anchors: list[Candidate] = []
        async for fetched in self._fetcher.stream_fetches(requests):
            if fetched.body:
                other = Page(fetched.body, fetched.url, fetched.content_type)
                announced += other.find_announced()
                anchors += other.find_anchors()
        await self._prove([*announced, *anchors], page.url, N_("Checking feeds from other pages"))

    async def _prove(self, found: list[Candidate], page_url: str, words: str, *, stop: bool = False) -> None:
        """Fetch candidates and keep the feeds; with ``stop``, only until one is found."""
        # The first of equal addresses counts: it comes last in the reversed list.
        fresh = {key: c for c in reversed(found) if (key := urls.hash_url(c.url)) not in self._tried}
        self._tried |= fresh.keys()
        # Comment feeds come last, so that the limit never cuts off a suitable feed.
        probes = sorted(reversed(fresh.values()), key=lambda c: is_comment_feed(c.url, c.title))
        if not stop:
            self.more = self.more or len(probes) > MAX_PROBES
            probes = probes[:MAX_PROBES]
        if not probes:
            return
        self._report(words)
        for start in range(0, len(probes), AT_ONCE):
            await self._prove_some(probes[start : start + AT_ONCE], page_url)
            if stop and self._proofs:
                return

    async def _prove_some(self, some: list[Candidate], page_url: str) -> None:
        offset = len(self._proofs)
        requests = [
            FetchRequest(c.url, Target.FEED, key=number, referred_by=self._referrer or page_url)
            for number, c in enumerate(some)
        ]
        async for fetched in self._fetcher.stream_fetches(requests):
            number = fetched.request.key
            feed, why = read_feed(self._parse, fetched)
            if feed is not None:
                self._proofs.append(rank.ProvenFeed(_lasting(fetched), some[number], feed, offset + number))
            elif some[number].source in (Source.SITE, Source.LINK):
                self.trouble = self.trouble or _trouble(why)


def read_feed(parse: FeedParser, fetched: Fetched) -> tuple[ParsedFeed | None, str]:
    """Return the feed in a response, or None and the error word that explains why there is none."""
    if not fetched.body:
        return None, fetched.error.word if fetched.error else "empty"
    try:
        return parse(fetched.body, url=fetched.url, content_type=fetched.content_type), ""
    except ParseError as e:
        return None, e.word


def _page_of(fetched: Fetched, url: str) -> Page:
    return Page(fetched.body or b"", fetched.url or url, fetched.content_type)


def _trouble(why: str) -> str:
    """Return the error word if a feed may exist behind the error (refused, failing or broken), else ""."""
    return why if why in _TROUBLES or why.startswith("http_5") else ""


def _lasting(fetched: Fetched) -> str:
    """Return the address to keep: the requested one, unless the site moved permanently."""
    return fetched.permanent_url or fetched.request.url


def _elsewhere(error: FetchError) -> bool:
    """Return whether another scheme may succeed: the connection or the https handshake failed."""
    return error.word in ("connect_failed", "https_failed", "tls_failed", "timeout", "bad_response")
