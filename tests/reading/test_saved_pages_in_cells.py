"""Saved pages of a person whose data is in another cell than the pages."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from app import clock
from app.bootstrap.services import Services
from app.errors import ExistsError, NotFoundError
from app.gateways.reading.saved_pages import LEFT_AFTER
from app.mappers.mongo.store import Store
from app.models.accounts.actor import Actor
from app.models.operations.cells import HOME, PlaceState
from tests.support import moves
from tests.support.cells import cell_db, move, second_cell, settings
from tests.support.reader import add_user

__all__ = ["cell_db", "second_cell", "settings"]


@pytest.fixture
def ann(services: Services, cell_db: Any) -> Actor:
    found = add_user(services, "ann")
    move(services, found.user_id)
    return found


def test_marks_go_with_a_page_and_come_back_with_it(services: Services, ann: Actor) -> None:
    saved = services.saved_pages.save(ann, "https://site.example/1", title="One")
    services.tags.change_tags(ann, saved.entry_id, add=["x"])
    services.notes.set_text(ann, saved.entry_id, "Mine")
    before = services.mappers.marks.find_all(ann.user_id, saved.entry_id, None)
    token = services.saved_pages.remove(ann, saved.entry_id)
    assert services.mappers.marks.find_all(ann.user_id, saved.entry_id, None) is None
    assert [tag.count for tag in services.tags.list_tags(ann)] == [0]
    services.saved_pages.restore(ann, token)
    assert services.mappers.marks.find_all(ann.user_id, saved.entry_id, None) == before
    assert [tag.count for tag in services.tags.list_tags(ann)] == [1]


class _CrashError(BaseException):
    """The process ends here."""


class Crash:
    """Ends the work of a process at one of its transactions: before its commit, or after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, *, committed: bool) -> None:
        self._patch, self._number, self._committed, self.count = monkeypatch, number, committed, 0
        self._run = Store.run_in_transaction

    def __call__(self, work: Callable[[], object]) -> None:
        """Run ``work`` until its end, which is the crash."""
        crash = self

        def run_in_transaction(store: Store, operation: Callable[[Any], Any]) -> Any:
            crash.count += 1
            is_last = crash.count == crash._number

            def run_until_crash(session: Any) -> Any:
                result = operation(session)
                if is_last and not crash._committed:
                    raise _CrashError
                return result

            result = crash._run(store, run_until_crash)
            if is_last:
                raise _CrashError
            return result

        with self._patch.context() as patch:
            patch.setattr(Store, "run_in_transaction", run_in_transaction)
            with pytest.raises(_CrashError):
                work()


#: A crash at each of the three transactions of a removal and of a restoration, before and after its commit.
CRASHES = [(number, committed) for number in (1, 2, 3) for committed in (False, True)]


@pytest.fixture(params=CRASHES, ids=lambda at: f"{'after' if at[1] else 'in'}-{at[0]}")
def crash(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Crash:
    number, committed = request.param
    return Crash(monkeypatch, number, committed=committed)


class Page:
    """A saved page with a tag, a note and a star, whose numbers are settled."""

    def __init__(self, services: Services, ann: Actor) -> None:
        self._services, self._ann = services, ann
        saved = services.saved_pages.save(ann, "https://site.example/1", title="One")
        self.id, self.feed_id = saved.entry_id, saved.feed_id
        services.tags.change_tags(ann, self.id, add=["x"])
        services.notes.set_text(ann, self.id, "Mine")
        services.reading.set_starred(ann, self.id, True)
        self.settle()
        self._before, self._marks = self.read_page(), self.read_marks()
        assert self._before["stars"] == 1

    def settle(self) -> None:
        """Do what the updater does, long after whatever crashed."""
        later = clock.now() + LEFT_AFTER + dt.timedelta(seconds=1)
        with clock.set_source(lambda: later):
            while self._services.cell_upkeep.settle_outbox():
                pass

    def read_page(self) -> Any:
        return self._services.store.database["entries"].find_one({"_id": self.id}, {"revised": 0})

    def read_marks(self) -> Any:
        return self._services.mappers.marks.find_all(self._ann.user_id, self.id, None)

    def list_undos(self) -> list[str]:
        found = self._services.mappers.removals.find_newest(self._ann.user_id, clock.now(), 9, None)
        return [removal.token for removal, *_ in found]

    def is_whole(self) -> bool:
        """Return whether the page is there with all its marks and numbers; fails if it is there in part."""
        self.settle()
        page, marks = self.read_page(), self.read_marks()
        counts = [tag.count for tag in self._services.tags.list_tags(self._ann)]
        keepers = self._services.store.database["entry_keepers"].find({"entry_id": self.id})
        assert self._services.mappers.removals.find_begun(self._ann.user_id) == []
        if page is None:
            assert (marks, counts, [doc["n"] for doc in keepers]) == (None, [0], [0])
            return False
        assert (page, marks, counts) == (self._before, self._marks, [1])
        assert [doc["n"] for doc in keepers] == [1]
        return True


@pytest.fixture
def page(services: Services, ann: Actor) -> Page:
    return Page(services, ann)


def test_the_updater_finishes_a_removal_that_crashed(
    services: Services, ann: Actor, page: Page, crash: Crash
) -> None:
    crash(lambda: services.saved_pages.remove(ann, page.id))
    if page.is_whole():
        assert page.list_undos() == [], "nothing has begun"
        return
    (token,) = page.list_undos()
    assert services.saved_pages.restore(ann, token) == page.id
    assert page.is_whole()
    assert page.list_undos() == []


def test_a_repeated_removal_finishes_one_that_crashed(
    services: Services, ann: Actor, page: Page, crash: Crash
) -> None:
    crash(lambda: services.saved_pages.remove(ann, page.id))
    if page.list_undos():  # nothing is left to do
        with pytest.raises(NotFoundError):
            services.saved_pages.remove(ann, page.id)
        (token,) = page.list_undos()
    else:
        token = services.saved_pages.remove(ann, page.id)
    assert page.read_page() is page.read_marks() is None
    assert page.list_undos() == [token]
    services.saved_pages.restore(ann, token)
    assert page.is_whole()


def test_the_updater_finishes_a_restoration_that_crashed(
    services: Services, ann: Actor, page: Page, crash: Crash
) -> None:
    token = services.saved_pages.remove(ann, page.id)
    crash(lambda: services.saved_pages.restore(ann, token))
    if not page.is_whole():
        assert page.list_undos() == [token], "nothing has begun"
        services.saved_pages.restore(ann, token)
    assert page.is_whole()
    assert page.list_undos() == []
    with pytest.raises(NotFoundError):
        services.saved_pages.restore(ann, token)


def test_a_repeated_restoration_finishes_one_that_crashed(
    services: Services, ann: Actor, page: Page, crash: Crash
) -> None:
    token = services.saved_pages.remove(ann, page.id)
    crash(lambda: services.saved_pages.restore(ann, token))
    if page.read_marks() is None:
        assert services.saved_pages.restore(ann, token) == page.id
    assert page.read_page() is not None
    assert page.is_whole()


def test_a_removal_that_finishes_late_does_not_take_what_is_saved_again(
    services: Services, ann: Actor, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    Crash(monkeypatch, 1, committed=True)(lambda: services.saved_pages.remove(ann, page.id))
    saved = services.saved_pages.save(ann, "https://site.example/1")
    assert not saved.existed
    page.settle()
    assert services.gateways.saved_pages.find_page_ids(page.feed_id, ["https://site.example/1"])
    (token,) = page.list_undos()
    with pytest.raises(ExistsError):
        services.saved_pages.restore(ann, token)
    assert page.list_undos() == [token], "it can be restored once the new one is removed"
    services.saved_pages.remove(ann, saved.entry_id)
    services.saved_pages.restore(ann, token)
    assert page.is_whole()


@pytest.mark.parametrize("step", ["remove", "restore"])
def test_a_slow_process_does_not_repeat_what_others_have_finished(
    services: Services, ann: Actor, page: Page, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """It stops before its step at home; meanwhile, the updater finishes it, and the person undoes it."""
    tokens = list[str]()

    def remove() -> None:
        tokens.append(services.saved_pages.remove(ann, page.id))

    def restore() -> None:
        services.saved_pages.restore(ann, tokens[0])

    if step == "restore":
        remove()
    run, count = Store.run_in_transaction, 0

    def run_late(store: Store, operation: Callable[[Any], Any]) -> Any:
        nonlocal count
        count += 1
        if count == 2:
            page.settle()
            if step == "remove":
                services.saved_pages.restore(ann, page.list_undos()[0])
            else:
                services.saved_pages.remove(ann, page.id)
        return run(store, operation)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "run_in_transaction", run_late)
        (remove if step == "remove" else restore)()
    assert page.is_whole() is (step == "remove")


def test_what_has_begun_does_not_expire_and_moves_along(
    services: Services, ann: Actor, page: Page, cell_db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Crash(monkeypatch, 2, committed=True)(lambda: services.saved_pages.remove(ann, page.id))
    (doc,) = cell_db["removals"].find()
    assert doc["expires"] is None
    places = services.cells.places
    moving = places.update(services.cells.find_place(ann.user_id), state=PlaceState.MIGRATING, to=HOME)
    assert moving is not None
    services.cells.forget_places()
    page.settle()
    assert cell_db["removals"].find_one() == doc, "it waits for the end of the move"
    assert places.update(moving, state=PlaceState.NORMAL, to=None)
    services.cells.forget_places()
    services.mover.start(ann.user_id, HOME)
    moves.work(services, ann.user_id)
    services.cells.forget_places()
    assert not page.is_whole()
    (token,) = page.list_undos()
    services.saved_pages.restore(ann, token)
    assert page.read_marks() is not None


def test_a_removed_note_is_never_without_its_undo(
    services: Services, ann: Actor, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    for committed in (False, True):
        Crash(monkeypatch, 1, committed=committed)(lambda: services.notes.remove_note(ann, page.id))
        assert (services.notes.get_note(ann, page.id) is None) is committed
        assert len(page.list_undos()) == committed
    (token,) = page.list_undos()
    for committed in (False, True):
        Crash(monkeypatch, 1, committed=committed)(lambda: services.notes.restore(ann, token))
        assert (services.notes.get_note(ann, page.id) is not None) is committed
        assert page.list_undos() == ([] if committed else [token])
