"""What a process knows of a cell's replica set, with each interleaving of its threads that has lost a reply.

No server is needed: what asks and what the driver knows are functions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from app.errors import CellError, StoreError
from app.mappers.mongo import cell_watch
from app.mappers.mongo.cell_watch import CellWatch
from tests.support.cells import CELL

#: Seconds after which a thread of a test that hangs is given up.
LIMIT = 30


class Waited(threading.Event):
    """Says when a caller begins to wait for it, and holds who sets it until ``go`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.waits, self.lingers, self.go = threading.Event(), threading.Event(), threading.Event()
        self.go.set()

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.set()
        self.go.set()
        return super().wait(timeout)

    def set(self) -> None:
        super().set()
        self.lingers.set()
        assert self.go.wait(LIMIT)


class Lock:
    """A lock that sets an event before a caller has to wait for it."""

    def __init__(self, waits: threading.Event) -> None:
        self._lock, self._waits = threading.Lock(), waits

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._waits.set()
            assert self._lock.acquire(timeout=LIMIT)

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def build(ask: Callable[[], object], has_primary: Callable[[], bool] = lambda: True) -> CellWatch:
    """Return the watch of a cell that has replied once, for requests with much patience."""
    watch = CellWatch(CELL, ask, has_primary, LIMIT)
    watch.note_reply()
    return watch


def call(watch: CellWatch, found: list[str]) -> threading.Thread:
    def check() -> None:
        try:
            watch.check()
            found.append("up")
        except CellError:
            found.append("down")

    thread = threading.Thread(target=check)
    thread.start()
    return thread


def test_an_error_that_came_at_once_lets_requests_wait_for_the_reply() -> None:
    is_up, found = threading.Event(), list[str]()
    watch = build(lambda: is_up.wait(LIMIT))
    watch._responds = spy = Waited()
    spy.set()
    watch.note_doubt()
    caller = call(watch, found)
    assert spy.waits.wait(LIMIT)
    is_up.set()
    caller.join(LIMIT)
    assert found == ["up"]


def test_an_error_that_came_at_once_gives_nobody_new_patience_with_a_cell_that_is_down() -> None:
    is_up, found = threading.Event(), list[str]()
    watch = build(lambda: is_up.wait(LIMIT))
    watch.note_failure()
    watch.note_doubt()
    call(watch, found).join(LIMIT)
    assert found == ["down"]
    is_up.set()


@pytest.mark.parametrize("is_lost", [False, True], ids=["a primary again", "still none"])
def test_a_doubt_while_the_thread_ends_is_not_left_without_one(is_lost: bool) -> None:
    """A caller sees a doubt, and before it acts, the thread of an earlier one gets its reply and ends."""
    has_seen, asked, found = threading.Event(), list[int](), list[str]()

    def has_primary() -> bool:
        if has_seen.is_set():
            return not is_lost
        has_seen.set()
        assert spy.lingers.wait(LIMIT)
        return False

    watch = build(lambda: asked.append(1), has_primary)
    watch._responds = spy = Waited()
    watch._lock = Lock(spy.go)  # type: ignore[assignment]
    spy.set()
    spy.lingers.clear()
    spy.go.clear()
    caller = call(watch, found)
    assert has_seen.wait(LIMIT)
    watch.note_failure()
    caller.join(2 * LIMIT)
    assert (found, len(asked)) == (["up"], 1 + is_lost)


def test_a_doubt_does_not_wait_for_the_pause_between_two_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply to another call ended the first doubt, but not the pause of the thread."""
    monkeypatch.setattr(cell_watch, "PAUSE_SECONDS", 10.0 * LIMIT)
    asked, has_failed, found = list[int](), threading.Event(), list[str]()

    class Paused(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            has_failed.set()
            return super().wait(timeout)

    def ask() -> None:
        asked.append(1)
        if len(asked) == 1:
            raise StoreError

    watch = build(ask, lambda: bool(asked[1:]))
    watch._ask_now = Paused()
    watch.note_failure()
    assert has_failed.wait(LIMIT)
    watch.note_reply()
    call(watch, found).join(2 * LIMIT)
    assert found == ["up"]


def test_errors_of_the_thread_itself_do_not_end_its_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_watch, "PAUSE_SECONDS", 10.0 * LIMIT)
    pauses = list[bool]()
    has_paused = threading.Event()

    class Paused(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(self.is_set())
            has_paused.set()
            return super().wait(timeout)

    def ask() -> None:
        watch.note_reply()  # as that of a log-in
        watch.note_doubt()
        raise StoreError

    watch = build(ask)
    watch._ask_now = Paused()
    watch.note_failure()
    assert has_paused.wait(LIMIT)
    assert pauses == [False]
    watch.close()
    assert watch._thread is not None
    watch._thread.join(LIMIT)
    assert not watch._thread.is_alive()
