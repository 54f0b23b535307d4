"""The task that deletes pictures and files that nothing needs; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: it queries the store and deletes files all the time, and would delay pulls in a loop worker.
@register_task(Task.MEDIA_CLEAN, mode="solo", timeout=180)
def clean_media(ctx: Context) -> dict[str, int]:
    """Delete pictures and files that nothing needs anymore."""
    return ctx.services.media_cleaning.run(is_stopping=ctx.stopping.is_set)._asdict()
