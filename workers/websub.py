"""Tasks of the WebSub subscriber: thin doors to its service."""

from __future__ import annotations

import asyncio

from app.models.jobs import Task
from workers.context import Context
from workers.registry import task


@task(Task.WEBSUB_TEND)
async def tend(ctx: Context, *, id: int) -> dict[str, object]:
    """Subscribe at a hub, renew that, or end it."""
    return dict(await ctx.services.websub.tend(id, ctx.fetcher))


@task(Task.WEBSUB_PULL)
async def pull(ctx: Context, *, feed_id: int) -> dict[str, int]:
    """Pull a feed whose hub has pushed."""
    last = ctx.job.crashes + 1 >= ctx.settings.job_retries
    if last:
        # Reading this feed has crashed its workers. As in feeds.pull: the error is written before.
        await asyncio.to_thread(ctx.services.pull.suspect, feed_id, ctx.job.token, ctx.parents)
    return dict(
        await ctx.services.websub.pull(feed_id, ctx.fetcher, token=ctx.job.token, dead=ctx.parents, last=last)
    )
