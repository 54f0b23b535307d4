"""Everything a user does with streams, against a naive reference: sets of entry ids and plain sorting."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from app import clock
from app.bootstrap.services import Services
from app.gateways.reading import stream_merge
from app.models.accounts.actor import Actor
from app.models.reading.stream import EntryRow, Sort, StreamKind, StreamQuery, StreamRef
from tests.support.database import NOW, World

ALICE = Actor(1_700_000_000_000_001)
FEEDS = 3
KEEP = 12
ALL, STARRED = StreamRef(StreamKind.ALL), StreamRef(StreamKind.STARRED)


@dataclasses.dataclass
class Known:
    """An entry as the reference knows it."""

    id: int
    feed: int
    seq: int
    at: dt.datetime


class Reference:
    """The naive model: one set of unread ids, nothing computed."""

    def __init__(self) -> None:
        self.entries: dict[int, Known] = {}
        self.dropped: set[int] = set()
        self.subscribed: dict[int, bool] = {}
        self.unread: set[int] = set()
        self.stars: list[int] = []

    def visible(self, feed: int | None = None) -> list[Known]:
        found = [e for i, e in self.entries.items() if i not in self.dropped and e.feed in self.subscribed]
        found = [e for e in found if feed is None or e.feed == feed]
        return sorted(found, key=lambda e: (e.at, e.id), reverse=True)

    def count(self, feed: int | None = None) -> int:
        return sum(e.id in self.unread for e in self.visible(feed))


class Reading(RuleBasedStateMachine):
    """Drives the real services and the reference alike; ``world`` is set by the test."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        self.services: Services = self.world.services
        database = self.services.store.database
        for name in database.list_collection_names():
            database[name].delete_many({})
        self.db = database
        self.services.gateways.retention._keep = KEEP
        self.reading = self.services.reading
        self.now = NOW
        self.ref = Reference()
        self.feeds = [self.world.feed() for _ in range(FEEDS)]
        self.urls = {f: self.services.gateways.feeds.get(f).url for f in self.feeds}
        self.undos: list[tuple[str, set[int]]] = []

    # -- what happens to feeds
    @rule(place=st.integers(0, FEEDS - 1), ages=st.lists(st.integers(0, 90), min_size=1, max_size=9))
    def publish(self, place: int, ages: list[int]) -> None:
        feed = self.feeds[place]
        self.now += dt.timedelta(hours=2)
        before = self.services.gateways.feeds.get(feed).last_seq
        self.world.publish(feed, [self.now - dt.timedelta(minutes=age) for age in ages])
        found = self.db["entries"].find({"feed_id": feed, "seq": {"$gt": before}})
        fresh = [Known(d["_id"], feed, d["seq"], d["at"]) for d in found]
        assert len(fresh) == len(ages)
        self.ref.entries.update({e.id: e for e in fresh})
        if feed in self.ref.subscribed:
            self.ref.unread.update(e.id for e in fresh)

    @rule(place=st.integers(0, FEEDS - 1))
    def retain(self, place: int) -> None:
        feed = self.feeds[place]
        last = max((e.seq for e in self.ref.entries.values() if e.feed == feed), default=0)
        self.services.gateways.retention.apply_retention(feed)
        self.ref.dropped |= {
            e.id for e in self.ref.entries.values() if e.feed == feed and e.seq <= last - KEEP
        }

    # -- what the user does
    @rule(place=st.integers(0, FEEDS - 1))
    def subscribe(self, place: int) -> None:
        feed = self.feeds[place]
        again = feed in self.ref.subscribed
        with clock.set_source(lambda: self.now):
            assert self.services.subscriptions.subscribe(ALICE, self.urls[feed]).existed is again
        if not again:
            self.ref.subscribed[feed] = True
            # All entries are younger than 30 days, and never more than 100.
            self.ref.unread |= {e.id for e in self.ref.visible(feed)}

    @precondition(lambda self: self.ref.subscribed)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        feed = data.draw(st.sampled_from(sorted(self.ref.subscribed)))
        self.services.subscriptions.unsubscribe(ALICE, feed)
        del self.ref.subscribed[feed]
        gone = {e.id for e in self.ref.entries.values() if e.feed == feed}
        self.ref.unread -= gone
        self.undos = [(token, done - gone) for token, done in self.undos]

    @precondition(lambda self: self.ref.visible())
    @rule(data=st.data(), read=st.booleans())
    def mark(self, data: st.DataObject, read: bool) -> None:
        ids = [e.id for e in self.ref.visible()]
        chosen = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=4, unique=True))
        before = self.ref.count()
        marked = self.reading.mark(ALICE, chosen, read)
        self.ref.unread = self.ref.unread - set(chosen) if read else self.ref.unread | set(chosen)
        assert marked.total == self.ref.count() - before
        # What was marked one by one is no longer the business of an undo.
        self.undos = [(token, done - set(chosen)) for token, done in self.undos]

    @precondition(lambda self: self.ref.subscribed)
    @rule(data=st.data(), late=st.booleans())
    def mark_all(self, data: st.DataObject, late: bool) -> None:
        feed = data.draw(st.sampled_from([None, *sorted(self.ref.subscribed)]))
        ref = ALL if feed is None else StreamRef(StreamKind.FEED, feed)
        snapshot, seen = None, {e.id for e in self.ref.visible(feed)}
        if late:  # something arrives between the page and the click
            snapshot = self.reading.load_page(ALICE, StreamQuery(ref)).snapshot
            self.publish(self.feeds.index(feed) if feed else 0, [1, 2])
        marked = self.reading.mark_all(ALICE, ref, snapshot=snapshot)
        done = self.ref.unread & seen
        assert marked.count == len(done)
        self.ref.unread -= seen
        self.undos.append((marked.undo, done))

    @precondition(lambda self: self.undos)
    @rule()
    def undo(self) -> None:
        token, done = self.undos.pop()
        self.reading.undo_mass_mark(ALICE, token)
        self.ref.unread |= done

    @precondition(lambda self: self.ref.visible())
    @rule(data=st.data())
    def star(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from([e.id for e in self.ref.visible()]))
        on = chosen not in self.ref.stars
        with clock.set_source(lambda: self.now):
            assert self.reading.set_starred(ALICE, chosen, on)
            assert not self.reading.set_starred(ALICE, chosen, on)
        self.now += dt.timedelta(seconds=1)
        if on:
            self.ref.stars.insert(0, chosen)
        else:
            self.ref.stars.remove(chosen)

    # -- what must agree
    @invariant()
    def counts_agree(self) -> None:
        tree = self.reading.get_tree(ALICE)
        assert {f.feed_id: f.unread for f in tree.feeds} == {
            f: self.ref.count(f) for f in self.ref.subscribed
        }
        assert tree.unread == self.ref.count()

    @rule(sort=st.sampled_from(Sort), limit=st.integers(1, 7), seed=st.integers(0, 99))
    def pages_agree(self, sort: Sort, limit: int, seed: int) -> None:
        """Page through while reading and while new entries arrive: nothing moves, doubles or is missing."""
        entries = self.ref.visible()
        unread = [e.id for e in entries if e.id in self.ref.unread]
        read = [e.id for e in entries if e.id not in self.ref.unread]
        expected, border = [e.id for e in entries], None
        if sort is Sort.UNREAD_ON_TOP:
            expected, border = unread + read, len(unread) if read else None
        elif sort is Sort.OLDEST:
            expected.reverse()
        rng = random.Random(seed)
        rows, split = self._all_pages(ALL, sort, limit, rng)
        assert [r.id for r in rows] == expected
        assert split == border

    def _all_pages(
        self, ref: StreamRef, sort: Sort, limit: int, rng: random.Random
    ) -> tuple[list[EntryRow], int | None]:
        rows: list[EntryRow] = []
        split = None
        page = self.reading.load_page(ALICE, StreamQuery(ref, sort, limit=limit))
        assert page.unread == self.ref.count()
        while True:
            if page.split is not None:
                assert split is None
                split = len(rows) + page.split
            rows += page.rows
            assert all(r.read is (r.id not in self.ref.unread) for r in page.rows)
            assert all(r.starred is (r.id in self.ref.stars) for r in page.rows)
            if page.cursor is None:
                return rows, split
            if page.rows and rng.random() < 0.5:
                chosen = rng.choice(page.rows).id
                self.reading.mark(ALICE, [chosen], True)
                self.ref.unread.discard(chosen)
                self.undos = [(token, done - {chosen}) for token, done in self.undos]
            if rng.random() < 0.2:
                self.publish(0, [5])
            query = StreamQuery(ref, sort, page.cursor, page.snapshot, limit)
            page = self.reading.load_page(ALICE, query)

    @rule()
    def stars_agree(self) -> None:
        page = self.reading.load_page(ALICE, StreamQuery(STARRED, Sort.NEWEST, limit=100))
        assert [r.id for r in page.rows] == self.ref.stars


def test_model(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random histories of one user and three feeds; also with windows and named numbers forced."""
    Reading.world = world
    options: dict[str, Any] = {
        "stateful_step_count": 25,
        "deadline": None,
        "suppress_health_check": list(HealthCheck),
    }
    for few, feeds, examples in ((2000, 20, 12), (0, 20, 12), (0, 1, 16)):
        monkeypatch.setattr(stream_merge, "FEW", few)
        monkeypatch.setattr(stream_merge, "FEEDS", feeds)
        run_state_machine_as_test(Reading, settings=settings(max_examples=examples, **options))
