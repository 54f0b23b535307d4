"""Runs one attempt of a job: finds its task, creates its context, returns its outcome."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from app.config import Settings
from app.models.jobs.workers import QueueRules
from workers import outcome
from workers.context import Context, Resources
from workers.job import ClaimedJob
from workers.middleware import compose
from workers.middleware.timeout import compute_time_limit
from workers.outcome import AttemptOutcome, BadJobError, ProgressReport
from workers.registry import find_task

#: Seconds beyond a task's limit until the manager kills a worker whose task can't be canceled.
HARD_GRACE = 5.0


class Runner:
    """Runs attempts.

    Args:
        settings: The settings of the process.
        rules: The rules of the queues; a queue without rules follows the settings.
        resources: The shared resources of the process.
        sink: Receives progress reports; called from any thread.
        inline: Run plain functions in the calling thread (solo mode) instead of their own.
    """

    def __init__(
        self,
        settings: Settings,
        rules: Mapping[str, QueueRules],
        resources: Resources,
        sink: Callable[[ProgressReport], None],
        *,
        inline: bool,
    ) -> None:
        self._settings, self._resources, self._sink, self._inline = settings, resources, sink, inline
        self._call = compose(self._body)
        self.set_rules(rules)

    def set_rules(self, rules: Mapping[str, QueueRules]) -> None:
        """Apply these rules to attempts that start from now on, and to all outcomes."""
        self._rules = rules
        self._of = {queue: apply_rules(self._settings, rule) for queue, rule in rules.items()}

    async def run(self, job: ClaimedJob) -> Any:
        """Return the task's result; raises the task's errors."""
        settings = self._of.get(job.queue, self._settings)
        return await self._call(job, Context(job, settings, self._limit(job), self._resources, self._sink))

    def get_hard_limit(self, job: ClaimedJob) -> float:
        """Return the seconds after which the manager may kill the worker for this job."""
        return self._limit(job) + HARD_GRACE

    def _limit(self, job: ClaimedJob) -> float:
        return compute_time_limit(find_task(job.task), self._settings, self._rules.get(job.queue))

    def build_outcome(
        self, job: ClaimedJob, attempt: asyncio.Future[Any], *, stopping: bool
    ) -> AttemptOutcome:
        """Return the outcome of an ended task."""
        settings = self._of.get(job.queue, self._settings)
        if attempt.cancelled():
            # Canceled by this worker: back to the queue. Canceled otherwise: an error like any other.
            return (
                outcome.return_job(job)
                if stopping
                else outcome.fail_job(job, asyncio.CancelledError(), settings)
            )
        error = attempt.exception()
        if error is not None:
            return outcome.fail_job(job, error, settings)
        return outcome.finish_job(job, attempt.result(), settings)

    async def _body(self, job: ClaimedJob, ctx: Context) -> Any:
        spec = find_task(job.task)
        if job.problem or spec is None:
            raise BadJobError(*(job.problem or ("unknown_task", "This task doesn't exist.")))
        try:
            spec.signature.bind(ctx, **job.args)
        except TypeError as e:
            raise BadJobError("bad_arguments", "The arguments don't match this task.") from e
        if spec.is_async:
            return await spec.body(ctx, **job.args)
        if self._inline:
            return spec.body(ctx, **job.args)
        return await asyncio.to_thread(spec.body, ctx, **job.args)


def apply_rules(settings: Settings, rules: QueueRules) -> Settings:
    """Return the settings as changed by a queue's rules."""
    return dataclasses.replace(
        settings,
        job_retries=rules.retries,
        job_backoff=rules.backoff_first,
        job_backoff_factor=rules.backoff_factor,
        job_backoff_most=rules.backoff_most,
        job_backoff_jitter=rules.backoff_jitter,
        result_ttl=rules.result_ttl,
        failure_ttl=rules.failure_ttl,
    )
