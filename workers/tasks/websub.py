"""Tasks of the WebSub subscriber; its service does the work."""

from __future__ import annotations

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task
from workers.tasks.feeds import clear_crashes, is_given_up, is_last_try


@register_task(Task.WEBSUB_TEND)
async def tend_subscription(ctx: Context, *, id: int) -> dict[str, object]:
    """Subscribe at a hub, renew the subscription, or end it."""
    return dict(await ctx.services.websub.tend_subscription(id, ctx.fetcher))


@register_task(Task.WEBSUB_PULL)
async def pull(ctx: Context, *, feed_id: int) -> dict[str, int]:
    """Pull a feed whose hub has pushed."""
    # A suspended feed isn't pulled; the service notices and records that the push is handled.
    last = not await is_given_up(ctx, feed_id) and await is_last_try(ctx, feed_id)
    result = await ctx.services.websub.pull(
        feed_id,
        ctx.fetcher,
        token=ctx.job.token,
        dead_tokens=ctx.parents,
        is_held=ctx.is_held,
        last=last,
    )
    if result["feeds"]:
        await clear_crashes(ctx, feed_id)
    return dict(result)
