"""The task that notifies many readers of new entries; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


@register_task(Task.NOTIFY)
def notify_readers(ctx: Context, *, feed_id: int, count: int, after: int, at: int) -> dict[str, int]:
    """Notify the next readers of a feed of its new entries."""
    return {"readers": ctx.services.notifier.notify_next_readers(feed_id, count, after, at)}
