"""Tasks of the feed engine: thin doors to the services."""

from __future__ import annotations

import asyncio

from app.models.jobs import Task
from workers.context import Context
from workers.registry import task


@task(Task.PULL, split="feed_ids")
async def pull(ctx: Context, *, feed_ids: list[int]) -> dict[str, object]:
    """Pull feeds now because a person asked for it."""
    return await _pull(ctx, feed_ids, only_due=False)


@task(Task.PULL_SYSTEM, split="feed_ids")
async def pull_system(ctx: Context, *, feed_ids: list[int]) -> dict[str, object]:
    """Pull those of the feeds that are still due."""
    return await _pull(ctx, feed_ids, only_due=True)


async def _pull(ctx: Context, feed_ids: list[int], *, only_due: bool) -> dict[str, object]:
    pulls = ctx.services.pull
    if len(feed_ids) == 1 and ctx.job.crashes + 1 >= ctx.settings.job_retries:
        # This feed alone has crashed its workers, and this is its last try. Its error is written
        # before: if it crashes again, the reader sees why, and the feed rests; a success clears it.
        await asyncio.to_thread(pulls.suspect, feed_ids[0], ctx.job.token, ctx.parents)
        only_due = False

    def tell(counts: dict[str, int]) -> None:
        # That all are done is told by the job's end.
        if counts["feeds"] + counts["skipped"] + counts["put_off"] < len(feed_ids):
            ctx.progress(**counts)

    result = await pulls.pull(
        feed_ids, ctx.fetcher, token=ctx.job.token, dead=ctx.parents, only_due=only_due, progress=tell
    )
    return dict(result.to_json())


@task(Task.DISCOVER)
async def discover(ctx: Context, *, key: int) -> dict[str, object]:
    """Find the feeds of an address that somebody typed."""
    return dict(await ctx.services.discovery.run(key, ctx.fetcher, ctx.progress))


@task(Task.RETAIN)
def retain(ctx: Context, *, feed_id: int) -> int:
    """Drop a feed's oldest entries above the number that is kept."""
    return int(ctx.services.pull.retain(feed_id))
