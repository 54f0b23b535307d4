"""Ends an async task that exceeds its time limit.

A plain function can't be ended from within its process; the manager kills the worker instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from app.config import Settings
from app.models.jobs.workers import QueueRules
from workers.context import Context
from workers.job import ClaimedJob
from workers.outcome import JobTimeoutError
from workers.registry import TaskSpec, find_task


def compute_time_limit(spec: TaskSpec | None, settings: Settings, rules: QueueRules | None = None) -> float:
    """Return the seconds that a task may run: its own limit or the common one, within its queue's limit."""
    own = spec.timeout if spec else None
    most = rules.timeout if rules else None
    if most is None:
        return own or settings.job_timeout
    return min(own, most) if own else most


async def limit_time(
    job: ClaimedJob, ctx: Context, call: Callable[[ClaimedJob, Context], Awaitable[Any]]
) -> Any:
    """Cancel the task at its limit and raise :class:`JobTimeoutError`."""
    spec = find_task(job.task)
    if spec is None or not spec.is_async:
        return await call(job, ctx)
    try:
        async with asyncio.timeout(ctx.limit) as clock:
            return await call(job, ctx)
    except TimeoutError as e:
        # A TimeoutError of the task itself passes unchanged.
        if not clock.expired():
            raise
        raise JobTimeoutError from e
