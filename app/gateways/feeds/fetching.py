"""Fetching feeds whose sites ask for consent to cookies first."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterable

from app.feeds.discover.consent import choose_cookie, find_page_behind
from app.models.feeds.fetched import Fetched, FetchRequest
from app.ports import FetchStreamer


async def fetch_feeds(fetcher: FetchStreamer, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
    """Fetch feeds, and yield each result as it arrives.

    Where a known site sends a consent page instead of the feed, its optional cookies are refused and the feed
    is fetched again, as a discovery does.
    """
    again: list[FetchRequest] = []
    async for fetched in fetcher.stream_fetches(requests):
        if (request := _refuse_cookies(fetched)) is not None:
            again.append(request)
        else:
            yield fetched
    if again:
        async for fetched in fetcher.stream_fetches(again):
            yield fetched


def is_consent_page(fetched: Fetched) -> bool:
    """Return whether a site sent a consent page instead of what was requested."""
    return find_page_behind(fetched.request.url, fetched.url) is not None


def _refuse_cookies(fetched: Fetched) -> FetchRequest | None:
    """Return the request with which a site shows no consent page; None if it showed none or isn't known."""
    request = fetched.request
    if fetched.body is None or fetched.url == request.url or request.headers:
        return None  # most feeds: nothing to compare
    cookie = choose_cookie(request.url)
    return dataclasses.replace(request, headers=cookie) if cookie and is_consent_page(fetched) else None
