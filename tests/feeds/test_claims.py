"""Claims of feeds: who gets one, who may write with it, and that no other feed is touched."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from pymongo.database import Database

from app.bootstrap.services import Services
from app.mappers.feeds.feed_states import StateWrite
from app.mappers.feeds.feeds import FeedMapper
from app.models.feeds.feed import FeedFields, NextCheck
from tests.support.database import NOW, World
from tests.support.fetches import quiet_poll

Db = Database[dict[str, Any]]
LATER, MINUTE = NOW + dt.timedelta(hours=1), dt.timedelta(minutes=1)


@pytest.fixture
def mapper(services: Services) -> FeedMapper:
    return services.mappers.feeds


def _feed(db: Db, feed_id: int) -> dict[str, Any]:
    found = db["feeds"].find_one({"_id": feed_id})
    assert found is not None
    return found


def _claim(mapper: FeedMapper, token: str, *ids: int, now: dt.datetime = NOW, **more: Any) -> list[int]:
    return sorted(feed.id for feed in mapper.claim(ids, token, now, now + MINUTE, **more))


def _write(feed_id: int, token: str, **values: Any) -> StateWrite:
    return StateWrite(feed_id, token, FeedFields(checked_at=LATER), **values)


def test_a_claim_takes_the_wanted_feeds_only(world: World, mapper: FeedMapper, db: Db) -> None:
    first, second, free, held, late = (world.feed() for _ in range(5))
    assert _claim(mapper, "dead", late, now=NOW - dt.timedelta(hours=1)) == [late]
    assert _claim(mapper, "other", held) == [held]
    others = [_feed(db, feed_id) for feed_id in (free, held, late)]
    assert _claim(mapper, "mine", first) == [first]
    assert _claim(mapper, "mine", first, second, dead_tokens=["nobody"]) == [first, second]
    assert _claim(mapper, "mine", second) == [second]
    assert [_feed(db, feed_id) for feed_id in (free, held, late)] == others
    assert {_feed(db, f)["claimed_until"] for f in (first, second)} == {NOW + MINUTE}
    assert {_feed(db, f).get("torn") for f in (first, second)} == {None}, "their writer is alive"


@pytest.mark.parametrize(
    ("seconds", "dead", "taken"),
    [(59, (), False), (60, (), True), (61, (), True), (0, ("other",), False), (0, ("holder",), True)],
)
def test_a_held_feed_is_taken_over_from_a_late_or_dead_writer_only(
    world: World, mapper: FeedMapper, db: Db, *, seconds: int, dead: tuple[str, ...], taken: bool
) -> None:
    feed_id, other = world.feed(), world.feed()
    assert _claim(mapper, "holder", feed_id) == [feed_id]
    now = NOW + dt.timedelta(seconds=seconds)
    assert _claim(mapper, "heir", feed_id, other, now=now, dead_tokens=dead) == sorted(
        [feed_id, other] if taken else [other]
    )
    found = _feed(db, feed_id)
    assert (found["claim_token"], found.get("torn")) == (("heir", True) if taken else ("holder", None))
    assert _feed(db, other).get("torn") is None, "nobody held this feed"


def test_only_the_holder_releases_its_feeds(world: World, mapper: FeedMapper, db: Db) -> None:
    mine, also_mine, other = (world.feed() for _ in range(3))
    _claim(mapper, "mine", mine, also_mine)
    _claim(mapper, "other", other)
    mapper.release("mine", [mine, other])
    assert [_feed(db, f).get("claim_token") for f in (mine, also_mine, other)] == [None, "mine", "other"]
    assert "claimed_until" not in _feed(db, mine)


def test_positions_are_told_to_the_holder_only(world: World, mapper: FeedMapper) -> None:
    mine, also_mine, other, free = (world.feed() for _ in range(4))
    _claim(mapper, "mine", mine, also_mine)
    _claim(mapper, "other", other)
    assert list(mapper.find_positions([(mine, "mine"), (other, "mine"), (free, "mine")])) == [mine]


def test_only_the_holder_locks_a_feed(world: World, services: Services, mapper: FeedMapper, db: Db) -> None:
    feed_id, other = world.feed(), world.feed()
    _claim(mapper, "mine", feed_id)
    _claim(mapper, "other", other)

    def lock(session: Any) -> list[bool]:
        tries = [(other, "mine"), (feed_id, "other"), (feed_id, "mine")]
        return [mapper.lock(each, token, session) is not None for each, token in tries]

    assert services.store.run_in_transaction(lock) == [False, False, True]
    writes = _feed(db, feed_id)["writes"]
    assert writes, "a concurrent transaction must conflict with this one"

    def fail(session: Any) -> None:
        lock(session)
        raise LookupError

    with pytest.raises(LookupError):
        services.store.run_in_transaction(fail)
    assert _feed(db, feed_id)["writes"] == writes, "the lock is part of the transaction"


def test_states_are_written_by_holders_that_know_the_last_number_and_release_the_claim(
    world: World, mapper: FeedMapper, db: Db
) -> None:
    ids = [world.feed() for _ in range(4)]
    good, stale, lost, free = ids
    _claim(mapper, "mine", good, stale)
    _claim(mapper, "other", lost)
    writes = [
        _write(good, "mine", base=0, last_seq=3, newest=LATER, index_at=LATER),
        _write(stale, "mine", base=7, last_seq=8),
        _write(lost, "mine", base=0, last_seq=3),
        _write(free, "mine"),
    ]
    before = [_feed(db, feed_id) for feed_id in ids[1:]]
    assert mapper.write_states(writes) == {good}
    assert [_feed(db, feed_id) for feed_id in ids[1:]] == before
    found = _feed(db, good)
    assert (found["last_seq"], found["last_entry_at"], found["index_at"]) == (3, LATER, LATER)
    assert not {"claim_token", "claimed_until"} & set(found)
    assert found["checked_at"] == LATER
    assert mapper.write_states([]) == set()
    _claim(mapper, "next", good)
    assert mapper.write_states([_write(good, "next")]) == {good}
    found = _feed(db, good)
    assert (found["last_seq"], found["last_entry_at"]) == (3, LATER)
    assert found["index_at"] == LATER, "a pull without entries leaves the search index's work alone"


def test_a_partly_refused_batch_reports_only_the_feeds_that_it_has_written(
    world: World, mapper: FeedMapper
) -> None:
    """A feed keeps the token of its last writer, which tells what was written."""
    first, second = world.feed(), world.feed()
    _claim(mapper, "one", first)
    _claim(mapper, "two", second)
    assert mapper.write_states([_write(first, "one"), _write(second, "two")]) == {first, second}
    _claim(mapper, "three", first)
    writes = [_write(first, "three"), _write(second, "one")]
    assert mapper.write_states(writes) == {first}
    writes = [_write(first, "two"), dataclasses.replace(writes[1], token="three")]
    assert mapper.write_states(writes) == set()


def test_states_and_numbering_are_part_of_their_transaction(
    world: World, services: Services, mapper: FeedMapper, db: Db
) -> None:
    first, second = world.feed(), world.feed()
    _claim(mapper, "mine", first, second)
    before = [_feed(db, first), _feed(db, second)]

    def fail(session: Any) -> None:
        mapper.write_numbering(_write(second, "mine", base=0, last_seq=2), session)
        writes = [_write(first, "mine", base=0, last_seq=1), _write(second, "mine", base=1, last_seq=3)]
        assert mapper.write_states(writes, session) == {first, second}, "the token shows both writes"
        assert mapper.write_states([_write(first, "lost")], session) == set()
        raise LookupError

    with pytest.raises(LookupError):
        services.store.run_in_transaction(fail)
    assert [_feed(db, first), _feed(db, second)] == before


def test_numbering_alone_is_written_by_the_holder_who_keeps_the_claim(
    world: World, services: Services, mapper: FeedMapper, db: Db
) -> None:
    first, mine, other = world.feed(), world.feed(), world.feed()
    _claim(mapper, "mine", first, mine)
    _claim(mapper, "other", other)
    before = [_feed(db, first), _feed(db, other)]

    def write(session: Any) -> None:
        for feed_id in (mine, other):
            mapper.write_numbering(_write(feed_id, "mine", base=0, last_seq=2, newest=NOW), session)

    services.store.run_in_transaction(write)
    found = _feed(db, mine)
    assert (found["last_seq"], found["claim_token"], found.get("checked_at")) == (2, "mine", None)
    assert [_feed(db, first), _feed(db, other)] == before


def test_only_the_holder_clears_the_mark_of_a_torn_feed(world: World, mapper: FeedMapper, db: Db) -> None:
    mine, other, free = (world.feed() for _ in range(3))
    mapper.mark_torn([mine, other])
    assert [_feed(db, f).get("torn") for f in (mine, other, free)] == [True, True, None]
    _claim(mapper, "mine", mine)
    _claim(mapper, "other", other)
    mapper.clear_torn(mine, "other")
    mapper.clear_torn(other, "mine")
    assert [_feed(db, f)["torn"] for f in (mine, other)] == [True, True]
    mapper.clear_torn(mine, "mine")
    assert [_feed(db, f).get("torn") for f in (mine, other)] == [None, True]


Reschedule = Callable[[FeedMapper, list[int]], None]


def _due(db: Db, feed_id: int, at: dt.datetime | None) -> None:
    db["feeds"].update_one({"_id": feed_id}, {"$set": {"next_check_at": at}})


@pytest.mark.parametrize("force", [False, True])
def test_a_feed_is_made_due_unless_it_is_claimed_merged_or_shared(
    world: World, mapper: FeedMapper, db: Db, force: bool
) -> None:
    later, earlier, unpolled, claimed, merged, shared, bystander = ids = [world.feed() for _ in range(7)]
    for feed_id in ids:
        _due(db, feed_id, {earlier: NOW - MINUTE, unpolled: None}.get(feed_id, LATER))
    _claim(mapper, "mine", claimed)
    db["feeds"].update_one({"_id": merged}, {"$set": {"merged_into": later}})
    db["feeds"].update_one({"_id": shared}, {"$set": {"kind": "shared"}})
    (mapper.force_due if force else mapper.make_due)(ids[:-1], NOW)
    found = {feed_id: _feed(db, feed_id)["next_check_at"] for feed_id in ids}
    assert found[later] == NOW
    assert found[earlier] == NOW - MINUTE
    assert found[unpolled] == (NOW if force else None)
    assert (found[claimed], found[bystander]) == (LATER, LATER)
    if force:
        assert (found[merged], found[shared]) == (LATER, LATER), "these are never fetched"


def test_feeds_without_news_rest_unless_they_are_claimed_or_torn(
    world: World, mapper: FeedMapper, db: Db
) -> None:
    same = [world.feed() for _ in range(3)]
    own, claimed, torn, bystander = (world.feed() for _ in range(4))
    _claim(mapper, "mine", claimed)
    mapper.mark_torn([torn])
    for feed_id in (own, claimed, torn, bystander):
        _due(db, feed_id, NOW)
    polls = [quiet_poll(feed_id, LATER) for feed_id in (*same, claimed, torn)]
    mapper.record_unchanged([*polls, quiet_poll(own, LATER + MINUTE)], NOW)
    rests = [(_feed(db, f)["next_check_at"], _feed(db, f)["checked_at"]) for f in same]
    assert rests == [(LATER, NOW)] * 3
    assert _feed(db, own)["next_check_at"] == LATER + MINUTE
    for feed_id in (claimed, torn, bystander):
        assert (_feed(db, feed_id)["next_check_at"], _feed(db, feed_id).get("checked_at")) == (NOW, None)


def test_postponed_feeds_keep_an_earlier_time_that_is_not_due_and_stay_unpolled(
    world: World, mapper: FeedMapper, db: Db
) -> None:
    due, soon, far, unpolled, claimed, bystander = ids = [world.feed() for _ in range(6)]
    times = {due: NOW, soon: NOW + MINUTE, far: LATER + MINUTE, unpolled: None, claimed: NOW, bystander: NOW}
    for feed_id, at in times.items():
        _due(db, feed_id, at)
    _claim(mapper, "mine", claimed)
    mapper.postpone_checks([NextCheck(feed_id, LATER) for feed_id in ids[:-1]], NOW)
    found = {feed_id: _feed(db, feed_id)["next_check_at"] for feed_id in ids}
    assert found == {**times, due: LATER, far: LATER}
