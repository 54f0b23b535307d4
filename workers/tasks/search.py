"""The task that updates the search index; its service does the work."""

from __future__ import annotations

from app import clock
from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: it is CPU work, and would delay pulls in a loop worker.
@register_task(Task.INDEX, mode="solo", timeout=90)
def index(ctx: Context) -> dict[str, int]:
    """Index new and changed entries."""
    return ctx.services.indexing.run(clock.now(), seconds=30.0)
