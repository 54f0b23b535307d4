"""Reliable cancellation of tasks: a library may mistake a cancellation for its own timeout and continue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

#: Seconds after which a task that still runs is canceled again.
AGAIN: Final = 0.1


async def cancel_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until all of them have ended; their results are discarded.

    If the caller is canceled meanwhile, CancelledError is raised only after all tasks have ended, so that the
    caller can close the resources they use.
    """
    left = set(tasks)
    cancelled: asyncio.CancelledError | None = None
    while left := {task for task in left if not task.done()}:
        for task in left:
            task.cancel()
        try:
            await asyncio.wait(left, timeout=AGAIN)
        except asyncio.CancelledError as e:
            cancelled = e
    if cancelled is not None:
        raise cancelled
