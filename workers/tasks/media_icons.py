"""Tasks of icons; their service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


@register_task(Task.MEDIA_ICONS, timeout=300)
async def find_icons(ctx: Context, *, feed_ids: list[int]) -> dict[str, int]:
    """Look for the icons of feeds."""
    return dict(await ctx.services.icons.find_icons(feed_ids, ctx.fetcher, ctx.job.token, ctx.job.queue))
