"""The ids that apps get are those of a naive computation, whatever happened to feeds and marks."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from bson.binary import Binary
from bson.int64 import Int64

from app import clock
from app.bootstrap.services import Services
from app.errors import StoreError
from app.gateways.feeds.retention import RetentionGateway
from app.gateways.reading import arrival_order
from app.gateways.reading.arrival_order import ArrivalOrder
from app.gateways.sync import streams
from app.mappers.feeds.entries import EntryMapper
from app.mappers.feeds.feeds import FeedMapper
from app.models.accounts.actor import Actor
from app.models.reading.stream import StreamRef
from app.models.subscriptions.read_state import ReadState
from app.models.subscriptions.subscription import Subscription
from app.models.sync.sync import SyncQuery, SyncStream, SyncStreamKind
from tests.sharing.conftest import People
from tests.support.database import NOW, World

READING, READ = SyncStream(SyncStreamKind.READING), SyncStream(SyncStreamKind.READ)
ANN, BEN = Actor(1_700_000_000_000_001), Actor(1_700_000_000_000_002)
MINUTE = 60_000_000
#: The latest id of an entry so far; ids of feeds and subscriptions are later.
BEGIN = 1_772_000_000_000_000
#: The queries of apps by the read state that they want.
QUERIES = {
    None: SyncQuery((READING,)),
    False: SyncQuery((READING,), exclude=(READ,)),
    True: SyncQuery((READ,)),
}


@pytest.fixture
def order(services: Services, monkeypatch: pytest.MonkeyPatch) -> ArrivalOrder:
    """The cache, which narrows even the short pages of these tests."""
    monkeypatch.setattr(arrival_order, "SORTED", 0)
    monkeypatch.setattr(streams, "STRIDE", 1)
    found: ArrivalOrder = services.gateways.sync._arrived
    return found


class Chance:
    """Does things at random to feeds and to what two people have read of them."""

    def __init__(self, services: Services, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        self.services, self.random, self.world = services, random.Random(seed), World(services)
        self.database = services.store.database
        self.now = BEGIN
        monkeypatch.setattr(clock, "now", lambda: dt.datetime.fromtimestamp(self.now / 1e6, dt.UTC))
        self.guids = itertools.count()
        self.feeds = [self.world.feed() for _ in range(6)]
        for feed in self.feeds:
            self.publish(feed, self.random.randrange(1, 90))
            for who in (ANN, BEN):
                services.gateways.subscriptions.add(
                    Subscription(0, who.user_id, feed), services.gateways.feeds.get(feed), NOW
                )

    def publish(self, feed: int, count: int) -> None:
        """Let entries arrive: mostly in the order of their numbers, and dates in no order.

        Some have ids out of order, as after a change of the server's clock, or when a later pull reveals what
        a dying one left.
        """
        r = self.random
        self.now += r.randrange(1, 3000) * MINUTE
        ids = [self.now - count + n for n in range(count)]
        if r.random() < 0.3:
            ids = [i - r.randrange(4000) * MINUTE - 1000 * next(self.guids) for i in ids]
        last = self.services.gateways.feeds.get(feed).last_seq
        self.database["entries"].insert_many([self._entry(feed, last + 1 + n, i) for n, i in enumerate(ids)])
        self.database["feeds"].update_one({"_id": feed}, {"$set": {"last_seq": Int64(last + count)}})

    def _entry(self, feed: int, seq: int, entry_id: int) -> dict[str, Any]:
        guid = Binary(next(self.guids).to_bytes(8, "big"))
        at = NOW - dt.timedelta(minutes=self.random.randrange(40_000))
        return {"_id": entry_id, "feed_id": feed, "seq": seq, "guid_hash": guid, "at": at, "title": "Entry"}

    def change(self) -> None:
        """Do one thing."""
        r, reading = self.random, self.services.reading
        who, feed = r.choice((ANN, BEN)), r.choice(self.feeds)
        docs = list(self.database["entries"].find({"feed_id": feed}, {"_id": 1}))
        some = [doc["_id"] for doc in r.sample(docs, min(len(docs), r.randrange(1, 40)))]
        match r.randrange(8):
            case 0 | 1:
                reading.mark(who, some, True)
            case 2:
                reading.mark(who, some, False)  # also below where everything is read
            case 3:
                reading.mark_all(who, StreamRef.parse(f"feed/{feed}"))
                reading.mark(who, some, False)
            case 4:
                reading.set_starred(who, some[0], True)
            case 5:
                feeds, entries = FeedMapper(self.database), EntryMapper(self.database)
                keep = r.randrange(20, 80)
                outbox = self.services.mappers.outbox
                RetentionGateway(feeds, entries, outbox, keep=keep, keep_bytes=1 << 30).apply_retention(feed)
            case 6:
                query = {"user_id": who.user_id, "feed_id": feed}
                self.database["subscriptions"].update_one(query, {"$set": {"muted": r.random() < 0.5}})
            case _:
                self.publish(feed, r.randrange(1, 30))

    def compute(self, who: Actor, read: bool | None) -> list[int]:
        """Return the entries of unmuted feeds one by one, latest arrival first."""
        mine = {s.feed_id: s for s in self.services.gateways.subscriptions.find_by_user(who.user_id)}
        ranges = {
            doc["_id"]: (doc["first_seq"], doc["last_seq"])
            for doc in self.database["feeds"].find({}, {"first_seq": 1, "last_seq": 1})
        }
        return sorted(
            (
                doc["_id"]
                for doc in self.database["entries"].find({}, {"feed_id": 1, "seq": 1})
                if (feed := mine[doc["feed_id"]]) and not feed.muted
                if ranges[feed.feed_id][0] <= doc["seq"] <= ranges[feed.feed_id][1]
                if read is None or feed.state.is_read(doc["seq"]) is read
            ),
            reverse=True,
        )

    def check(self, who: Actor) -> None:
        """Compare the pages of random sizes, in both orders, with the computation."""
        for read, query in QUERIES.items():
            expected = self.compute(who, read)
            oldest_first = self.random.random() < 0.4
            if oldest_first:
                expected.reverse()
            find: Callable[..., Any] = self.random.choice((self.services.sync.load_ids, self._load_keys))
            found: list[int] = []
            after: int | None = None
            size = self.random.choice((7, 25, 60, 10_000))
            for _ in range(3 if size < 60 else 20):
                page = SyncQuery(
                    query.streams, (), query.exclude, newest_first=not oldest_first, limit=size, after=after
                )
                ids, after = find(who, page)
                found += ids
                if after is None:
                    assert found == expected
                    break
                assert (len(ids), after) == (size, ids[-1])
            assert found == expected[: len(found)]
        assert self.services.sync.list_unread_ids(who) == sorted(self.compute(who, False))

    def _load_keys(self, who: Actor, query: SyncQuery) -> tuple[list[int], int | None]:
        keys, end = self.services.sync.load_page(who, query)
        seqs = {
            doc["_id"]: (doc["feed_id"], doc["seq"])
            for doc in self.database["entries"].find({"_id": {"$in": [key.id for key in keys]}})
        }
        assert [(key.feed_id, key.seq) for key in keys] == [seqs[key.id] for key in keys]
        return [key.id for key in keys], end


@pytest.mark.parametrize(
    ("seed", "rows"), [(0, 10_000), (1, 10_000), (2, 10_000), (3, 120), (4, 120), (5, 0)]
)
def test_ids_are_those_of_a_naive_computation(
    services: Services, order: ArrivalOrder, monkeypatch: pytest.MonkeyPatch, seed: int, rows: int
) -> None:
    """``rows``: for a reader of few entries, of more than the cache holds, and without a cache."""
    monkeypatch.setattr(arrival_order, "ROWS", rows)
    monkeypatch.setattr(arrival_order, "AGES", (2000 * MINUTE, 9000 * MINUTE))
    monkeypatch.setattr(arrival_order, "STRIDE", 50)
    chance = Chance(services, monkeypatch, seed)
    for _ in range(6):
        for who in (ANN, BEN):
            chance.check(who)
        for _ in range(4):
            chance.change()
    assert bool(order._known) is bool(rows)


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
    services: Services, order: ArrivalOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival_order, "PLACES", 700)
    chance = Chance(services, monkeypatch, 9)
    for _ in range(4):
        chance.check(ANN)
        for feed in chance.feeds:
            chance.publish(feed, 10)
    assert 0 < order._places <= 700
    assert order._places == sum(map(arrival_order._weigh, order._known.values()))


@pytest.fixture
def reads(order: ArrivalOrder, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The feeds of each command that reads ids."""
    found: list[list[int]] = []
    find_rows = order._arrivals.find_rows

    def note(feed_ids: Sequence[int], *args: Any) -> Any:
        found.append(list(feed_ids))
        return find_rows(feed_ids, *args)

    monkeypatch.setattr(order._arrivals, "find_rows", note)
    return found


def test_many_ids_are_read_in_parts_and_each_part_is_kept(
    services: Services, order: ArrivalOrder, reads: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command for half a million rows took longer than a command may, and each attempt began anew."""
    monkeypatch.setattr(arrival_order, "COMMAND_ROWS", 1)
    monkeypatch.setattr(arrival_order, "SHARED_ROWS", 1)
    chance = Chance(services, monkeypatch, 6)
    order.clear()
    reads.clear()
    find_rows = order._arrivals.find_rows

    def fail(feed_ids: Sequence[int], *args: Any) -> Any:
        if len(reads) == 2:
            raise StoreError
        return find_rows(feed_ids, *args)

    with monkeypatch.context() as failing:
        failing.setattr(order._arrivals, "find_rows", fail)
        with pytest.raises(StoreError):
            services.sync.load_ids(ANN, QUERIES[None])
    chance.check(ANN)
    feeds = [feed_id for part in reads for feed_id in part]
    assert all(len(part) == 1 for part in reads)
    assert len(feeds) > 2
    assert len(set(feeds)) == len(feeds), "none is read twice"


def test_threads_that_need_the_same_ids_read_them_once(
    services: Services, order: ArrivalOrder, reads: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival_order, "SHARED_ROWS", 1)
    Chance(services, monkeypatch, 7)
    order.clear()
    reads.clear()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: services.sync.load_ids(ANN, QUERIES[None]), range(8)))
    assert all(ids == found[0] for ids in found)
    assert len(reads) == 1


def test_a_thread_that_waits_too_long_for_ids_says_so(
    services: Services, order: ArrivalOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival_order, "SHARED_ROWS", 1)
    monkeypatch.setattr(arrival_order, "SHARED_SECONDS", 0.01)
    Chance(services, monkeypatch, 8)
    order.clear()
    with order._loading, pytest.raises(StoreError):
        services.sync.load_ids(ANN, QUERIES[None])


def test_removed_and_restored_shares_leave_and_return(services: Services, order: ArrivalOrder) -> None:
    """Shares of people aren't cached: a removed share loses its entry, and gets it back when restored."""
    people = People(services)
    ann, ben = people.join("ann"), people.join("ben")
    entries = people.blog([ann, ben], 3)
    share, _ = (services.sharing.share(ben, entry).share.id for entry in entries[:2])
    people.follow(ann, "ben")
    query = QUERIES[False]
    before = set(services.sync.load_ids(ann, query)[0])
    assert share in before
    undo = services.sharing.unshare(ben, entries[0])
    assert set(services.sync.load_ids(ann, query)[0]) == before - {share}
    order.clear()  # as in another process, which has never seen the share
    assert set(services.sync.load_ids(ann, query)[0]) == before - {share}
    assert undo is not None
    services.sharing.restore_share(ben, undo)
    assert share in set(services.sync.load_ids(ann, query)[0])


def test_ids_are_read_again_after_a_while(
    services: Services, order: ArrivalOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failover another entry may have the number of one that this process has seen."""
    chance = Chance(services, monkeypatch, 4)
    before = services.sync.load_ids(ANN, QUERIES[None])[0]
    entries = services.store.database["entries"]
    found = entries.find_one({"_id": before[0]})
    assert found is not None
    entries.delete_one({"_id": before[0]})
    entries.insert_one({**found, "_id": before[0] + 1})
    for feed in chance.feeds:
        order._known[feed] = order._known[feed]._replace(until=0)
    assert services.sync.load_ids(ANN, QUERIES[None])[0][0] == before[0] + 1


def test_numbers_far_apart_arent_cached(
    services: Services, order: ArrivalOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival_order, "PLACES", 10)
    chance = Chance(services, monkeypatch, 5)
    chance.check(ANN)
    assert not order._known
