"""What the tests of people share: accounts, what they follow, and what they pass on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest

from app import clock
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.accounts.user import NewUser
from app.models.feeds.feed import FeedFields, FeedUpdate
from app.models.reading.entry import NewEntry
from app.models.reading.stream import EntryRow, Page, StreamKind, StreamQuery, StreamRef
from app.models.sharing.sharing import Audience, ChainNode, ShareVisibility

ALL = StreamRef(StreamKind.ALL)
FOLLOWING = StreamRef(StreamKind.FOLLOWING)
SHARES = StreamRef(StreamKind.SHARES)


class People:
    """Accounts by name, and a blog that they read."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._numbers = 0

    def join(self, name: str) -> Actor:
        """Make an account."""
        new = NewUser(f"{name}@example.org", name, "$argon2id$none")
        # As each request of his makes it anew: what he follows later counts.
        return Actor(self.services.gateways.accounts.add_user(new).id)

    def blog(self, readers: Sequence[Actor], entries: int = 1, name: str = "blog") -> list[int]:
        """Publish a feed, let these people read it, and return its entries' ids, the oldest first."""
        url, feeds = f"https://{name}.example.org/feed", self.services.gateways.feeds
        now = clock.now()
        feed_id = feeds.get_or_create(url, now=now, title=name).id
        new = [self._entry(name, now - dt.timedelta(minutes=n)) for n in range(entries)]
        assert feeds.claim([feed_id], f"{name}-{self._numbers}", now, 60)
        feeds.store_updates(
            [
                FeedUpdate(
                    feed_id, f"{name}-{self._numbers}", now, tuple(new), fields=FeedFields(checked_at=now)
                )
            ],
            now,
        )
        for reader in readers:
            self.services.subscriptions.subscribe(reader, url)
        docs = self.services.store.database["entries"].find({"feed_id": feed_id}).sort("seq")
        return [d["_id"] for d in docs]

    def _entry(self, name: str, at: dt.datetime) -> NewEntry:
        self._numbers += 1
        return NewEntry(
            guid_hash=self._numbers.to_bytes(8, "big"),
            at=at,
            arrived=at,
            title=f"{name} {self._numbers}",
            url=f"https://{name}.example.org/{self._numbers}",
            content=f"<p>The text of {name} {self._numbers}</p>",
            excerpt=f"The text of {name} {self._numbers}",
        )

    def open(self, who: Actor, audience: Audience = Audience.PUBLIC) -> None:
        """Let somebody have a stream for this audience."""
        self.services.following.update_profile(
            who, display="", bio="", links=(), audience=audience, listed=False, open_lists=False
        )

    def follow(self, who: Actor, *names: str) -> None:
        for name in names:
            assert self.services.following.follow(who, name).follows

    def page(self, who: Actor, ref: StreamRef = ALL, limit: int = 50) -> Page:
        return self.services.reading.load_page(who, StreamQuery(ref, limit=limit))

    def rows(self, who: Actor, ref: StreamRef = ALL) -> tuple[EntryRow, ...]:
        return self.page(who, ref).rows

    def chain(self, who: Actor | None, share_id: int) -> list[tuple[int, str]]:
        """Return the tree as (depth, name or what stands for it)."""
        return [_said(n) for n in self.services.sharing.list_chain(who, share_id).nodes]


def _said(node: ChainNode) -> tuple[int, str]:
    return node.depth, node.by.handle if node.link is ShareVisibility.SEEN and node.by else node.link.value


def names(row: EntryRow) -> list[str]:
    return [s.handle for s in row.sharers]


@pytest.fixture
def people(services: Services) -> People:
    return People(services)


@pytest.fixture
def ann(people: People) -> Actor:
    return people.join("ann")


@pytest.fixture
def bob(people: People) -> Actor:
    return people.join("bob")


@pytest.fixture
def cleo(people: People) -> Actor:
    return people.join("cleo")
