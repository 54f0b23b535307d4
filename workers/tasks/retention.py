"""The task that deletes entries beyond the installation's budget; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: it queries the store all the time, and would delay pulls in a loop worker.
@register_task(Task.TRIM, mode="solo", timeout=120)
def trim_entries(ctx: Context) -> dict[str, int]:
    """Delete old entries of unopened feeds while there are more than the budget allows."""
    return ctx.services.retention_budget.run(seconds=60.0, is_stopping=ctx.stopping.is_set)._asdict()
