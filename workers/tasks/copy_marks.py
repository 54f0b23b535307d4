"""The task that marks copies of many entries as read; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: it queries the store all the time, and would delay pulls in a loop worker.
@register_task(Task.MARK_COPIES, mode="solo", timeout=120)
def mark_copies(ctx: Context, *, user_id: int, token: str, after: int) -> dict[str, int]:
    """Mark the copies of the entries that a mass mark has read."""
    return ctx.services.copy_marks.run(user_id, token, after, seconds=60.0, is_stopping=ctx.stopping.is_set)
