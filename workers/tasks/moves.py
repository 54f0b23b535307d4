"""The task that moves a person to another cell; its service does the work."""

from __future__ import annotations

from typing import Any

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task

#: Seconds; a longer run (millions of documents) is ended, and the next one continues.
LONGEST = 900.0


# Solo: it reads and writes all the time, and would delay pulls in a loop worker.
@register_task(Task.MOVE, mode="solo", timeout=LONGEST)
def move(ctx: Context, *, user_id: int) -> dict[str, Any]:
    """Continue the move of a person, or search the cell that they left."""
    return ctx.services.moves.run(user_id)
