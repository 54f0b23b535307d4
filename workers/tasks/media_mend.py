"""The task that copies pictures and files to stores that were away; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: it waits for stores and disks. One large file may take longer than a run.
@register_task(Task.MEND, mode="solo", timeout=600)
def mend_stores(ctx: Context) -> int:
    """Copy what stores lack."""
    return ctx.services.media_mending.run(seconds=60.0, is_stopping=ctx.stopping.is_set)
