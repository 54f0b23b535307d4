"""Read states in the store: each write changes the subscriptions it names, and nothing else."""

from __future__ import annotations

import datetime as dt
from typing import Any

import bson
import pytest
from bson.int64 import Int64

from app.bootstrap.services import Services
from app.clock import UTC
from app.mappers.reading import read_state_packing
from app.mappers.subscriptions import raw_read_states
from app.mappers.subscriptions.subscriptions import (
    BITS,
    PLACES,
    StateReplacement,
    SubscriptionMapper,
    _chunks,
)
from app.models.accounts.actor import Actor
from app.models.reading.stream import SourceFeed
from app.models.subscriptions.read_state import RemovedEntries
from app.models.subscriptions.subscription import ReadState, StartRule, Subscription

OLD = ReadState(5, 1 << 6, 64, (2, 3))


class Stored:
    """Two users who follow the same three feeds, with the same read states."""

    def __init__(self, services: Services, users: tuple[Actor, Actor]) -> None:
        self.mapper: SubscriptionMapper = services.mappers.subscriptions
        self.mine, self.other = (who.user_id for who in users)
        for user_id in (self.mine, self.other):
            for feed_id in (1, 2, 3):
                new = Subscription(0, user_id, feed_id, state=OLD)
                services.store.run_in_transaction(
                    lambda session, new=new: self.mapper.add(new, pending=new.feed_id < 3, session=session)
                )

    def get(self, feed_id: int, user_id: int | None = None) -> Subscription:
        found = self.mapper.find(user_id or self.mine, feed_id)
        assert found is not None
        return found

    def untouched(self) -> set[tuple[int, int]]:
        """Return (user, feed) of those that are as they were stored."""
        both = [(user, feed) for user in (self.mine, self.other) for feed in (1, 2, 3)]
        pairs = [(pair, self.get(pair[1], pair[0])) for pair in both]
        return {pair for pair, one in pairs if (one.state, one.rev, one.mass) == (OLD, 0, None)}


@pytest.fixture
def stored(services: Services, alice: Actor, bob: Actor) -> Stored:
    found = Stored(services, (alice, bob))
    everything = found.untouched()
    assert len(everything) == 6
    return found


@pytest.mark.parametrize("read", [True, False])
def test_single_marks_change_one_subscription_and_raise_its_revision(stored: Stored, read: bool) -> None:
    rest, marked = stored.untouched() - {(stored.other, 2)}, [2, 4, 63, 70, 71, 200]
    assert stored.mapper.mark(stored.other, 2, marked, read=read) == (OLD, 0), "the state before"
    found = stored.get(2, stored.other)
    assert [found.state.is_read(seq) for seq in marked] == [read] * len(marked)
    assert [found.state.is_read(seq) for seq in (1, 3, 6, 69)] == [True, False, False, False]
    assert found.rev == 1
    assert stored.untouched() == rest
    assert stored.mapper.mark(stored.mine, 4, [1], read=read) is None, "not subscribed"


def test_a_first_pull_sets_the_start_of_waiting_subscriptions_once(stored: Stored) -> None:
    stored.mapper.set_start({1: 4, 2: 40, 3: 400})
    # What was read stays read.
    assert [(stored.get(f).state.upto, stored.get(f).rev) for f in (1, 2, 3)] == [(5, 1), (40, 1), (5, 0)]
    assert stored.get(2, stored.other).state.upto == 40
    stored.mapper.set_start({1: 50, 2: 50})
    assert [(stored.get(f).state.upto, stored.get(f).rev) for f in (1, 2)] == [(5, 1), (40, 1)]
    stored.mapper.set_start({})


@pytest.mark.parametrize(
    "states",
    [
        (ReadState(9), ReadState(8)),
        (ReadState(9), ReadState(7, 3, 64)),
        (ReadState(9), ReadState(7, 0, 0, (4,))),
    ],
)
def test_a_state_is_replaced_only_while_nobody_has_marked_anything_since(
    stored: Stored, states: tuple[ReadState, ReadState]
) -> None:
    was = [stored.get(feed_id) for feed_id in (1, 2)]
    replacements = [StateReplacement(one, state, "m") for one, state in zip(was, states, strict=True)]
    rest = stored.untouched() - {(stored.mine, 1), (stored.mine, 2)}
    stored.mapper.mark(stored.mine, 1, [9], read=True)
    marked = stored.get(1)
    assert stored.mapper.replace_states(stored.mine, replacements) == 1
    assert stored.get(1) == marked
    assert stored.get(2) == was[1]._replace(state=states[1], rev=1, mass="m")
    assert stored.mapper.replace_states(stored.mine, replacements) == 0
    assert stored.untouched() == rest
    again = [StateReplacement(marked, ReadState(60), None), StateReplacement(stored.get(2), OLD, "n")]
    assert stored.mapper.replace_states(stored.mine, again) == 2
    assert stored.get(1) == marked._replace(state=ReadState(60), rev=2, mass=None)
    assert stored.get(2) == was[1]._replace(state=OLD, rev=2, mass="n")


def test_each_replaced_state_gets_the_mass_action_of_its_own(stored: Stored) -> None:
    masses = {1: "m", 2: "n", 3: None}
    replacements = [StateReplacement(stored.get(f), ReadState(9), mass) for f, mass in masses.items()]
    assert stored.mapper.replace_states(stored.mine, replacements) == 3
    assert {f: stored.get(f).mass for f in masses} == masses


def test_a_statement_holds_a_limited_number_of_states_and_of_bits() -> None:
    def sizes(*bits: int) -> list[int]:
        one = Subscription(1, 1, 1)
        replaces = [StateReplacement(one, ReadState(0, 1 << b - 1 if b else 0), None) for b in bits]
        chunks = list(_chunks(replaces))
        assert [r for chunk in chunks for r in chunk] == replaces
        return [len(chunk) for chunk in chunks]

    assert sizes() == []
    assert sizes(*[0] * PLACES) == [PLACES]
    assert sizes(*[0] * (2 * PLACES + 1)) == [PLACES, PLACES, 1]
    assert sizes(BITS // 2, BITS // 2, 1) == [2, 1]
    assert sizes(BITS + 1, 1, BITS, 1) == [1, 1, 1, 1]
    assert sizes(1, BITS - 2, 1, 1) == [3, 1]


def test_many_states_are_replaced_by_several_statements(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.mappers.subscriptions.subscriptions.PLACES", 2)
    replacements = [StateReplacement(stored.get(f), ReadState(10 * f), "m") for f in (1, 2, 3)]
    assert stored.mapper.replace_states(stored.mine, replacements) == 3
    assert [stored.get(f).state for f in (1, 2, 3)] == [ReadState(10), ReadState(20), ReadState(30)]
    assert {user for user, _ in stored.untouched()} == {stored.other}
    assert stored.mapper.replace_states(stored.mine, []) == 0


def test_a_raw_subscription_is_read_with_all_its_fields() -> None:
    doc: dict[str, Any] = {name: Int64(7) for name in ("_id", "user_id", "feed_id", "rev", "upto")}
    doc |= {"words": {}, "unread": [], "title": "T", "folder_ids": [3], "orders": {"3": "a"}}
    plain = Subscription(7, 7, 7, "T", (3,), {3: "a"}, ReadState(7), 7)
    assert raw_read_states.decode_subscription(bson.encode(doc)) == plain
    for flag in ("paused", "person", "muted"):
        found = raw_read_states.decode_subscription(bson.encode({**doc, flag: True}))
        assert found == plain._replace(**{flag: True})
    numbers = {"hidden": {"0": Int64(2)}, "highlighted": {"0": Int64(12)}}
    lit = {**numbers, "highlighted_by": {"1": {"0": Int64(4)}, "9": {"1": Int64(0), "0": Int64(8)}, "3": {}}}
    found = raw_read_states.decode_subscription(bson.encode({**doc, **lit}))
    by = {1: RemovedEntries(4, 0), 9: RemovedEntries(8, 0)}
    two = {"hidden": RemovedEntries(2, 0), "highlighted": RemovedEntries(12, 0), "highlighted_by": by}
    assert found == plain._replace(**two)
    assert [found.find_highlighter(seq) for seq in range(1, 5)] == [0, 1, 9, 0]
    assert found.move_to(8, plain.state) == plain._replace(feed_id=8)
    # Whatever the order of the fields, and without those that an older version did not write.
    assert raw_read_states.decode_subscription(bson.encode(dict(reversed(doc.items())))) == plain
    old = {name: doc[name] for name in ("_id", "user_id", "feed_id", "upto")}
    assert raw_read_states.decode_subscription(bson.encode(old)) == Subscription(
        7, 7, 7, state=ReadState(7), orders={}
    )
    raw = [bson.encode({"feed_id": Int64(8)}), bson.encode({"_id": 1, "feed_id": 9})]
    assert list(raw_read_states.decode_feed_ids(raw)) == [8, 9]


def test_last_numbers_are_read_from_packed_rows_alone() -> None:
    sources = [
        SourceFeed.create(feed, 1, 10 * feed, newest=5, state=OLD, missing=feed % 2) for feed in (1, 2, 3)
    ]
    packed = read_state_packing.pack(sources)
    assert read_state_packing.unpack_last_seqs(packed["rows"]) == {1: 10, 2: 20, 3: 30}
    assert list(read_state_packing.unpack(packed)) == sources
    without = [source._replace(missing=0) for source in sources]
    assert "missing" not in read_state_packing.pack(without)
    assert list(read_state_packing.unpack(read_state_packing.pack(without))) == without


def test_an_entry_as_old_as_the_limit_is_still_young() -> None:
    now, age = dt.datetime(2026, 1, 31, tzinfo=UTC), dt.timedelta(days=30)
    rule = StartRule(age, 1, 100)
    within, older = [now - age] * 20, [now - age - dt.timedelta(seconds=1)] * 20
    assert rule.calculate_upto(older + within, 40, now) == 20
