"""The task that deletes feeds without readers; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: it queries the store all the time, and would delay pulls in a loop worker.
@register_task(Task.COLLECT, mode="solo", timeout=120)
def delete_orphans(ctx: Context) -> dict[str, int]:
    """Delete feeds that nobody has read for long and nobody needs."""
    return ctx.services.orphans.run(seconds=60.0, is_stopping=ctx.stopping.is_set)._asdict()
