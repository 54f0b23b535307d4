"""The task of the hourly report: a thin door to its service."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: what it loads leaves with its worker, which ends when it is idle for a minute.
@register_task(Task.REPORT, mode="solo", timeout=90)
def report(ctx: Context, *, hour: int) -> dict[str, int]:
    """Send the report about an hour."""
    return ctx.services.report.send(hour)
