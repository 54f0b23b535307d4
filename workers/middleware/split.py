"""Splits a batch that crashed its worker, so that only the part at fault is given up in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from app.models.jobs.jobs import Job, Queue, Task
from workers.context import Context
from workers.job import ClaimedJob
from workers.registry import find_task


async def split(job: ClaimedJob, ctx: Context, call: Callable[[ClaimedJob, Context], Awaitable[Any]]) -> Any:
    """Queue one suspect per part instead of running a batch that crashed; return their ids."""
    spec = find_task(job.task)
    parts = job.args.get(spec.split) if spec and spec.split else None
    if not (spec and job.crashes and isinstance(parts, list) and len(parts) > 1):
        return await call(job, ctx)
    jobs = [Job(Task(job.task), {**job.args, str(spec.split): [part]}, Queue.SUSPECTS) for part in parts]
    # In front of whole batches, since the parts have waited already. They inherit the dead attempts' claims.
    tickets = await asyncio.to_thread(ctx.jobs.enqueue_many, jobs, front=True, parents=ctx.parents)
    return {"split": [ticket.id for ticket in tickets]}
