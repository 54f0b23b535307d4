"""The dead set: jobs that failed permanently, with the history of their attempts, to be retried or dropped.

FINISH and RECOVER add jobs and keep the newest ``dead_max``; their records expire after the queue's
``failure_ttl``. Queuing the same job again removes it.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from app.models.jobs import dead_jobs, redis_keys
from app.models.jobs.jobs import Queue, Task

_PAGE = 500


class DeadJobs:
    """Reads and changes the dead set; each method raises the errors of the Redis client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._retry, self._drop = (
            client.register_script(resources.files("app.adapters.redis").joinpath(f"{name}.lua").read_text())
            for name in ("retry", "drop")
        )

    async def list_newest(self, limit: int) -> list[dict[str, Any]]:
        """Return dead jobs, newest first; see :meth:`queue_manager.control.actions.Controls.list_dead`."""
        found: list[dict[str, Any]] = []
        start = 0
        while len(found) < limit:
            page = await self._client.zrange(
                redis_keys.DEAD, start, start + _PAGE - 1, desc=True, withscores=True
            )
            if not page:
                break
            start += len(page)
            async with self._client.pipeline(transaction=False) as pipe:
                for job_id, _ in page:
                    pipe.hmget(redis_keys.make_job_key(job_id.decode()), dead_jobs.FIELDS)
                rows = await pipe.execute()
            tasks = [
                dead_jobs.parse_dead_job(job_id.decode(), ended, row)
                for (job_id, ended), row in zip(page, rows, strict=True)
            ]
            found += [task for task in tasks if task is not None]
        return found[:limit]

    async def retry_dead(self, job_id: str | None) -> int:
        """Queue one or all dead jobs again; return their number.

        The updater's batches are deleted instead: the updater queues their feeds itself while they are due.
        """
        return await self._each(
            self._retry, job_id, redis_keys.WAKE, str(Queue.MAINTENANCE), str(Task.PULL_SYSTEM)
        )

    async def remove_dead(self, job_id: str | None) -> int:
        """Delete one or all dead jobs; return their number."""
        return await self._each(self._drop, job_id)

    async def forget_expired(self) -> int:
        """Remove dead jobs whose records have expired; return their number."""
        # Check all of them: each queue keeps its failures for its own time.
        ids = await self._client.zrange(redis_keys.DEAD, 0, -1)
        return sum([await self._forget(ids[n : n + _PAGE]) for n in range(0, len(ids), _PAGE)])

    async def _forget(self, ids: list[bytes]) -> int:
        async with self._client.pipeline(transaction=False) as pipe:
            for job_id in ids:
                pipe.exists(redis_keys.make_job_key(job_id.decode()))
            gone = [i for i, there in zip(ids, await pipe.execute(), strict=True) if not there]
        return int(await self._client.zrem(redis_keys.DEAD, *gone)) if gone else 0

    async def _each(self, script: Any, job_id: str | None, *args: str) -> int:
        if job_id is not None:
            return int(await self._run(script, [job_id], *args))
        # A fixed list of ids: a job that fails again meanwhile must not be retried forever.
        ids = [i.decode() for i in await self._client.zrange(redis_keys.DEAD, 0, -1)]
        return sum([await self._run(script, ids[n : n + _PAGE], *args) for n in range(0, len(ids), _PAGE)])

    async def _run(self, script: Any, ids: list[str], *args: str) -> int:
        async with self._client.pipeline(transaction=False) as pipe:
            for job_id in ids:
                names = [
                    redis_keys.DEAD,
                    redis_keys.make_job_key(job_id),
                    redis_keys.make_results_key(job_id),
                ]
                await script(keys=names, args=[job_id, *args], client=pipe)
            return sum(await pipe.execute())
