"""The task of an import; the service does the work."""

from __future__ import annotations

from typing import Any

from app.models.jobs.jobs import Queue, Task
from controller.client import AsyncResultReader
from workers.context import Context
from workers.registry import register_task

#: Seconds; a longer run is ended, and the next one continues.
LONGEST = 3600.0


# Solo: it unpacks and parses up to gigabytes.
@register_task(Task.READ_ARCHIVE, mode="solo", timeout=600)
def read_archive(ctx: Context, *, user_id: int, import_id: int) -> dict[str, Any]:
    """Read an uploaded archive, which becomes an import."""
    return ctx.services.archives.read_file(user_id, import_id)


@register_task(Task.PULL_IMPORT, timeout=LONGEST)
async def pull(ctx: Context, *, user_id: int, import_id: int) -> dict[str, Any]:
    """Read another reader's server page by page, which becomes an import."""
    return await ctx.services.pulled_imports.run(user_id, import_id, ctx.job.token, ctx.fetcher)


@register_task(Task.LIST, timeout=120)
async def check_list(ctx: Context, *, user_id: int, list_id: int) -> dict[str, Any]:
    """Check an OPML file on the web that a user follows."""
    return await ctx.services.followed_lists.run(user_id, list_id, ctx.fetcher)


@register_task(Task.IMPORT, timeout=LONGEST)
async def run(ctx: Context, *, user_id: int, import_id: int) -> dict[str, Any]:
    """Work on an import until it has ended."""
    if ctx.job.queue == Queue.SUSPECTS:
        # Suspects run alone, so an import would wait for fetches behind it in the queue. It ends; the updater
        # finds it without a worker and queues it again.
        return {"state": "left"}
    async with AsyncResultReader.from_settings(ctx.settings) as results:
        return await ctx.services.import_runner.run(user_id, import_id, ctx.job.token, results)
