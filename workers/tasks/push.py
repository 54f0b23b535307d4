"""Tasks that tell people on their devices: thin doors to their service."""

from __future__ import annotations

import asyncio

from app.models.discussion.comments import NoteKind
from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import task


@task(Task.PUSH_RING)
async def ring(ctx: Context, *, user_id: int, kind: str, subject: int, at: int) -> dict[str, int]:
    """Queue a message to each device of somebody."""
    count = await asyncio.to_thread(ctx.services.push.begin, user_id, NoteKind(kind), subject, at)
    return {"queued": count}


@task(Task.PUSH_SEND)
async def send(ctx: Context, *, id: int, kind: str, subject: int, at: int) -> dict[str, object]:
    """Send one message to one device."""
    failures = ctx.job.failures
    return dict(await ctx.services.push.send(id, kind, subject, at, ctx.fetcher, failures=failures))
