"""The task that keeps the search up to date: a thin door to its service."""

from __future__ import annotations

from app import clock
from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: it is CPU work, and in a loop worker it would hold pulls up.
@register_task(Task.INDEX, mode="solo", timeout=90)
def index(ctx: Context) -> dict[str, int]:
    """Index entries that are new or changed."""
    return ctx.services.indexing.run(clock.now(), seconds=30.0)
