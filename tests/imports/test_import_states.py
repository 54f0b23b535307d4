"""The state machine of imports: which step each state allows, who may write, whose turn it is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pymongo.errors import BulkWriteError

from app import clock
from app.bootstrap.services import Services
from app.errors import NO_ROOM, ConflictError, InvalidError, NotFoundError, TooLargeError
from app.feeds.opml import opml
from app.gateways.feeds.digest import CUT
from app.gateways.imports.imports import PREVIEW_KEPT, SILENT, TRIES, ImportGateway
from app.gateways.imports.rules import retry_item, settle_item, sort_by_turn, tick_item
from app.mappers.mongo.cells import PeopleTable
from app.models.accounts.actor import Actor
from app.models.imports.imports import (
    ActiveImport,
    Import,
    ImportFolder,
    ImportItem,
    ImportState,
    ItemChange,
    ItemState,
    PollResult,
)
from app.models.imports.opml import Outline
from tests.support.database import NOW

HOST = "https://feeds.example"
READING, UNREADABLE, PREVIEW, QUEUED, RUNNING, DONE, CANCELLED = ImportState
WAITING, ADDED, FAILED = ItemChange(ItemState.WAITING), ItemChange(ItemState.ADDED), ItemState.FAILED


def _seconds(seconds: float) -> dt.timedelta:
    return dt.timedelta(seconds=seconds)


class Machine:
    """One user's import of three feeds, the last of which has failed, in any state."""

    def __init__(self, services: Services, user_id: int) -> None:
        self.services, self.user_id = services, user_id
        self.gateway: ImportGateway = services.gateways.imports
        self.mapper: Any = services.mappers.imports
        self.db: Any = services.store.database

    def add(self, user_id: int | None = None) -> Import:
        body = opml.write("Mine", [Outline(f"{HOST}/{name}", name, None, ()) for name in "abc"])
        return self.gateway.add(user_id or self.user_id, self.gateway.read_file(body), "x", NOW)

    def put(self, state: ImportState, **values: Any) -> Import:
        """Return a new import in this state; a run that it has is called "run"."""
        new = self.add()
        self.mapper.update_items(self.user_id, new.id, {2: ItemChange(FAILED, "rate_limited")})
        values = {"counts": {"waiting": 2, "failed": 1}, "run": "run", **values}
        if state in (QUEUED, RUNNING):
            values.setdefault("queued", NOW)
        self.db.imports.update_one({"_id": new.id}, {"$set": {"state": state.value, **values}})
        return self.get(new.id)

    def get(self, import_id: int) -> Import:
        return self.gateway.get(self.user_id, import_id)

    def items(self, one: Import) -> list[ItemState]:
        return [item.state for item in self.gateway.find_items(self.user_id, one.id)]

    def save(self, one: Import, run: str, *, moved: bool = True) -> Import | None:
        changes = {0: ADDED}
        counts = {"added": 1, "waiting": 1, "failed": 1}
        return self.gateway.save_progress(one, run, counts, changes, NOW, has_progressed=moved)

    def expiries(self, one: Import) -> set[Any]:
        found = [self.db.imports.find_one({"_id": one.id}), *self.db.import_parts.find({"import_id": one.id})]
        return {doc["expires"] and doc["expires"].timestamp() for doc in found}


@pytest.fixture
def machine(services: Services, alice: Actor) -> Machine:
    return Machine(services, alice.user_id)


Act = Callable[[ImportGateway, int, int], object]
ACTS: Mapping[str, tuple[Act, set[ImportState], ImportState | None]] = {
    "choose": (lambda g, user, one: g.choose_items(user, one, 0, 3, [0]), {PREVIEW}, PREVIEW),
    "start": (
        lambda g, user, one: g.start(user, one, keep_folders=True, into="", now=NOW),
        {PREVIEW},
        QUEUED,
    ),
    "retry": (lambda g, user, one: g.retry(user, one, None, NOW), {DONE, CANCELLED}, QUEUED),
    "resume": (lambda g, user, one: g.resume(user, one, NOW), {CANCELLED}, QUEUED),
    "cancel": (lambda g, user, one: g.cancel(user, one, NOW), {QUEUED, RUNNING}, CANCELLED),
    "remove": (
        lambda g, user, one: g.remove(user, one),
        {READING, UNREADABLE, PREVIEW, DONE, CANCELLED},
        None,
    ),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("state", ImportState)
def test_each_state_allows_only_its_own_steps(machine: Machine, state: ImportState, act: str) -> None:
    do, allowed, after = ACTS[act]
    one = machine.put(state)
    with pytest.raises(NotFoundError):
        do(machine.gateway, machine.user_id + 1, one.id)
    with pytest.raises(NotFoundError):
        do(machine.gateway, machine.user_id, one.id + 1)
    assert machine.get(one.id) == one
    if state not in allowed:
        with pytest.raises(ConflictError):
            do(machine.gateway, machine.user_id, one.id)
        assert machine.get(one.id) == one
    else:
        do(machine.gateway, machine.user_id, one.id)
        if after is None:
            assert machine.db.imports.count_documents({}) == machine.db.import_parts.count_documents({}) == 0
        else:
            assert machine.get(one.id).state is after


@pytest.mark.parametrize(
    ("state", "act", "sentence"),
    [
        (QUEUED, "choose", "already been started"),
        (QUEUED, "start", "already been started"),
        (RUNNING, "retry", "isn't finished"),
        (DONE, "resume", "Reload the page"),
        (DONE, "cancel", "Reload the page"),
        (RUNNING, "remove", "Cancel this import first"),
    ],
)
def test_a_refused_step_says_why(machine: Machine, state: ImportState, act: str, sentence: str) -> None:
    with pytest.raises(ConflictError, match=sentence):
        ACTS[act][0](machine.gateway, machine.user_id, machine.put(state).id)


@pytest.mark.parametrize("act", ACTS)
def test_a_step_of_one_import_leaves_all_others_alone(machine: Machine, act: str) -> None:
    do, allowed, _ = ACTS[act]
    state = min(allowed)
    others = [machine.put(state).id, machine.put(DONE).id, machine.add(machine.user_id + 1).id]
    for import_id in others:
        assert machine.mapper.claim_slot(import_id, 5)

    def stored() -> list[Any]:
        query = {"$or": [{"_id": {"$in": others}}, {"import_id": {"$in": others}}]}
        names = ("imports", "import_parts", "import_slots")
        return [doc for name in names for doc in machine.db[name].find(query).sort("_id")]

    before = stored()
    assert len(before) == 9
    one = machine.put(state)
    do(machine.gateway, machine.user_id, one.id)
    assert machine.mapper.remove(machine.user_id + 1, others[1]) is False
    assert stored() == before


@pytest.mark.parametrize("state", ImportState)
def test_only_an_active_import_begins_a_run(machine: Machine, state: ImportState) -> None:
    one = machine.put(state)
    begun = machine.gateway.begin_run(machine.user_id, one.id, "new", NOW)
    if state in (QUEUED, RUNNING):
        assert begun is not None
        assert (begun.state, begun.run, begun.tries) == (RUNNING, "new", 1)
        assert (begun.started, begun.touched) == (NOW, NOW)
        assert one.is_active
    else:
        assert (begun, machine.get(one.id)) == (None, one)
        assert machine.mapper.find_slots() == {}
        assert not one.is_active


# -- who may write


def test_a_run_that_was_taken_over_writes_nothing_any_more(machine: Machine) -> None:
    gateway, one = machine.gateway, machine.put(QUEUED)
    assert gateway.begin_run(machine.user_id, one.id, "old", NOW)
    begun = gateway.begin_run(machine.user_id, one.id, "new", NOW + _seconds(60))
    assert begun is not None
    assert (begun.started, begun.touched) == (NOW, NOW + _seconds(60)), "the first run began the work"
    before, items = machine.get(one.id), machine.items(one)
    assert machine.save(one, "old") is None
    assert gateway.save_late_progress(one, "old", {0: ADDED}, NOW) is None
    assert gateway.end_run(one, "old", NOW) is None
    assert (machine.get(one.id), machine.items(one)) == (before, items)
    assert machine.mapper.find_slots() == {0: one.id}
    assert machine.save(one, "new") is not None
    ended = gateway.end_run(one, "new", NOW)
    assert ended is not None
    assert (ended.state, ended.ended, machine.mapper.find_slots()) == (DONE, NOW, {})


@pytest.mark.parametrize("state", [PREVIEW, QUEUED, DONE, CANCELLED])
def test_progress_and_end_are_written_only_while_the_import_runs(
    machine: Machine, state: ImportState
) -> None:
    one = machine.put(state)
    items = machine.items(one)
    assert machine.save(one, "run") is None
    assert machine.gateway.end_run(one, "run", NOW) is None
    assert (machine.get(one.id), machine.items(one)) == (one, items)


@pytest.mark.parametrize("state", ImportState)
def test_the_last_step_is_written_after_a_cancel_and_after_a_resume_only(
    machine: Machine, state: ImportState
) -> None:
    one = machine.put(state)
    found = machine.gateway.save_late_progress(one, "run", {0: ADDED}, NOW)
    if state in (QUEUED, CANCELLED):
        assert found is not None
        assert found.touched == NOW
        assert found.counts == {"added": 1, "waiting": 1, "failed": 1}
        assert machine.items(one)[0] is ItemState.ADDED
    else:
        assert (found, machine.get(one.id)) == (None, one)
        assert machine.items(one)[0] is ItemState.WAITING


def test_a_cancelled_last_step_leaves_nothing_under_way_and_a_resumed_one_awaits_its_feeds(
    machine: Machine,
) -> None:
    feed = machine.services.gateways.feeds.get_or_create(f"{HOST}/a", now=NOW).id
    fetching = {0: ItemChange(ItemState.FETCHING, None, feed)}
    for state, expected in ((CANCELLED, "added"), (QUEUED, "fetching")):
        found = machine.gateway.save_late_progress(machine.put(state), "run", fetching, NOW)
        assert found is not None
        assert found.counts == {expected: 1, "waiting": 1, "failed": 1}


@pytest.mark.parametrize(("moved", "tries"), [(True, 0), (False, 7)])
def test_only_progress_clears_the_count_of_fruitless_tries(machine: Machine, moved: bool, tries: int) -> None:
    one = machine.put(RUNNING, tries=7)
    found = machine.save(one, "run", moved=moved)
    assert found is not None
    assert (found.tries, found.touched) == (tries, NOW)
    assert found.counts == {"added": 1, "waiting": 1, "failed": 1}
    assert machine.items(one) == [ItemState.ADDED, ItemState.WAITING, FAILED]


def test_an_import_is_given_up_after_its_last_try_and_frees_its_place(machine: Machine) -> None:
    one = machine.put(QUEUED, tries=TRIES - 1)
    assert machine.gateway.begin_run(machine.user_id, one.id, "last", NOW)
    assert machine.gateway.begin_run(machine.user_id, one.id, "more", NOW) is None
    given_up = machine.get(one.id)
    assert (given_up.state, given_up.ended, machine.mapper.find_slots()) == (DONE, NOW, {})


# -- queueing, cancelling, ending


@pytest.mark.parametrize(("state", "act"), [(PREVIEW, "start"), (DONE, "retry"), (CANCELLED, "resume")])
def test_a_queued_import_starts_afresh_and_does_not_expire(
    machine: Machine, state: ImportState, act: str
) -> None:
    one = machine.put(state, started=NOW, touched=NOW, ended=NOW, tries=9, goal=99, failed_before=99)
    ACTS[act][0](machine.gateway, machine.user_id, one.id)
    found = machine.get(one.id)
    assert (found.started, found.touched, found.ended, found.tries) == (None, None, None, 0)
    goal, failed = (3, 0) if act == "retry" else (2, 1)
    assert (found.goal, found.failed_before, found.done, found.failed) == (goal, failed, 0, 0)
    assert machine.expiries(one) == {None}
    assert [active.id for active in machine.mapper.find_active(9)] == [one.id]
    assert machine.db.imports.find_one({"_id": one.id})["queued"] == NOW


def test_an_end_and_a_cancel_free_the_place_and_let_the_import_expire(machine: Machine) -> None:
    preview = machine.add()
    feed = machine.services.gateways.feeds.get_or_create(f"{HOST}/a", now=NOW).id
    assert machine.expiries(preview) == {(NOW + PREVIEW_KEPT).timestamp()}
    kept = dt.timedelta(days=machine.services.settings.import_keep_days)
    for end in (
        lambda one: machine.gateway.cancel(machine.user_id, one.id, NOW),
        lambda one: machine.gateway.end_run(one, "run", NOW),
    ):
        one = machine.put(RUNNING)
        assert machine.mapper.claim_slot(one.id, 5)
        machine.mapper.update_items(machine.user_id, one.id, {0: ItemChange(ItemState.FETCHING, None, feed)})
        ended = end(one)
        assert isinstance(ended, Import)
        assert (ended.ended, ended.counts) == (NOW, {"added": 1, "waiting": 1, "failed": 1})
        assert machine.items(one)[0] is ItemState.ADDED, "nothing stays under way"
        assert machine.mapper.find_slots() == {}
        assert machine.expiries(one) == {(NOW + kept).timestamp()}


def test_an_import_of_nothing_is_not_started_and_nothing_is_not_retried(machine: Machine) -> None:
    one = machine.put(PREVIEW)
    machine.gateway.choose_items(machine.user_id, one.id, 0, 3, [])
    with pytest.raises(InvalidError):
        ACTS["start"][0](machine.gateway, machine.user_id, one.id)
    assert machine.get(one.id).state is PREVIEW
    one = machine.put(DONE)
    with pytest.raises(NotFoundError):
        machine.gateway.retry(machine.user_id, one.id, 0, NOW)
    assert machine.gateway.retry(machine.user_id, one.id, 2, NOW).counts == {"waiting": 3}
    assert machine.items(one) == [ItemState.WAITING] * 3


def test_a_choice_counts_only_the_outlines_of_its_page(machine: Machine) -> None:
    one = machine.put(PREVIEW)
    found = machine.gateway.choose_items(machine.user_id, one.id, 1, 2, [])
    assert found.counts == {"waiting": 1, "skipped": 1, "failed": 1}
    assert machine.items(one) == [ItemState.WAITING, ItemState.SKIPPED, FAILED]
    found = machine.gateway.choose_items(machine.user_id, one.id, 0, 2, [1, 2])
    assert found.counts == {"waiting": 1, "skipped": 1, "failed": 1}
    assert machine.items(one) == [ItemState.SKIPPED, ItemState.WAITING, FAILED]


def test_a_cancel_counts_only_what_this_run_has_subscribed_to(machine: Machine, alice: Actor) -> None:
    """Outlines a and b wait, and c isn't chosen; a was subscribed before the run, b and c during it."""
    subscribe, one = machine.services.subscriptions.subscribe, machine.add()
    subscribe(alice, f"{HOST}/a")
    machine.gateway.choose_items(machine.user_id, one.id, 0, 3, [0, 1])
    ACTS["start"][0](machine.gateway, machine.user_id, one.id)
    assert machine.gateway.begin_run(machine.user_id, one.id, "run", clock.now())
    for name in "bc":
        subscribe(alice, f"{HOST}/{name}")
    found = machine.gateway.cancel(machine.user_id, one.id, NOW)
    assert machine.items(one) == [ItemState.WAITING, ItemState.ADDED, ItemState.SKIPPED]
    assert found.counts == {"waiting": 1, "added": 1, "skipped": 1}


def test_an_import_brought_the_feeds_it_subscribed_to_fetched_or_not(machine: Machine, alice: Actor) -> None:
    states = (*ItemState, ItemState.ADDED)
    body = opml.write("Mine", [Outline(f"{HOST}/{n}", str(n), None, ()) for n in range(len(states) + 1)])
    one = machine.gateway.add(machine.user_id, machine.gateway.read_file(body), "x", NOW)
    feeds = [
        machine.services.subscriptions.subscribe(alice, f"{HOST}/{n}").subscription.feed_id
        for n in range(len(states))
    ]
    changes = {n: ItemChange(state, None, feeds[n]) for n, state in enumerate(states)}
    machine.mapper.update_items(machine.user_id, one.id, {**changes, len(states): ItemChange(FAILED, "gone")})
    machine.services.subscriptions.unsubscribe(alice, feeds[-1])
    found = machine.gateway.find_imported_feeds(one)
    brought = (ItemState.RETRY, ItemState.FETCHING, ItemState.ADDED, FAILED)
    assert found.feeds == tuple(f for f, state in zip(feeds[:-1], states, strict=False) if state in brought)
    assert found.left == {feeds[-1]}


# -- whose turn it is


@pytest.mark.parametrize(
    ("silence", "due"), [(None, True), (SILENT - 1, False), (SILENT, False), (SILENT + 1, True)]
)
def test_a_running_import_is_queued_again_only_after_silence(
    machine: Machine, silence: float | None, due: bool
) -> None:
    touched = None if silence is None else NOW - _seconds(silence)
    one = machine.put(RUNNING, touched=touched)
    assert machine.mapper.claim_slot(one.id, 5)
    assert [found.id for found in machine.gateway.find_due(NOW)] == ([one.id] if due else [])


def test_the_place_of_an_import_that_ended_is_freed_for_the_next(machine: Machine) -> None:
    places = machine.services.settings.imports_at_once
    ended = machine.put(DONE)
    assert machine.mapper.claim_slot(ended.id, places)
    running = [machine.put(RUNNING, touched=NOW) for _ in range(places - 1)]
    assert all(machine.mapper.claim_slot(one.id, places) for one in running)
    first, second = machine.put(QUEUED, queued=NOW), machine.put(QUEUED, queued=NOW + _seconds(1))
    assert not machine.mapper.claim_slot(first.id, places)
    assert machine.gateway.begin_run(machine.user_id, first.id, "run", NOW) is None
    assert [found.id for found in machine.gateway.find_due(NOW)] == [first.id]
    assert ended.id not in machine.mapper.find_slots().values()
    assert machine.gateway.begin_run(machine.user_id, first.id, "run", NOW)
    assert machine.gateway.find_due(NOW) == []
    assert machine.gateway.begin_run(machine.user_id, second.id, "run", NOW) is None


def test_an_import_has_one_place_however_often_it_asks(machine: Machine) -> None:
    one, other = machine.put(RUNNING), machine.put(RUNNING)
    assert [machine.mapper.claim_slot(i, 2) for i in (one.id, one.id, other.id)] == [True] * 3
    assert machine.mapper.find_slots() == {0: one.id, 1: other.id}
    machine.mapper.release_slots([one.id])
    assert machine.mapper.find_slots() == {1: other.id}


def test_a_slot_that_another_import_has_claimed_meanwhile_is_not_released(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = machine.put(RUNNING), machine.put(RUNNING)
    assert machine.mapper.claim_slot(one.id, 1)
    seen = machine.mapper.find_slots()
    machine.mapper.release_slots([one.id])
    assert machine.mapper.claim_slot(other.id, 1)
    with monkeypatch.context() as patched:
        patched.setattr(machine.mapper, "find_slots", lambda: seen)  # read before the other claim
        machine.mapper.release_slots([one.id])
    assert machine.mapper.find_slots() == {0: other.id}


def test_an_import_whose_slot_another_takes_first_gets_the_next_slot(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = machine.put(RUNNING), machine.put(RUNNING)
    assert machine.mapper.claim_slot(one.id, 2)
    with monkeypatch.context() as patched:
        patched.setattr(machine.mapper, "find_slots", dict)  # read before the first claim
        assert machine.mapper.claim_slot(other.id, 2)
        assert not machine.mapper.claim_slot(other.id + 1, 2)
    assert machine.mapper.find_slots() == {0: one.id, 1: other.id}


def test_no_place_is_freed_that_an_import_beyond_the_limit_of_one_look_may_have(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert machine.mapper.claim_slot(machine.put(RUNNING, touched=NOW).id, 5)
    monkeypatch.setattr("app.gateways.imports.imports._AT_ONCE", 1)
    assert machine.gateway.find_due(NOW) == []
    assert len(machine.mapper.find_slots()) == 2


def test_an_import_that_is_cancelled_or_removed_as_it_begins_keeps_no_place(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, claim = machine.put(QUEUED), machine.mapper.claim_slot

    def cancelled_first(*args: Any) -> bool:
        machine.gateway.cancel(machine.user_id, one.id, NOW)
        return bool(claim(*args))

    monkeypatch.setattr(machine.mapper, "claim_slot", cancelled_first)
    assert machine.gateway.begin_run(machine.user_id, one.id, "run", NOW) is None
    assert (machine.get(one.id).state, machine.mapper.find_slots()) == (CANCELLED, {})
    assert machine.gateway.begin_run(machine.user_id, one.id + 1, "run", NOW) is None


def test_those_with_the_fewest_imports_come_first() -> None:
    active = [ActiveImport(number, user, None) for number, user in enumerate([1, 1, 1, 2, 2, 3], 1)]
    assert [one.id for one in sort_by_turn(active, {1})] == [4, 6, 2, 5, 3]
    assert [one.id for one in sort_by_turn(active, ())] == [1, 4, 6, 2, 5, 3]
    active = [ActiveImport(number, user, None) for number, user in enumerate([2, 2, 1, 1], 1)]
    assert [one.id for one in sort_by_turn(active, {4})] == [1, 2, 3], "each has one import before theirs"


# -- files


def test_an_import_is_named_after_its_file_and_shows_the_title_on_one_line(machine: Machine) -> None:
    body = opml.write("My\nfeeds", [Outline(f"{HOST}/a")])
    one = machine.gateway.add(machine.user_id, machine.gateway.read_file(body), "my\nfile.opml", NOW)
    assert (one.name, one.title, one.created) == ("my file.opml", "My feeds", NOW)
    assert (one.state, one.user_id) == (PREVIEW, machine.user_id)
    assert machine.get(one.id) == one


def test_a_file_with_more_folders_than_a_person_may_have_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.gateways.imports.imports.MOST", 2)

    def read(count: int) -> int:
        outlines = [Outline(f"{HOST}/{n}", folders=(f"Folder {n}",)) for n in range(count)]
        return len(machine.gateway.read_file(opml.write("Mine", outlines)).folders)

    assert read(2) == 2
    with pytest.raises(TooLargeError, match="more than 2 folders"):
        read(3)


# -- outlines


def _poll(error: str | None) -> PollResult:
    return PollResult("", error is None, int(error is not None), error, NOW)


def test_an_outline_that_is_awaited_no_longer_ends_as_its_feed_stands() -> None:
    assert settle_item(7, None) == ItemChange(FAILED, "gone", 7)
    assert settle_item(7, _poll("http_404")) == ItemChange(FAILED, "http_404", 7)
    assert settle_item(7, _poll(CUT)) == settle_item(7, _poll(None)) == ItemChange(ItemState.ADDED, None, 7)


def test_a_tick_changes_only_outlines_that_can_be_chosen() -> None:
    def tick(state: ItemState, ticked: bool, feed_id: int | None = None) -> ItemState | None:
        change = tick_item(ImportItem(0, "", state=state, feed_id=feed_id), ticked=ticked)
        assert change is None or (change.error, change.feed_id) == (None, feed_id)
        return change and change.state

    assert tick(ItemState.WAITING, False) is ItemState.SKIPPED
    assert tick(ItemState.WAITING, False, 7) is ItemState.ALREADY
    assert tick(ItemState.SKIPPED, True) is tick(ItemState.ALREADY, True, 7) is ItemState.WAITING
    for state, ticked, feed_id in ((WAITING.state, True, None), (ItemState.SKIPPED, False, None)):
        assert tick(state, ticked, feed_id) is None
    for state in (ItemState.RETRY, ItemState.FETCHING, ItemState.ADDED, FAILED, ItemState.DOUBLE):
        assert tick(state, True) is tick(state, False) is None


def test_only_failures_that_may_pass_are_retried() -> None:
    def can(state: ItemState, error: str | None, feed_id: int | None = None) -> bool:
        return ImportItem(0, "", state=state, error=error, feed_id=feed_id).can_retry

    assert can(FAILED, "http_404", 7)
    assert can(FAILED, "rate_limited")
    assert can(FAILED, f"{NO_ROOM}5")
    assert not can(FAILED, "invalid_url")
    assert not can(FAILED, None)
    assert not can(ItemState.ADDED, None, 7)
    assert not can(ItemState.WAITING, "rate_limited")
    assert retry_item(ImportItem(0, "", feed_id=7)) == ItemChange(ItemState.RETRY, None, 7)
    assert retry_item(ImportItem(0, "")) == WAITING


def _import(**values: Any) -> Import:
    return Import(id=1, user_id=1, name="", created=NOW, **values)


def test_progress_counts_the_outlines_of_this_run_only() -> None:
    counts = {"waiting": 1, "retry": 2, "fetching": 4, "added": 8, "already": 16, "failed": 32, "double": 64}
    one = _import(counts=counts, goal=10, failed_before=30, state=RUNNING, started=NOW)
    assert (one.total, one.left, one.done, one.failed) == (127, 7, 3, 2)
    later = NOW + _seconds(6)
    assert one.estimate_seconds_left(later) == 14
    assert one.build_report(later) == {
        "id": 1,
        "state": "running",
        "goal": 10,
        "done": 3,
        "added": 8,
        "already": 16,
        "fetching": 6,
        "failed": 32,
        "failed_now": 2,
        "entries": 0,
        "waits": False,
        "seconds": 14,
    }
    for without in ({"state": QUEUED}, {"started": None}, {"goal": 7}):
        assert (
            _import(
                **{"counts": counts, "goal": 10, "state": RUNNING, "started": NOW} | without
            ).estimate_seconds_left(later)
            is None
        )
    assert (_import(counts=counts, goal=5).done, _import(counts=counts, failed_before=40).failed) == (0, 0)


def test_the_depth_of_folders_is_that_of_the_deepest() -> None:
    rows = ("A", None), ("B", 0), ("C", None), ("D", 1)
    assert _import(folders=tuple(ImportFolder(name, parent) for name, parent in rows)).max_depth == 3
    assert _import().max_depth == 0


# -- the store


def test_outlines_are_read_by_range_and_written_to_their_own_import(machine: Machine) -> None:
    body = opml.write("Mine", [Outline(f"{HOST}/{n}", str(n), None, ()) for n in range(600)])
    gateway, user_id = machine.gateway, machine.user_id
    one, other = (gateway.add(user_id, gateway.read_file(body), "x", NOW) for _ in range(2))

    def indexes(first: int, count: int | None) -> list[int]:
        return [item.index for item in gateway.find_items(user_id, one.id, first, count)]

    for first, count in ((0, 1), (249, 2), (250, 250), (499, 1), (500, 200)):
        assert indexes(first, count) == list(range(first, min(first + count, 600)))
    assert indexes(255, None) == list(range(255, 600))
    machine.mapper.update_items(user_id, one.id, {0: ADDED, 251: ItemChange(FAILED, "gone", 9)})
    machine.mapper.update_items(user_id + 1, one.id, {1: ADDED})
    changed = {i.index: (i.state, i.error, i.feed_id) for i in gateway.find_items(user_id, one.id)}
    assert (changed[0], changed[251]) == ((ItemState.ADDED, None, None), (FAILED, "gone", 9))
    assert {state for state, *_ in changed.values()} == {ItemState.WAITING, ItemState.ADDED, FAILED}
    assert changed[1][0] is ItemState.WAITING
    assert {item.state for item in gateway.find_items(user_id, other.id)} == {ItemState.WAITING}
    assert gateway.find_items(user_id + 1, one.id) == []


@pytest.mark.parametrize("same_user", [True, False])
def test_an_import_whose_id_is_taken_gets_another(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, same_user: bool
) -> None:
    """Two processes may reserve the same microsecond."""
    first = machine.add(None if same_user else machine.user_id + 1)
    free = iter([first.id, first.id + 7])
    monkeypatch.setattr(PeopleTable, "reserve_id", lambda table: next(free))
    second = machine.add()
    assert second.id == first.id + 7
    assert len(machine.items(second)) == len(machine.gateway.find_items(first.user_id, first.id)) == 3
    assert machine.db.import_parts.count_documents({}) == machine.db.imports.count_documents({}) == 2
    machine.gateway.remove(machine.user_id, second.id)
    assert machine.db.import_parts.count_documents({}) == machine.db.imports.count_documents({}) == 1


def test_an_import_without_outlines_whose_id_is_taken_gets_another(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = Import(id=0, user_id=machine.user_id, name="x", created=NOW)
    first = machine.mapper.add(new, [], NOW)
    free = iter([first.id, first.id + 7, first.id, first.id + 8])
    monkeypatch.setattr(PeopleTable, "reserve_id", lambda table: next(free))
    assert machine.mapper.add(new, [], NOW).id == first.id + 7
    run = machine.services.cells.run_in_transaction
    together = run(machine.user_id, lambda session: machine.mapper.add(new, [], NOW, session))
    assert together.id == first.id + 8
    assert machine.items(first) == []


def test_outlines_that_the_store_refuses_are_not_stored_under_another_id(machine: Machine) -> None:
    machine.db.command("collMod", "import_parts", validator={"refused": {"$exists": True}})
    try:
        with pytest.raises(BulkWriteError):
            machine.add()
    finally:
        machine.db.command("collMod", "import_parts", validator={})
    assert machine.db.imports.count_documents({}) == 0


def test_the_newest_active_import_of_a_user_is_found(machine: Machine) -> None:
    assert machine.gateway.find_active_by_user(machine.user_id) is None
    machine.put(DONE)
    old = machine.put(RUNNING, created=NOW - _seconds(5))
    new = machine.put(QUEUED)
    machine.put(CANCELLED)
    found = machine.gateway.find_active_by_user(machine.user_id)
    assert found is not None
    assert found.id == new.id
    assert machine.gateway.find_active_by_user(machine.user_id + 1) is None
    assert [one.id for one in machine.gateway.find_by_user(machine.user_id, 9)][-1] == old.id
    assert machine.gateway.find_by_user(machine.user_id + 1, 9) == []
    assert machine.gateway.is_stored(old)
