"""Tasks of our own hub; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


@register_task(Task.HUB_VERIFY)
async def verify(ctx: Context, *, id: int) -> dict[str, object]:
    """Verify with a callback that it intended the request made in its name."""
    return dict(await ctx.services.hub.verify_intents(id, ctx.fetcher))


@register_task(Task.HUB_PUSH)
async def push(ctx: Context, *, feed_id: int) -> dict[str, int]:
    """Push a stream's changes to its subscribers."""
    return await ctx.services.hub.push_changes(feed_id, ctx.fetcher, seconds=ctx.limit)
