"""Work that the updater repeats beside its main loop, so that due feeds don't wait for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from app import logs
from app.errors import EventrError

_log = logs.get(__name__)

#: Seconds for which the end of the updater waits for the end of the work. All of it may be interrupted.
STOP_SECONDS = 5.0


@contextlib.contextmanager
def repeat_in_background(
    name: str, work: Callable[[], object], *, every: float, is_active: Callable[[], bool]
) -> Iterator[None]:
    """Repeat work in a thread of its own until the end of the block; an error of one turn ends only that.

    Args:
        name: of the thread, for logs.
        work: does a bounded part of the work; after a true result, the next turn begins at once.
        every: seconds between two turns.
        is_active: whether this process should work now.
    """
    stop = threading.Event()

    def run_turns() -> None:
        pause = 0.0
        while not stop.wait(pause):
            pause = every
            if is_active() and _try(name, work):
                pause = 0.0

    thread = threading.Thread(target=run_turns, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(STOP_SECONDS)


def _try(name: str, work: Callable[[], object]) -> bool:
    try:
        return bool(work())
    except EventrError as e:
        _log.warning("background_failed", of=name, error=e.word)
    except Exception:  # noqa: BLE001 — a bug of ours, or an unknown refusal of MongoDB; later turns may succeed
        _log.error("background_broken", exc_info=True, of=name)
    return False
