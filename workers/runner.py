"""Runs one attempt of a job: finds its task, gives it a context, turns its end into an :class:`Ending`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from app.config import Settings
from workers import endings
from workers.context import Context, Resources
from workers.endings import BadJobError, Ending, Report
from workers.middleware import compose
from workers.middleware.timeout import limit_of
from workers.registry import find
from workers.taken import Taken

#: Beyond a task's own limit, until the manager ends a worker whose task cannot be cancelled, seconds.
HARD_GRACE = 5.0


class Runner:
    """Runs attempts.

    Args:
        sink: takes progress reports; called from any thread.
        inline: plain functions run in the calling thread (solo mode) instead of one of their own.
    """

    def __init__(
        self, settings: Settings, resources: Resources, sink: Callable[[Report], None], *, inline: bool
    ) -> None:
        self._settings, self._resources, self._sink, self._inline = settings, resources, sink, inline
        self._call = compose(self._body)

    async def run(self, job: Taken) -> Any:
        """Return what the task returns; raises what it raises."""
        return await self._call(job, Context(job, self._settings, self._resources, self._sink))

    def limit(self, job: Taken) -> float:
        """Seconds after which the manager may end the worker for this job."""
        return limit_of(find(job.task), self._settings) + HARD_GRACE

    def ending(self, job: Taken, attempt: asyncio.Future[Any], *, stopping: bool) -> Ending:
        """Read the end of a task that is done."""
        if attempt.cancelled():
            # Cancelled by us: back to the queue. By itself: a fault like any other.
            return (
                endings.returned(job)
                if stopping
                else endings.failed(job, asyncio.CancelledError(), self._settings)
            )
        error = attempt.exception()
        if error is not None:
            return endings.failed(job, error, self._settings)
        return endings.finished(job, attempt.result(), self._settings)

    async def _body(self, job: Taken, ctx: Context) -> Any:
        spec = find(job.task)
        if job.problem or spec is None:
            raise BadJobError(*(job.problem or ("unknown_task", "This task does not exist.")))
        try:
            inspect.signature(spec.body).bind(ctx, **job.args)
        except TypeError as e:
            raise BadJobError("bad_arguments", "The arguments do not fit this task.") from e
        if spec.is_async:
            return await spec.body(ctx, **job.args)
        if self._inline:
            return spec.body(ctx, **job.args)
        return await asyncio.to_thread(spec.body, ctx, **job.args)
