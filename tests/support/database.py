"""What the tests of data share: a builder that writes feeds and entries as pulls do."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence

import pytest

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.feeds.feed import FeedFields, FeedUpdate, StoreResult
from app.models.reading.entry import EntryChange, NewEntry

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=clock.UTC)


def guid(number: int) -> bytes:
    return number.to_bytes(8, "big")


def new_entry(number: int, at: dt.datetime = NOW, title: str = "") -> NewEntry:
    return NewEntry(
        guid_hash=guid(number),
        at=at,
        arrived=at,
        title=title or f"Entry {number}",
        url=f"https://example.org/{number}",
        content="<p>Text</p>",
        excerpt="Text",
    )


class World:
    """Feeds and entries, written through the gateways."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.feeds = services.gateways.feeds
        self._numbers = itertools.count(1)
        self._tokens = itertools.count(1)

    def feed(self, name: str | None = None) -> int:
        """Create a feed without entries."""
        name = name or f"feed{next(self._numbers)}"
        return self.feeds.get_or_create(f"https://{name}.example.org/feed", now=NOW, title=name).id

    def publish(
        self, feed_id: int, ats: Sequence[dt.datetime], *, changed: Sequence[EntryChange] = ()
    ) -> StoreResult:
        """Store new entries with these sort times as one pull does."""
        new = [new_entry(next(self._numbers), at) for at in ats]
        return self.store(feed_id, new, changed=changed)

    def store(
        self,
        feed_id: int,
        new: Sequence[NewEntry],
        *,
        changed: Sequence[EntryChange] = (),
        now: dt.datetime = NOW,
    ) -> StoreResult:
        """Claim a feed and store these entries, in feed order."""
        token = f"token-{next(self._tokens)}"
        assert self.feeds.claim([feed_id], token, now, 60), "somebody holds the claim"
        update = FeedUpdate(feed_id, token, now, tuple(new), tuple(changed), FeedFields(checked_at=now))
        return self.feeds.store_updates([update], now)[0]

    def minutes(self, *ages: int) -> list[dt.datetime]:
        """Return moments so many minutes before NOW."""
        return [NOW - dt.timedelta(minutes=age) for age in ages]


@pytest.fixture
def world(services: Services) -> World:
    return World(services)


@pytest.fixture
def alice() -> Actor:
    return Actor(1_700_000_000_000_001)


@pytest.fixture
def bob() -> Actor:
    return Actor(1_700_000_000_000_002)
