"""Subscribed feeds whose sites begin to ask for consent to cookies before they show anything."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterable

import pytest

from app import clock
from app.errors import FEED_FIXES, FEED_MESSAGES
from app.models.feeds.fetched import Fetched, FetchRequest, Validators
from app.services.feeds.pull_batch import PullResult
from tests.feeds.test_pull import Site, rss, site

__all__ = ["site"]

YOUTUBE = "https://www.youtube.com/feeds/videos.xml?channel_id=UC0000000000000000000000"
WALL = "https://consent.youtube.com/m?continue=https%3A%2F%2Fwww.youtube.com%2Ffeeds"
OTHER = "https://news.example/feed"
REFUSAL = (("Cookie", "SOCS=CAI"),)


class Web:
    """Sites that show a consent page to all who don't send this cookie."""

    def __init__(self, *, walled: bool = True, accepts: bool = True) -> None:
        self.walled, self.accepts, self.numbers = walled, accepts, [1]
        self.requests: list[FetchRequest] = []

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        for request in requests:
            self.requests.append(request)
            if self.walled and not (request.headers == REFUSAL and self.accepts):
                landed = WALL if request.url == YOUTUBE else "https://news.example/cookiewall?url=/feed"
                page = b"<!doctype html><title>Before you continue</title><p>We value your privacy"
                yield Fetched(request, 200, landed, body=page, validators=Validators(), wire_bytes=70)
                continue
            etag = f'"{max(self.numbers)}"'
            if request.validators.etag == etag:
                yield Fetched(request, 304, request.url, unchanged=True, validators=request.validators)
                continue
            body = rss(*reversed(self.numbers))
            known = Validators(etag, None, etag.encode().ljust(16))
            yield Fetched(request, 200, request.url, body=body, validators=known, wire_bytes=len(body))


def pull(site: Site, web: Web, *feed_ids: int) -> PullResult:
    return asyncio.run(site.services.pull.pull(feed_ids, web))


def add(site: Site, url: str) -> int:
    return site.services.gateways.feeds.get_or_create(url, now=clock.now()).id


@pytest.mark.parametrize("read_before", [True, False])
def test_a_feed_behind_a_consent_page_is_read_as_if_it_was_refused(site: Site, read_before: bool) -> None:
    web, feed_id = Web(walled=not read_before), add(site, YOUTUBE)
    assert pull(site, web, feed_id).new == 1
    web.walled = True
    for number in (2, 3):
        web.numbers.append(number)
        result = pull(site, web, feed_id)
        assert (result.new, result.errors) == (1, 0)
        stored = site.feed(feed_id)
        assert (stored.error, stored.url) == (None, YOUTUBE)
        # The cookie goes out only after the site has asked, and only to the site itself.
        asked = [request.headers for request in web.requests[-2:]]
        assert asked == [(), REFUSAL]
        # A poll without news stays cheap.
        quiet = pull(site, web, feed_id)
        assert (quiet.unchanged, quiet.not_modified) == (1, 1)


@pytest.mark.parametrize(("url", "accepts"), [(YOUTUBE, False), (OTHER, True)])
def test_a_feed_that_stays_behind_a_consent_page_says_so(site: Site, url: str, accepts: bool) -> None:
    web, feed_id = Web(walled=False, accepts=accepts), add(site, url)
    pull(site, web, feed_id)
    web.walled = True
    pull(site, web, feed_id)
    stored = site.feed(feed_id)
    assert (stored.error, stored.last_seq) == ("consent_page", 1)
    assert stored.error in FEED_MESSAGES
    assert stored.error in FEED_FIXES
    web.walled = False
    web.numbers.append(2)
    assert pull(site, web, feed_id).new == 1
    assert site.feed(feed_id).error is None


def test_other_feeds_of_a_batch_do_not_wait_for_the_second_request(site: Site) -> None:
    web = Web()
    ids = [add(site, YOUTUBE), add(site, OTHER)]

    class Mixed(Web):
        async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
            async for fetched in super().stream_fetches(requests):
                yield (
                    fetched
                    if fetched.request.url == YOUTUBE
                    else dataclasses.replace(fetched, body=rss(1), url=OTHER)
                )

    web = Mixed()
    result = pull(site, web, *ids)
    assert (result.feeds, result.new, result.errors) == (2, 2, 0)
    assert [request.url for request in web.requests] == [YOUTUBE, OTHER, YOUTUBE]


def test_an_html_page_that_is_no_consent_page_is_called_a_page(site: Site) -> None:
    feed_id = add(site, OTHER)

    class Pages(Web):
        async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
            for request in requests:
                yield Fetched(request, 200, "https://news.example/home", body=b"<!doctype html><p>Hello")

    pull(site, Pages(), feed_id)
    assert site.feed(feed_id).error == "html_page"
