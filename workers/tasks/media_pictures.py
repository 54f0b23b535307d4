"""Tasks that fetch pictures; their service does the work."""

from __future__ import annotations

import asyncio

from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


@register_task(Task.MEDIA_FETCH, timeout=180)
async def fetch_pictures(ctx: Context, *, ids: list[str]) -> dict[str, int]:
    """Fetch pictures that a page has shown for the first time."""
    sources = [bytes.fromhex(one) for one in ids]
    pictures, job = ctx.services.pictures, ctx.job
    return dict(await pictures.fetch_many(sources, ctx.fetcher, job.token, job.queue))


@register_task(Task.MEDIA_AHEAD, timeout=60)
async def fetch_ahead(
    ctx: Context, *, user_id: int, stream: str, entry_id: int, was_read: bool, sort: str, show: str
) -> int:
    """Fetch the pictures of the entries after one that a person has opened."""
    ahead = ctx.services.ahead
    return await asyncio.to_thread(
        ahead.fetch_following, user_id, stream, entry_id, was_read=was_read, sort=sort, show=show
    )


@register_task(Task.MEDIA_THUMBS, timeout=60)
async def fetch_thumbs(ctx: Context, *, feed_ids: list[int], counts: list[int]) -> int:
    """Fetch the pictures of new entries of feeds that someone reads as cards."""
    return await asyncio.to_thread(ctx.services.thumbs.fetch_thumbs, feed_ids, counts)
