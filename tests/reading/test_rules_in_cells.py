"""Rules and marks by time of people in several cells: what a dead cell or a move may not change."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pymongo.database import Database

from app import clock
from app.bootstrap.services import Services
from app.gateways.reading import rules
from app.models.accounts.actor import Actor
from app.models.operations.cells import HOME, PlaceState
from app.models.reading.rules import Rule, RuledReader, RuleMarks
from app.services.reading import rule_runner
from tests.reading.test_rules import bring, subscribe
from tests.support.cells import SecondCell, cell_db, move, second_cell, settings, wait_until
from tests.support.reader import add_user

__all__ = ["cell_db", "second_cell", "settings"]


@pytest.fixture
def ann(services: Services, cell_db: Database[Any]) -> Actor:
    """Lives in the second cell."""
    found = add_user(services, "ann")
    move(services, found.user_id)
    return found


def test_marks_by_time_reach_the_home_store_while_a_cell_is_down(
    services: Services, second_cell: SecondCell, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = add_user(services, "bob")
    for who in (ann, bob):
        feed_id = subscribe(services, who)
        services.subscriptions.update(who, feed_id, read_after=1)
    bring(services, feed_id, "one")
    later = clock.now() + dt.timedelta(days=1, minutes=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    auto_read: Any = services.auto_read
    iter_users = auto_read._auto_read.iter_users

    def find_users(after: int) -> list[int]:
        found = list(iter_users(after))
        second_cell.kill()  # after the readers were found
        return found

    monkeypatch.setattr(auto_read._auto_read, "iter_users", find_users)
    try:
        done = auto_read.run(0, seconds=60.0)
    finally:
        second_cell.start()
    assert done == {"users": 2, "entries": 1}
    assert services.reading.get_tree(bob).unread == 0


def test_a_person_in_two_cells_is_one_reader_with_rules(
    services: Services, cell_db: Database[Any], ann: Actor
) -> None:
    services.rules.save(ann, Rule(0, "", "football", read=True))
    feed_id = subscribe(services, ann)
    bring(services, feed_id, "football")
    copy = cell_db["subscriptions"].find_one({"user_id": ann.user_id})
    assert copy is not None
    for ruled in (5, 3):  # the old copy may be older or, after an undone move, newer
        services.store.database["subscriptions"].replace_one(
            {"_id": copy["_id"]}, {**copy, "ruled": ruled}, upsert=True
        )
        cell_db["subscriptions"].update_one({"_id": copy["_id"]}, {"$set": {"ruled": 4}})
        found, is_complete = services.mappers.subscriptions.find_ruled([feed_id])
        assert is_complete
        assert found == [RuledReader(ann.user_id, feed_id, max(ruled, 4), "", (), False, False, False)]


def _find_read(services: Services, actor: Actor, feed_id: int) -> bool:
    (mine,) = services.gateways.subscriptions.find_by_user(actor.user_id, [feed_id])
    return mine.state.is_read(1)


def _bring_later(services: Services, minutes: int) -> dt.datetime:
    """Bring news of a feed without readers with rules, and return the time."""
    later = clock.now() + dt.timedelta(minutes=minutes)
    eve = services.gateways.accounts.find_by_name("eve")
    actor = Actor(eve) if eve is not None else add_user(services, "eve")
    with clock.set_source(lambda: later):
        feed_id = subscribe(services, actor, f"https://feeds.example/{minutes}")
        bring(services, feed_id, "else", url=f"https://feeds.example/{minutes}")
    return later


def test_rules_catch_up_on_what_people_of_a_dead_cell_missed(
    services: Services, second_cell: SecondCell, ann: Actor
) -> None:
    bob = add_user(services, "bob")
    for who in (ann, bob):
        services.rules.save(who, Rule(0, "", "football", read=True))
        feed_id = subscribe(services, who)
    runner = services.rule_runner
    runner.run(clock.now(), seconds=30)
    bring(services, feed_id, "football")
    second_cell.kill()
    try:
        for minutes in (10, 20):
            later = _bring_later(services, minutes)
            assert runner.run(later, seconds=30)["matches"] == (minutes == 10), "Bob's rules are tried"
        place = services.gateways.rules.get_place()
        assert place is not None
        assert place.missed_at is not None
        assert _find_read(services, bob, feed_id)
        assert runner.find_due_jobs(later + rule_runner.OVERLAP) != []
    finally:
        second_cell.start()
    wait_until(lambda: not _find_read(services, ann, feed_id))
    later += dt.timedelta(minutes=10)
    wait_until(lambda: services.mappers.subscriptions.find_ruled([feed_id])[1])
    assert runner.find_due_jobs(later) != [], "without any news"
    assert runner.run(later, seconds=30)["matches"] == 1
    assert _find_read(services, ann, feed_id)
    assert runner.find_due_jobs(later + dt.timedelta(minutes=10)) == []


def test_rules_catch_up_on_what_someone_missed_while_being_moved(
    services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_runner, "FEEDS", 1)
    services.rules.save(ann, Rule(0, "", "football", read=True))
    feed_id = subscribe(services, ann)
    runner = services.rule_runner
    runner.run(clock.now(), seconds=30)
    bring(services, feed_id, "football")
    place = services.cells.places.read_place(ann.user_id)
    assert place is not None
    moving = services.cells.places.update(place, state=PlaceState.MIGRATING, to=HOME)
    assert moving is not None
    services.cells.forget_places()
    for minutes in (10, 20):
        later = _bring_later(services, minutes)
        runner.run(later, seconds=30)
    assert not _find_read(services, ann, feed_id)
    assert services.cells.places.update(moving, state=PlaceState.NORMAL, to="") is not None
    services.cells.forget_places()
    later += dt.timedelta(minutes=10)
    assert runner.find_due_jobs(later) != []
    turns = iter([False, True])  # it ends after the first of the feeds with missed news
    assert runner.run(later, seconds=30, is_stopping=lambda: next(turns))["matches"] == 1
    assert _find_read(services, ann, feed_id)
    for is_left in (True, False):
        found = services.gateways.rules.get_place()
        assert found is not None
        assert (found.missed_at is not None) is is_left
        runner.run(later, seconds=30)


def test_a_move_that_ends_between_two_batches_loses_no_match(
    services: Services, ann: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first entry matches nothing, and that can't be recorded; the second one is tried after the move."""
    monkeypatch.setattr(rules, "BATCH", 1)
    services.rules.save(ann, Rule(0, "", "football", read=True))
    feed_id = subscribe(services, ann)
    runner = services.rule_runner
    runner.run(clock.now(), seconds=30)
    bring(services, feed_id, "football", "else")
    place = services.cells.places.read_place(ann.user_id)
    assert place is not None
    moving = services.cells.places.update(place, state=PlaceState.MIGRATING, to=HOME)
    assert moving is not None
    services.cells.forget_places()
    ends = iter([moving])

    def end_move() -> bool:
        for was in ends:
            assert services.cells.places.update(was, state=PlaceState.NORMAL, to="") is not None
            services.cells.forget_places()
        return False

    runner.run(clock.now(), seconds=30, is_stopping=end_move)
    found = services.gateways.rules.get_place()
    assert found is not None
    assert found.missed_at is not None
    end_move()
    runner.run(clock.now() + dt.timedelta(minutes=10), seconds=30)
    (mine,) = services.gateways.subscriptions.find_by_user(ann.user_id, [feed_id])
    assert (mine.state.is_read(1), mine.state.is_read(2), mine.ruled) == (False, True, 2)


def test_what_a_dead_cell_cant_record_is_missed(
    services: Services, second_cell: SecondCell, ann: Actor
) -> None:
    bob = add_user(services, "bob")
    for who in (ann, bob):
        services.rules.save(who, Rule(0, "", "football", read=True))
        feed_id = subscribe(services, who)
    marks = [RuleMarks(who.user_id, feed_id, 0, 3) for who in (ann, bob)]
    second_cell.kill()
    try:
        assert services.mappers.subscriptions.pass_ruled(marks) == {ann.user_id}
    finally:
        second_cell.start()
    (bobs,) = services.gateways.subscriptions.find_by_user(bob.user_id, [feed_id])
    assert bobs.ruled == 3


def test_saved_searches_of_people_in_other_cells_notify(services: Services, ann: Actor) -> None:
    feed_id = subscribe(services, ann)
    bring(services, feed_id)
    services.tags.save_search(ann, "Sport", "football")
    (search,) = services.tags.list_searches(ann)
    services.tags.set_search_notify(ann, search.id, True)
    bring(services, feed_id, "football", "chess")
    services.rule_runner.run(clock.now(), seconds=30)
    services.rule_runner.run(clock.now(), seconds=30)
    (row,) = services.notifications.list_notifications(ann).notes
    assert row.count == 1
