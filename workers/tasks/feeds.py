"""Tasks of the feed engine; the services do the work."""

from __future__ import annotations

import asyncio

from app.errors import FeedError
from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


@register_task(Task.PULL, split="feed_ids")
async def pull(ctx: Context, *, feed_ids: list[int]) -> dict[str, object]:
    """Pull feeds now because a user requested it."""
    return await _pull(ctx, feed_ids, only_due=False)


@register_task(Task.PULL_SYSTEM, split="feed_ids")
async def pull_system(ctx: Context, *, feed_ids: list[int]) -> dict[str, object]:
    """Pull the feeds of a batch that are still due."""
    return await _pull(ctx, feed_ids, only_due=True)


async def _pull(ctx: Context, feed_ids: list[int], *, only_due: bool) -> dict[str, object]:
    pulls = ctx.services.pull
    alone = len(feed_ids) == 1
    if alone and await is_given_up(ctx, feed_ids[0]):
        raise FeedError("crashed")
    if alone and await is_last_try(ctx, feed_ids[0]):
        only_due = False

    def report_counts(counts: dict[str, int]) -> None:
        # The job's end reports that all are done.
        if counts["feeds"] + counts["skipped"] + counts["put_off"] < len(feed_ids):
            ctx.report_progress(**counts)

    result = await pulls.pull(
        feed_ids,
        ctx.fetcher,
        token=ctx.job.token,
        dead_tokens=ctx.parents,
        is_held=ctx.is_held,
        only_due=only_due,
        progress=report_counts,
    )
    if alone and result.feeds:
        await clear_crashes(ctx, feed_ids[0])
    return dict(result.to_json())


async def is_given_up(ctx: Context, feed_id: int) -> bool:
    """Return whether a feed is suspended because it crashed its workers too often, in any job."""
    spent = ctx.job.crashes >= ctx.settings.job_retries
    return spent and await asyncio.to_thread(ctx.services.pull.is_suspended, feed_id)


async def is_last_try(ctx: Context, feed_id: int) -> bool:
    """Return whether a feed alone has crashed its workers so often that this is its last attempt.

    Its error is stored in advance: if it crashes again, its readers see the reason and the feed is suspended;
    a success clears the error.
    """
    if ctx.job.crashes + 1 < ctx.settings.job_retries:
        return False
    await asyncio.to_thread(ctx.services.pull.mark_suspect, feed_id, ctx.job.token, ctx.parents, ctx.is_held)
    return True


async def clear_crashes(ctx: Context, feed_id: int) -> None:
    """Reset the crash count of a feed after a successful pull."""
    if ctx.job.crashes:
        await asyncio.to_thread(ctx.jobs.clear_crashes, feed_id)


@register_task(Task.DISCOVER)
async def discover(ctx: Context, *, key: int) -> dict[str, object]:
    """Find the feeds of an address that a user typed."""
    return dict(await ctx.services.discovery.run(key, ctx.fetcher, ctx.report_progress))


@register_task(Task.PAGE_LISTS)
async def read_page_lists(ctx: Context, *, key: int) -> dict[str, object]:
    """Read the lists of a page for which someone wants a feed."""
    return dict(await ctx.services.page_lists.run(key, ctx.fetcher))


@register_task(Task.CRAWL, timeout=90)
async def crawl_site(ctx: Context, *, crawl_id: int) -> dict[str, object]:
    """Send the next request of a crawl."""
    return dict(await ctx.services.crawls.run(crawl_id, ctx.fetcher))


@register_task(Task.RETAIN)
def apply_retention(ctx: Context, *, feed_id: int) -> int:
    """Delete a feed's oldest entries beyond the number that is kept."""
    return int(ctx.services.pull.apply_retention(feed_id))


@register_task(Task.CHAPTERS, timeout=60)
async def fetch_chapters(ctx: Context, *, user_id: int, entry_id: int) -> dict[str, object]:
    """Fetch the chapters of an episode that someone has opened."""
    return dict(await ctx.services.chapters.fetch(user_id, entry_id, ctx.fetcher))
