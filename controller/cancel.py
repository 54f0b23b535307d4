"""Ends tasks for sure: a library may take a cancellation for a time-out of its own, and go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

#: A task that has not ended is cancelled again after so many seconds.
AGAIN: Final = 0.1


async def cancel_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until all of them have ended; how they end is nobody's concern any more.

    Who is cancelled meanwhile is told so when they have: what they use may be closed then.
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
