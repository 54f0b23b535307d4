"""Queues, workers, jobs and dead tasks, for administrators; every change is logged (W20)."""

from __future__ import annotations

import re

from app import clock, logs
from app.errors import InvalidError, NotFoundError
from app.models.accounts.actor import Actor, Permission
from app.models.jobs.job_engine import DeadKind, DeadPage, Engine, JobRecord
from app.models.jobs.jobs import Queue
from app.models.operations import throughput
from app.models.operations.hourly_stats import HOUR_MS, HOURS_KEPT
from app.models.operations.throughput import Hour, Throughput
from app.ports import EnginePort
from app.services.access import require_permission

log = logs.get(__name__)

#: Minutes of a chart, and dead tasks per page.
MINUTES, PAGE = 60, 50
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class OperationsService:
    """Shows and controls the job engine: queues, workers, throughput, running and dead tasks.

    All methods raise: ForbiddenError: the actor isn't an admin. StoreError: Redis does not answer.
    """

    def __init__(self, engine: EnginePort) -> None:
        self._engine = engine

    def get_engine(self, actor: Actor) -> Engine:
        """Return the current state of the job engine."""
        require_permission(actor, Permission.ADMIN_SEE)
        return self._engine.load_engine()

    def get_throughput(self, actor: Actor) -> Throughput:
        """Return the throughput of the last hour per minute."""
        require_permission(actor, Permission.ADMIN_SEE)
        now = clock.now()
        hour = int(now.timestamp() * 1000) // HOUR_MS
        found = self._engine.load_minutes([hour - 1, hour])
        return Throughput(
            throughput.list_last_minutes(found, now, MINUTES), throughput.compute_pace(found, now)
        )

    def list_hours(self, actor: Actor) -> tuple[Hour, ...]:
        """Return the last 48 hours in which anything was counted, newest first."""
        require_permission(actor, Permission.ADMIN_SEE)
        newest = int(clock.now().timestamp() * 1000) // HOUR_MS
        return throughput.list_hours(self._engine.load_hours(range(newest - HOURS_KEPT + 1, newest + 1)))

    def list_running(self, actor: Actor) -> list[JobRecord]:
        """Return the jobs that workers are running."""
        require_permission(actor, Permission.ADMIN_SEE)
        return self._engine.list_running()

    def list_dead(self, actor: Actor, kind: DeadKind | None = None, cursor: str = "") -> DeadPage:
        """Return a page of dead tasks, newest first, of one kind or (None) of all."""
        require_permission(actor, Permission.ADMIN_SEE)
        return self._engine.list_dead(kind, cursor or None, PAGE)

    def count_dead_kinds(self, actor: Actor) -> list[DeadKind]:
        """Return the kinds of dead tasks with their counts, most frequent first."""
        require_permission(actor, Permission.ADMIN_SEE)
        return self._engine.list_dead_kinds()

    def get_job(self, actor: Actor, job_id: str) -> JobRecord:
        """Return the record of a job.

        Raises:
            NotFoundError: the job's record has expired, or there never was such a job.
        """
        require_permission(actor, Permission.ADMIN_SEE)
        found = self._engine.find_job(job_id) if _ID.fullmatch(job_id) else None
        if found is None:
            raise NotFoundError("This job doesn't exist anymore.")
        return found

    def pause(self, actor: Actor, queue: str) -> None:
        """Stop workers from dequeuing jobs of a queue.

        Raises, like :meth:`drain` and :meth:`resume`: InvalidError: there is no such queue.
        """
        self._switch(actor, queue, "queue_paused", paused=True)

    def drain(self, actor: Actor, queue: str) -> None:
        """Refuse new jobs in a queue, and run those that wait."""
        self._switch(actor, queue, "queue_drained", draining=True)

    def resume(self, actor: Actor, queue: str) -> None:
        """End the pause and drain of a queue."""
        self._switch(actor, queue, "queue_resumed", paused=False, draining=False)

    def _switch(
        self,
        actor: Actor,
        queue: str,
        event: str,
        *,
        paused: bool | None = None,
        draining: bool | None = None,
    ) -> None:
        require_permission(actor, Permission.JOB_MANAGE)
        if queue not in set(Queue):
            raise InvalidError("This queue doesn't exist.", field="queue")
        self._engine.set_switches(Queue(queue), paused=paused, draining=draining)
        log.info(event, queue=queue, by=actor.user_id)

    def retry_dead(self, actor: Actor, target: str | DeadKind) -> int:
        """Queue a dead task again, or all of a kind; return how many there were."""
        require_permission(actor, Permission.JOB_MANAGE)
        count = self._engine.retry_dead(target)
        log.info("dead_retried", count=count, by=actor.user_id, **_named(target))
        return count

    def drop_dead(self, actor: Actor, target: str | DeadKind) -> int:
        """Delete a dead task, or all of a kind; return how many there were."""
        require_permission(actor, Permission.JOB_MANAGE)
        count = self._engine.remove_dead(target)
        log.info("dead_dropped", count=count, by=actor.user_id, **_named(target))
        return count


def _named(of: str | DeadKind) -> dict[str, str]:
    return {"job_id": of} if isinstance(of, str) else {"task": of.task, "error": of.error}
