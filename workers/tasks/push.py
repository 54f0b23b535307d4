"""Tasks of push notifications; their service does the work."""

from __future__ import annotations

import asyncio

from app.models.discussion.comments import NotificationKind
from app.models.jobs.jobs import Task
from workers.context import Context
from workers.registry import register_task


@register_task(Task.PUSH_RING)
async def queue_pushes(ctx: Context, *, user_id: int, kind: str, subject: int, at: int) -> dict[str, int]:
    """Queue a message to each of a person's devices."""
    count = await asyncio.to_thread(
        ctx.services.push.enqueue_messages, user_id, NotificationKind(kind), subject, at
    )
    return {"queued": count}


@register_task(Task.PUSH_SEND)
async def send(ctx: Context, *, id: int, kind: str, subject: int, at: int) -> dict[str, object]:
    """Send one message to one device."""
    failures = ctx.job.failures
    return dict(await ctx.services.push.send_message(id, kind, subject, at, ctx.fetcher, failures=failures))
