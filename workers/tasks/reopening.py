"""The task that marks changed entries as unread; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


@register_task(Task.REOPEN)
def mark_changed_entries(ctx: Context, *, feed_id: int, since: int, after: int) -> dict[str, int]:
    """Mark the changed entries of a feed as unread for the readers after this one."""
    return ctx.services.reopening.run(feed_id, since, after, seconds=20.0, is_stopping=ctx.stopping.is_set)
