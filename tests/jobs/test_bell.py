"""The bell: what a signal handler may do wherever it interrupts its own thread."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from workers.wakeup import WakeupSignal


def test_a_handler_may_ring_at_any_line_of_the_wait() -> None:
    """As a signal does it: between two lines of the thread that waits, whatever locks it holds there."""
    bell = WakeupSignal()
    rung: list[str] = []
    heard: list[bool] = []

    def interrupt(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            rung.append(frame.f_code.co_name)
            sys.settrace(None)  # a handler does not interrupt itself
            bell.notify()
            sys.settrace(interrupt)
        return interrupt

    def work() -> None:
        sys.settrace(interrupt)
        bell.wait(0)
        heard.append(bell.wait(60))
        sys.settrace(None)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()  # else it waits for a lock of its own
    assert rung
    assert heard == [True]


def test_a_ring_before_the_wait_is_heard_once_however_often_it_rang() -> None:
    bell = WakeupSignal()
    for _ in range(1000):
        bell.notify()
    assert bell.wait(0)
    assert not bell.wait(0)


def test_another_thread_ends_the_wait() -> None:
    bell = WakeupSignal()
    heard: list[bool] = []
    thread = threading.Thread(target=lambda: heard.append(bell.wait(60)))
    thread.start()
    bell.notify()
    thread.join(20)
    assert heard == [True]
