"""The task that indexes feeds by their words; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


# Solo: it queries the store all the time, and would delay pulls in a loop worker.
@register_task(Task.FEED_WORDS, mode="solo", timeout=120)
def index_feeds(ctx: Context, *, after: int) -> dict[str, int | None]:
    """Index the words of the feeds after this one."""
    return ctx.services.feed_search.run(after, seconds=60.0, is_stopping=ctx.stopping.is_set)
