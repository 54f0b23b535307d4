"""The task that sends entries to services of their readers; the service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


@register_task(Task.SEND, timeout=90)
async def send_entries(ctx: Context, *, user_id: int) -> dict[str, object]:
    """Send what is due for a user."""
    return dict(await ctx.services.sending.run(user_id, ctx.fetcher, 45.0, ctx.stopping.is_set))
