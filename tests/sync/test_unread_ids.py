"""The ids of unread entries are those of a naive computation, whatever happened to feeds and marks."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator

import pytest

from app import clock
from app.bootstrap.services import Services
from app.gateways.feeds.retention import RetentionGateway
from app.gateways.reading import recent_keys
from app.gateways.reading.recent_keys import RecentKeys
from app.gateways.sync import streams
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.reading.entry_keys import to_millis
from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamRef
from app.models.subscriptions.read_state import ReadState
from app.models.subscriptions.subscription import Subscription
from app.models.sync.sync import SyncCursor, SyncQuery, SyncStream, SyncStreamKind
from tests.sharing.conftest import People
from tests.support.database import NOW, World

READING, READ = SyncStream(SyncStreamKind.READING), SyncStream(SyncStreamKind.READ)
ANN, BEN = Actor(1_700_000_000_000_001), Actor(1_700_000_000_000_002)


@pytest.fixture
def recent(services: Services, monkeypatch: pytest.MonkeyPatch) -> RecentKeys:
    """The cache, used for pages as short as those of these tests."""
    monkeypatch.setattr(recent_keys, "FEW", 0)
    monkeypatch.setattr(streams, "STRIDE", 1)
    found: RecentKeys = services.gateways.sync._recent
    return found


def _ids(services: Services, who: Actor, limit: int) -> Iterator[list[int]]:
    after: SyncCursor | None = None
    while True:
        query = SyncQuery((READING,), exclude=(READ,), limit=limit, after=after)
        keys, after = services.sync.load_page(who, query)
        yield [key.id for key in keys]
        if after is None:
            return


def _all(services: Services, who: Actor, limit: int) -> list[int]:
    return [entry for page in _ids(services, who, limit) for entry in page]


def _naive(services: Services, who: Actor) -> list[int]:
    """Return the unread entries of unmuted feeds one by one, newest first."""
    database, found = services.store.database, []
    for mine in services.gateways.subscriptions.find_by_user(who.user_id):
        feed = database["feeds"].find_one({"_id": mine.feed_id})
        assert feed is not None
        for doc in database["entries"].find({"feed_id": mine.feed_id}):
            inside = feed["first_seq"] <= doc["seq"] <= feed["last_seq"]
            if inside and not mine.muted and not mine.state.is_read(doc["seq"]):
                found.append((to_millis(doc["at"]), doc["_id"]))
    return [entry for _, entry in sorted(found, reverse=True)]


class Chance:
    """Does things at random to feeds and to what two people have read of them."""

    def __init__(self, services: Services, seed: int) -> None:
        self.services, self.random, self.world = services, random.Random(seed), World(services)
        self.feeds = [self.world.feed() for _ in range(12)]
        for feed in self.feeds:
            self.publish(feed, self.random.randrange(1, 150))
            for who in (ANN, BEN):
                services.gateways.subscriptions.add(
                    Subscription(0, who.user_id, feed), services.gateways.feeds.get(feed), NOW
                )

    def publish(self, feed: int, count: int) -> None:
        """Publish entries: some in order, some with the same time, some much older."""
        kind, r = self.random.randrange(3), self.random
        if kind == 0:
            ages = sorted((r.randrange(40_000) for _ in range(count)), reverse=True)
        elif kind == 1:
            ages = [r.choice((5, 60, 600)) for _ in range(count)]
        else:
            ages = [r.randrange(40_000) for _ in range(count)]
        self.world.publish(feed, self.world.minutes(*ages))

    def change(self) -> None:
        """Do one thing."""
        r, services = self.random, self.services
        who, feed = r.choice((ANN, BEN)), r.choice(self.feeds)
        docs = list(services.store.database["entries"].find({"feed_id": feed}, {"_id": 1}))
        some = [doc["_id"] for doc in r.sample(docs, min(len(docs), r.randrange(1, 40)))]
        match r.randrange(8):
            case 0 | 1:
                services.reading.mark(who, some, True)
            case 2:
                services.reading.mark(who, some, False)  # also below where everything is read
            case 3:
                services.reading.mark_all(who, StreamRef.parse(f"feed/{feed}"))
                services.reading.mark(who, some, False)
            case 4:
                services.reading.set_starred(who, some[0], True)
            case 5:
                database = services.store.database
                RetentionGateway(
                    FeedMapper(database), EntryMapper(database), keep=r.randrange(20, 80)
                ).apply_retention(feed)
            case 6:
                query = {"user_id": who.user_id, "feed_id": feed}
                services.store.database["subscriptions"].update_one(
                    query, {"$set": {"muted": r.random() < 0.5}}
                )
            case _:
                self.publish(feed, r.randrange(1, 30))


@pytest.mark.parametrize("seed", range(6))
def test_unread_ids_are_those_of_a_naive_computation(
    services: Services, recent: RecentKeys, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)
    chance = Chance(services, seed)
    for _ in range(12):
        for who in (ANN, BEN):
            expected = _naive(services, who)
            assert next(_ids(services, who, 50)) == expected[:50]
            assert _all(services, who, chance.random.choice((7, 60, 10_000))) == expected
        for _ in range(4):
            chance.change()
    assert recent._known


@pytest.mark.parametrize("seed", range(30))
def test_unread_bits_are_those_of_each_number(seed: int) -> None:
    r = random.Random(seed)
    start = 64 * r.randrange(4)
    upto = r.randrange(300)
    unread = tuple({r.randrange(1, 300) for _ in range(r.randrange(6))})
    state = ReadState(upto, r.getrandbits(200), start, unread)
    first, last = r.randrange(1, 250), r.randrange(1, 400)
    bits = state.build_unread_bits(first, last)
    assert [first + n for n in range(max(0, bits.bit_length())) if bits >> n & 1] == [
        seq for seq in range(first, last + 1) if not state.is_read(seq)
    ]


def test_a_full_cache_starts_again(
    services: Services, recent: RecentKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)
    monkeypatch.setattr(recent_keys, "PLACES", 2000)
    chance = Chance(services, 9)
    for _ in range(4):
        assert _all(services, ANN, 30) == _naive(services, ANN)
        for feed in chance.feeds:
            chance.publish(feed, 10)
    assert 0 < recent._places <= 2000
    assert recent._places == sum(map(recent_keys._weigh, recent._known.values()))


def test_removed_and_restored_shares_leave_and_return(services: Services, recent: RecentKeys) -> None:
    """Shares of people aren't cached: a removed share loses its entry, and gets it back when restored."""
    people = People(services)
    ann, ben = people.join("ann"), people.join("ben")
    entries = people.blog([ann, ben], 3)
    share, _ = (services.sharing.share(ben, entry).share.id for entry in entries[:2])
    people.follow(ann, "ben")
    before = set(_all(services, ann, 50))
    assert share in before
    undo = services.sharing.unshare(ben, entries[0])
    recent.clear()  # as in another process, which has never seen the share
    assert set(_all(services, ann, 50)) == before - {share}
    assert undo is not None
    services.sharing.restore_share(ben, undo)
    assert share in set(_all(services, ann, 50))


def test_keys_are_read_again_after_a_while(
    services: Services, recent: RecentKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failover another entry may have the number of one that this process has seen."""
    monkeypatch.setattr(clock, "now", lambda: NOW)
    chance = Chance(services, 4)
    before = _all(services, ANN, 10_000)
    entries = services.store.database["entries"]
    found = entries.find_one({"_id": before[0]})
    assert found is not None
    entries.delete_one({"_id": before[0]})
    later = before[0] + 1
    entries.insert_one({**found, "_id": later, "at": found["at"] + dt.timedelta(milliseconds=1)})
    for feed in chance.feeds:
        recent._known[feed] = recent._known[feed]._replace(until=0)
    assert _all(services, ANN, 10_000)[0] == later


def test_numbers_far_apart_arent_cached(
    services: Services, recent: RecentKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)
    monkeypatch.setattr(recent_keys, "PLACES", 10)
    Chance(services, 5)
    assert _all(services, ANN, 30) == _naive(services, ANN)
    assert not recent._known
