"""Sequence numbers under many writers, late writers and dead writers, on the real store."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import datetime as dt
import multiprocessing
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.errors import StoreError
from app.mappers.feeds.entries import NumberedEntry, parse_entry
from app.mappers.feeds.feeds import FeedMapper
from app.mappers.mongo import ids
from app.models.accounts.actor import Actor
from app.models.feeds.feed import FeedFields, FeedUpdate, StoreResult
from app.models.feeds.parsed import Enclosure, FileRole, Replies
from app.models.reading.entry import EntryChange
from app.models.reading.stream import StreamQuery, StreamRef
from tests.support.database import NOW, World, guid, new_entry

Db = Database[dict[str, Any]]


def check_whole(db: Db, feed_id: int) -> set[bytes]:
    """Assert that a feed's numbers have no gap, and return the guids that readers see."""
    feed = db["feeds"].find_one({"_id": feed_id})
    assert feed is not None
    found = list(db["entries"].find({"feed_id": feed_id, "seq": {"$lte": feed["last_seq"]}}).sort("seq"))
    assert [e["seq"] for e in found] == list(range(feed["first_seq"], feed["last_seq"] + 1))
    guids = [bytes(e["guid_hash"]) for e in found]
    assert len(set(guids)) == len(guids)
    return set(guids)


def reconciled(services: Services, feed_id: int) -> None:
    """Let a next writer take the feed over, whoever held it."""
    later = clock.now() + dt.timedelta(days=1)
    claimed = services.gateways.feeds.claim([feed_id], "the-last", later, 60)
    assert len(claimed) == 1
    services.gateways.feeds.release("the-last", [feed_id])


def update(feed_id: int, token: str, *numbers: int, at: dt.datetime = NOW) -> FeedUpdate:
    new = tuple(new_entry(n, at) for n in numbers)
    return FeedUpdate(feed_id, token, at, new, (), FeedFields(checked_at=at))


def test_numbers_follow_the_sort_time_and_ids_with_them(world: World, db: Db) -> None:
    feed_id = world.feed()
    world.publish(feed_id, world.minutes(1, 5, 3, 3))
    found = list(db["entries"].find({"feed_id": feed_id}).sort("seq"))
    assert [e["at"] for e in found] == world.minutes(5, 3, 3, 1)
    assert [e["_id"] for e in found] == sorted(e["_id"] for e in found)
    # Of entries with the same time the first in the feed is the newest.
    assert [e["title"] for e in found[1:3]] == sorted((e["title"] for e in found[1:3]), reverse=True)


def test_storing_the_same_twice_adds_nothing(world: World, db: Db) -> None:
    feed_id = world.feed()
    entries = [new_entry(n) for n in (3, 2, 1)]
    first, second = world.store(feed_id, entries), world.store(feed_id, [new_entry(4), *entries])
    assert (first.new, first.last_seq) == (3, 3)
    assert (second.stored, second.new, second.last_seq) == (True, 1, 4)
    assert check_whole(db, feed_id) == {guid(n) for n in (1, 2, 3, 4)}


def test_a_batch_of_feeds_is_stored_feed_by_feed(world: World, db: Db) -> None:
    ids = [world.feed() for _ in range(5)]
    world.feeds.claim(ids, "batch", NOW, 60)
    updates = [update(feed_id, "batch", *range(i * 10, i * 10 + i)) for i, feed_id in enumerate(ids)]
    results = world.feeds.store_updates(updates, NOW)
    assert [(r.feed_id, r.stored, r.new) for r in results] == [(f, True, i) for i, f in enumerate(ids)]
    assert [len(check_whole(db, f)) for f in ids] == [0, 1, 2, 3, 4]
    assert db["feeds"].count_documents({"claim_token": {"$exists": True}}) == 0


def test_a_claim_is_held_by_one_until_it_runs_out(world: World) -> None:
    feed_id = world.feed()
    assert [f.id for f in world.feeds.claim([feed_id], "one", NOW, 60)] == [feed_id]
    assert world.feeds.claim([feed_id], "two", NOW + dt.timedelta(seconds=59), 60) == []
    assert world.feeds.claim([feed_id], "dead-man's-heir", NOW, 60, dead_tokens=["one"]) != []
    assert world.feeds.claim([feed_id], "three", NOW + dt.timedelta(seconds=61), 60) != []
    assert not world.feeds.store_updates([update(feed_id, "one", 1)], NOW)[0].stored
    assert world.feeds.store_updates([update(feed_id, "three", 1)], NOW)[0].stored


def test_a_late_writer_without_entries_changes_nothing_either(world: World) -> None:
    feed_id = world.feed()
    world.feeds.claim([feed_id], "late", NOW, 10)
    later = NOW + dt.timedelta(seconds=11)
    world.feeds.claim([feed_id], "next", later, 60)
    unchanged = FeedUpdate(feed_id, "late", NOW, (), (), FeedFields(error="timeout", next_check_at=None))
    assert not world.feeds.store_updates([unchanged], later)[0].stored
    feed = world.feeds.get(feed_id)
    assert (feed.error, feed.claim_token, feed.next_check_at) == (None, "next", NOW)


class Paused:
    """A writer in a thread that stops before a step until it is let on: a zombie in the making."""

    def __init__(
        self, services: Services, mapper: object, step: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._services = services
        self.reached, self.go = threading.Event(), threading.Event()
        original: Callable[..., Any] = getattr(mapper, step)

        def waiting(*args: Any, **kwargs: Any) -> Any:
            if not self.reached.is_set():
                self.reached.set()
                assert self.go.wait(30)
            return original(*args, **kwargs)

        monkeypatch.setattr(mapper, step, waiting)

    def start(self, change: FeedUpdate) -> concurrent.futures.Future[list[StoreResult]]:
        pool = concurrent.futures.ThreadPoolExecutor(1)
        future = pool.submit(self._services.gateways.feeds.store_updates, [change], NOW)
        pool.shutdown(wait=False)
        assert self.reached.wait(30)
        return future


@pytest.fixture
def zombie(settings: Settings) -> Iterator[Services]:
    """A second process's services on the same database."""
    built = bootstrap.build(settings)
    yield built
    built.close()


STEPS = {"before the entries": ("entries", "add"), "between entries and state": ("feeds", "write_states")}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("late", "winner"),
    [
        ((1, 2, 3), (1, 2, 3)),
        ((1, 2, 3), (2,)),  # leaves a hole between the winner's number and the late one's last
        ((1, 2, 3), (4, 5)),
        ((3,), (1, 2, 3, 4, 5)),
        ((1, 2, 3, 4, 5), (3, 6)),
    ],
)
def test_a_writer_whose_claim_ran_out_writes_late_and_nothing_breaks(
    world: World,
    zombie: Services,
    db: Db,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    late: tuple[int, ...],
    winner: tuple[int, ...],
) -> None:
    feed_id = world.feed()
    world.store(feed_id, [new_entry(100), new_entry(101)])
    world.feeds.claim([feed_id], "late", NOW, 10)
    mapper, name = STEPS[step]
    paused = Paused(zombie, getattr(zombie.mappers, mapper), name, monkeypatch)
    future = paused.start(update(feed_id, "late", *late))
    after = NOW + dt.timedelta(seconds=11)
    assert world.feeds.claim([feed_id], "winner", after, 60)
    assert world.feeds.store_updates([update(feed_id, "winner", *winner)], after)[0].stored
    check_whole(db, feed_id)
    paused.go.set()
    assert [r.stored for r in future.result(30)] == [False]
    check_whole(db, feed_id)
    reconciled(world.services, feed_id)
    expected = {guid(n) for n in {100, 101, *late, *winner}}
    if step == "before the entries":
        # What the late writer could not insert, the winner's own next fetch would bring again.
        assert {guid(n) for n in {100, 101, *winner}} <= check_whole(db, feed_id) <= expected
        assert world.store(feed_id, [new_entry(n) for n in late], now=after + dt.timedelta(days=2)).stored
    assert check_whole(db, feed_id) == expected
    assert db["entries"].count_documents({"feed_id": feed_id}) == len(expected)


@pytest.mark.parametrize("again", [False, True])
def test_what_a_crash_left_between_entries_and_state_is_found_by_the_next_writer(
    world: World, zombie: Services, db: Db, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    feed_id = world.feed()
    world.store(feed_id, [new_entry(1)])

    def crash(*_: object, **__: object) -> None:
        raise StoreError

    monkeypatch.setattr(FeedMapper, "write_states", crash)
    zombie.gateways.feeds.claim([feed_id], "dead", NOW, 10)
    with pytest.raises(StoreError):
        zombie.gateways.feeds.store_updates([update(feed_id, "dead", 2, 3)], NOW)
    monkeypatch.undo()
    assert check_whole(db, feed_id) == {guid(1)}
    later = NOW + dt.timedelta(seconds=11)
    claimed = world.feeds.claim([feed_id], "next", later, 60)
    assert [f.last_seq for f in claimed] == [3]
    assert check_whole(db, feed_id) == {guid(1), guid(2), guid(3)}
    numbers = (2, 3, 4) if again else (4,)
    result = world.feeds.store_updates([update(feed_id, "next", *numbers)], later)[0]
    assert (result.stored, result.last_seq) == (True, 4)
    assert check_whole(db, feed_id) == {guid(n) for n in (1, 2, 3, 4)}


@pytest.mark.parametrize("left", [(), (3, 90), range(150)])
def test_reading_begins_where_the_first_pull_says_whoever_died_before_it(
    world: World, db: Db, alice: Actor, left: Sequence[int]
) -> None:
    feed_id = world.feed("first")
    with clock.set_source(lambda: NOW):
        world.services.subscriptions.subscribe(alice, "https://first.example.org/feed")
    world.feeds.claim([feed_id], "dead", NOW, 10)
    # It died before it inserted its entries, between two of them, or before it wrote the state.
    world.services.mappers.entries.add([NumberedEntry(feed_id, 150 - n, new_entry(n)) for n in left])
    later = NOW + dt.timedelta(seconds=11)
    assert world.store(feed_id, [new_entry(n) for n in range(150)], now=later).last_seq == 150
    assert check_whole(db, feed_id) == {guid(n) for n in range(150)}
    with clock.set_source(lambda: NOW):
        assert world.services.reading.get_tree(alice).unread == 100


@pytest.mark.parametrize("step", [*STEPS, "nothing new"])
def test_a_poll_whose_claim_a_crash_took_back_is_made_again_at_once(
    world: World, zombie: Services, db: Db, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The store came back without its last writes: the claim is nobody's, the next poll was hours away."""
    feed_id = world.feed()
    world.store(feed_id, [new_entry(1)])
    world.feeds.claim([feed_id], "lost", NOW, 60)
    numbers = () if step == "nothing new" else (2, 3)
    mapper, name = STEPS.get(step, ("feeds", "write_states"))
    paused = Paused(zombie, getattr(zombie.mappers, mapper), name, monkeypatch)
    future = paused.start(update(feed_id, "lost", *numbers))
    back = {
        "$unset": {"claim_token": "", "claimed_until": ""},
        "$set": {"next_check_at": NOW + dt.timedelta(hours=9)},
    }
    db["feeds"].update_one({"_id": feed_id}, back)
    paused.go.set()
    assert [r.stored for r in future.result(30)] == [False]
    assert world.feeds.get(feed_id).next_check_at == NOW
    reconciled(world.services, feed_id)
    assert check_whole(db, feed_id) == {guid(n) for n in (1, *numbers)}
    db["feeds"].update_one({"_id": feed_id}, {"$set": {"next_check_at": None}})
    world.feeds.store_updates([update(feed_id, "nobody's", 9)], NOW)
    assert world.feeds.get(feed_id).next_check_at is None


def test_a_late_change_never_overwrites_a_newer_one(world: World, db: Db) -> None:
    feed_id = world.feed()
    world.store(feed_id, [new_entry(1)])
    for minutes, title in ((10, "newer"), (5, "older")):
        at = NOW + dt.timedelta(minutes=minutes)
        change = EntryChange(guid_hash=guid(1), title=title)
        world.feeds.store_updates([FeedUpdate(feed_id, "nobody's", at, (), (change,))], NOW)
    entry = db["entries"].find_one({"feed_id": feed_id})
    assert entry is not None
    assert (entry["title"], entry["revision"], entry["seq"]) == ("newer", 2, 1)


@pytest.mark.parametrize(("title", "revision"), [("Entry 1", 1), ("edited", 2)])
def test_an_entry_that_is_listed_again_keeps_its_place_and_says_what_it_says_now(
    world: World, db: Db, title: str, revision: int
) -> None:
    feed_id = world.feed()
    world.store(feed_id, [new_entry(2), new_entry(1)])
    later = NOW + dt.timedelta(hours=1)
    files = (
        Enclosure("https://example.org/e", None, 3),
        Enclosure("https://example.org/p", text="A lizard", duration=9),
        Enclosure("https://example.org/t", "text/vtt", role=FileRole.TRANSCRIPT),
    )
    replies = Replies("https://example.org/c", None, 3)
    rich = {"image": "https://example.org/i", "enclosures": files, "replies": replies}
    world.store(feed_id, [new_entry(3)._replace(**rich)], now=later)
    again = [new_entry(1, later, title), new_entry(3, later)._replace(**rich), new_entry(4, later)]
    assert world.store(feed_id, again, now=later).new == 1
    assert check_whole(db, feed_id) == {guid(n) for n in (1, 2, 3, 4)}
    found = [(e["seq"], e["title"], e["revision"]) for e in db["entries"].find().sort("seq")]
    assert found[:3] == [(1, title, revision), (2, "Entry 2", 1), (3, "Entry 3", 1)]
    stored = parse_entry(db["entries"].find_one({"seq": 3}))
    assert (stored.enclosures, stored.replies) == (files, replies)


def test_what_a_later_fetch_stored_is_not_outdated(world: World) -> None:
    feed_id = world.feed()
    later = NOW + dt.timedelta(minutes=1)
    world.store(feed_id, [new_entry(1, later, "newer")], now=later)
    outdated = world.services.mappers.entries.find_changes
    assert outdated(feed_id, [new_entry(1, NOW, "older")], NOW) == []
    assert [c.title for c in outdated(feed_id, [new_entry(1, later, "newest")], later)] == ["newest"]


def test_two_entries_at_the_same_microsecond_get_two_ids(world: World, zombie: Services, db: Db) -> None:
    feeds = [world.feed(), world.feed()]
    for feed_id in feeds:
        ids._last = 0  # as in two processes that start in the same moment
        with clock.set_source(lambda: NOW):
            world.store(feed_id, [new_entry(n) for n in range(2000)])
    assert db["entries"].count_documents({}) == 4000
    assert [len(check_whole(db, f)) for f in feeds] == [2000, 2000]


def _write_at_random(settings: Settings, feed_ids: list[int], seed: int, rounds: int) -> set[tuple[int, int]]:
    """One process with two writers; return (feed, number) of each entry stored under a held claim."""
    services = bootstrap.build(settings)

    def write(seed: int) -> set[tuple[int, int]]:
        rng, done = random.Random(seed), set()
        for turn in range(rounds):
            token = f"{seed}-{turn}"
            # Half of all claims run out at once: the next writer comes while this one still writes.
            seconds = rng.choice((0, 30))
            mine = services.gateways.feeds.claim(feed_ids, token, clock.now(), seconds)
            updates = [
                update(f.id, token, *rng.sample(range(150), rng.randint(0, 6)), at=clock.now()) for f in mine
            ]
            results = services.gateways.feeds.store_updates(updates, clock.now())
            for u, r in zip(updates, results, strict=True):
                if r.stored:
                    done |= {(u.feed_id, int.from_bytes(e.guid_hash, "big")) for e in u.new}
        return done

    try:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return set().union(*pool.map(write, (seed, seed + 1000)))
    finally:
        services.close()


def test_R02_eight_writers_with_expiring_claims_leave_no_gap_and_no_duplicate(
    world: World, settings: Settings, db: Db
) -> None:
    feed_ids = [world.feed() for _ in range(3)]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(4, mp_context=context) as pool:
        futures = [pool.submit(_write_at_random, world.services.settings, feed_ids, s, 12) for s in range(4)]
        checks = 0
        # Between two looks the processors are theirs.
        while concurrent.futures.wait(futures, timeout=0.01).not_done:
            for feed_id in feed_ids:
                _check_prefix(db, feed_id)
                checks += 1
        stored = set().union(*(f.result() for f in futures))
    assert checks
    assert stored
    for feed_id in feed_ids:
        reconciled(world.services, feed_id)
        seen = check_whole(db, feed_id)
        # Nothing acknowledged is lost, and nothing invisible is left over.
        assert {guid(n) for f, n in stored if f == feed_id} <= seen
        assert db["entries"].count_documents({"feed_id": feed_id}) == len(seen)


def _check_prefix(db: Db, feed_id: int) -> None:
    """Assert, in the midst of it, that everything up to ``last_seq`` is stored."""
    feed = db["feeds"].find_one({"_id": feed_id}, {"last_seq": 1})
    assert feed is not None
    query = {"feed_id": feed_id, "seq": {"$lte": feed["last_seq"]}}
    assert db["entries"].count_documents(query) == feed["last_seq"]


def test_retention_raises_the_first_number_and_keeps_stars(world: World, db: Db, alice: Actor) -> None:
    services, keep = world.services, 20
    feed_id = world.feed("kept")
    services.gateways.retention._keep = keep
    services.subscriptions.subscribe(alice, "https://kept.example.org/feed")
    world.publish(feed_id, world.minutes(*range(50)))
    oldest = db["entries"].find_one({"feed_id": feed_id, "seq": 1})
    assert oldest is not None
    services.reading.set_starred(alice, oldest["_id"], True)
    assert services.gateways.retention.apply_retention(feed_id) == 29
    assert services.gateways.retention.apply_retention(feed_id) == 0
    assert services.reading.get_tree(alice).unread == keep
    starred = services.reading.load_page(alice, StreamQuery(StreamRef.parse("starred")))
    assert [r.id for r in starred.rows] == [oldest["_id"]]
    everything = services.reading.load_page(alice, StreamQuery(StreamRef.parse("all")))
    assert oldest["_id"] not in {r.id for r in everything.rows}
    services.reading.set_starred(alice, oldest["_id"], False)
    assert services.gateways.retention.apply_retention(feed_id) == 1


_CHANGED = tuple(field.name for field in dataclasses.fields(EntryChange))
_NOISE = random.Random(7)


def _big(n: int, size: int = 40_000) -> Any:
    """Return an entry that takes a bit more than ``size`` bytes in the store."""
    return new_entry(n)._replace(content="", summary="", raw=_NOISE.randbytes(size))


def _limit_bytes(services: Services, limit: int) -> None:
    services.gateways.retention._keep_bytes = limit
    services.gateways.feeds._writer._keep_bytes = limit


def _size(db: Db, feed_id: int) -> int:
    docs = db["entries"].aggregate(
        [{"$match": {"feed_id": feed_id}}, {"$group": {"_id": 0, "n": {"$sum": {"$bsonSize": "$$ROOT"}}}}]
    )
    return sum(doc["n"] for doc in docs)


def test_a_feed_keeps_no_more_bytes_than_the_limit(world: World, db: Db, alice: Actor) -> None:
    services, feed_id = world.services, world.feed("big")
    _limit_bytes(services, 400_000)
    services.subscriptions.subscribe(alice, "https://big.example.org/feed")
    assert not world.store(feed_id, [_big(n) for n in range(9)]).too_big
    oldest = db["entries"].find_one({"feed_id": feed_id, "seq": 1})
    assert oldest is not None
    services.reading.set_starred(alice, oldest["_id"], True)
    for start in range(9, 30, 3):
        result = world.store(feed_id, [_big(n) for n in range(start, start + 3)])
        if result.too_big:
            services.gateways.retention.apply_retention(feed_id)
        assert _size(db, feed_id) <= 400_000 + 3 * 41_000 + 41_000, "one starred entry is kept besides"
    feed = db["feeds"].find_one({"_id": feed_id})
    assert feed is not None
    assert feed["last_seq"] == 30
    assert 4 <= feed["last_seq"] - feed["first_seq"] + 1 <= 10
    assert db["entries"].find_one({"_id": oldest["_id"]}), "starred entries stay"
    listed = [_big(n) for n in range(30)]
    assert world.store(feed_id, [e for e in listed if e.guid_hash == guid(29)]).new == 0


def test_entries_that_grow_later_count_as_bytes(world: World, db: Db) -> None:
    services, feed_id = world.services, world.feed("grows")
    _limit_bytes(services, 200_000)
    world.store(feed_id, [new_entry(n) for n in range(20)])
    changed = tuple(
        EntryChange(**{name: getattr(entry, name) for name in _CHANGED}) for entry in map(_big, range(20))
    )
    world.feeds.claim([feed_id], "grown", NOW, 60)
    change = FeedUpdate(feed_id, "grown", NOW, (), changed, FeedFields(checked_at=NOW))
    [result] = world.feeds.store_updates([change], NOW)
    assert result.too_big
    assert services.gateways.retention.apply_retention(feed_id) == 17, "80 % remain"
    assert _size(db, feed_id) <= 200_000


def test_one_entry_above_the_limit_of_bytes_stays_alone(world: World, db: Db) -> None:
    feed_id = world.feed("huge")
    _limit_bytes(world.services, 10_000)
    assert world.store(feed_id, [_big(n) for n in range(3)]).too_big
    assert world.services.gateways.retention.apply_retention(feed_id) == 2
    assert db["entries"].count_documents({"feed_id": feed_id}) == 1


def test_a_feed_of_an_earlier_version_is_measured_once(world: World, db: Db) -> None:
    services, feed_id = world.services, world.feed("old")
    world.store(feed_id, [_big(n) for n in range(5)])
    db["feeds"].update_one({"_id": feed_id}, {"$unset": {"stored_bytes": ""}})
    assert world.store(feed_id, [_big(9)]).too_big, "not measured yet"
    assert services.gateways.retention.apply_retention(feed_id) == 0
    feed = db["feeds"].find_one({"_id": feed_id})
    assert feed is not None
    assert feed["stored_bytes"] == _size(db, feed_id)
    assert not world.store(feed_id, [_big(10)]).too_big
