"""Work that the updater repeats beside its main loop."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from app.errors import ConflictError
from workers.updater import background
from workers.updater.background import repeat_in_background

Eventually = Callable[..., Any]


def test_work_that_hangs_delays_neither_the_main_loop_nor_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "STOP_SECONDS", 0.01)
    begun, release = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        release.wait()

    with repeat_in_background("outbox", hang, every=0.0, is_active=lambda: True):
        assert begun.wait(60)
    release.set()


@pytest.mark.parametrize("error", [ConflictError(), ValueError("a bug")])
def test_an_error_ends_only_its_turn(error: Exception) -> None:
    turns = queue.Queue[int]()

    def work() -> None:
        turns.put(1)
        raise error

    with repeat_in_background("outbox", work, every=0.0, is_active=lambda: True):
        assert [turns.get(timeout=60) for _ in range(3)] == [1, 1, 1]


def test_only_the_holder_of_the_lease_works() -> None:
    looks, turns = queue.Queue[bool](), list[bool]()
    answers = iter((False, False, True))

    def has_lease() -> bool:
        answer = next(answers, False)
        looks.put(answer)
        return answer

    with repeat_in_background("outbox", lambda: turns.append(True), every=0.0, is_active=has_lease):
        assert [looks.get(timeout=60) for _ in range(4)] == [False, False, True, False]
        assert turns == [True]


def test_the_next_turn_begins_at_once_while_there_is_more() -> None:
    left, done = [3], threading.Event()

    def work() -> bool:
        left[0] -= 1
        if not left[0]:
            done.set()
        return left[0] > 0

    with repeat_in_background("outbox", work, every=3600.0, is_active=lambda: True):
        assert done.wait(60)


def test_the_thread_ends_with_the_block() -> None:
    with repeat_in_background("outbox", lambda: None, every=0.0, is_active=lambda: True):
        assert "outbox" in {thread.name for thread in threading.enumerate()}
    assert "outbox" not in {thread.name for thread in threading.enumerate()}
