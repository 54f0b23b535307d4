"""Crawls: slow searches of whole sites for a feed, after a quick one found none. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import NamedTuple

from app.models.feeds.discovery import FoundFeed


class CrawlTarget(NamedTuple):
    """An address that a crawl will fetch.

    Attributes:
        depth: links between the home page and this page.
        is_feed: whether it may be a feed, not a page.
    """

    url: str
    depth: int = 0
    is_feed: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Crawl:
    """One crawl, of one site.

    Attributes:
        host: of the site, without "www.". url: where it began.
        todo: the next addresses, in order.
        tried: hashes of all addresses that were or will be fetched.
        requests: how many were sent, or were to be sent by a worker that died.
        attempts: how often workers began the next step; more than one: the earlier ones died.
        found: the feeds so far, the best first.
        next_at: when the next address may be fetched; None: the crawl has ended.
    """

    id: int
    host: str
    url: str
    todo: tuple[CrawlTarget, ...] = ()
    tried: tuple[str, ...] = ()
    requests: int = 0
    attempts: int = 0
    found: tuple[FoundFeed, ...] = ()
    next_at: dt.datetime | None = None


class CrawlFigures(NamedTuple):
    """How many crawls there were lately: running ones, ended ones, and those that found a feed.

    ``requests``: sent by all of them.
    """

    running: int = 0
    ended: int = 0
    successful: int = 0
    requests: int = 0
