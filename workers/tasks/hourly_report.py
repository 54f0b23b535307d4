"""The task of the hourly report; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: its modules leave memory with the worker, which ends after a minute without jobs.
@register_task(Task.REPORT, mode="solo", timeout=90)
def report(ctx: Context, *, hour: int) -> dict[str, int]:
    """Send the report about an hour."""
    return ctx.services.report.send(hour)
