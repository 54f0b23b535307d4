"""The task that marks entries as read some days after they arrived; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: it queries the store all the time, and would delay pulls in a loop worker.
@register_task(Task.AUTO_READ, mode="solo", timeout=120)
def mark_due_entries(ctx: Context, *, after: int) -> dict[str, int]:
    """Mark entries as read for the users after this one."""
    return ctx.services.auto_read.run(after, seconds=60.0, is_stopping=ctx.stopping.is_set)
