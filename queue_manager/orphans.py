"""Finds jobs that no list holds after Redis has lost some of its keys, and queues them again.

Scripts change a job and its list in one step, so a bug can't create a stray job. But a key can be lost,
deleted by hand or lost by a failover to a lagging replica. A job with status ``started`` then blocks its
identity forever. One manager of the system looks every :data:`PERIOD` seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

from app.models.jobs import redis_keys

#: Seconds; the longest time that a stray job waits for the next look.
PERIOD = 30
_PAGE = 500
_ALIVE = {b"started", b"queued", b"scheduled"}


class OrphanedJobs:
    """Finds stray jobs and lists; each method raises the errors of the Redis client."""

    def __init__(self, client: Any, manager: str) -> None:
        self._client, self._manager = client, manager
        text = resources.files(__package__).joinpath("requeue_orphan.lua").read_text()
        self._script = client.register_script(text)

    async def claim_turn(self) -> bool:
        """Return whether it is this manager's turn to look: no manager has looked for a while."""
        return bool(await self._client.set(redis_keys.SWEPT, self._manager, nx=True, ex=PERIOD))

    async def release_turn(self) -> None:
        """Let another manager look at once, if it was this manager's turn."""
        if await self._client.get(redis_keys.SWEPT) == self._manager.encode():
            await self._client.delete(redis_keys.SWEPT)

    async def requeue_jobs(self) -> dict[str, str]:
        """Queue stray jobs again; return their old statuses by id."""
        found: dict[str, str] = {}
        cursor = 0
        waiting: dict[bytes, set[bytes]] = {}
        while True:
            cursor, names = await self._client.scan(
                cursor, match=redis_keys.JOB + "*", count=_PAGE, _type="hash"
            )
            doubtful = await self._doubtful(names, waiting)
            async with self._client.pipeline(transaction=False) as pipe:
                for job_id in doubtful:
                    args = [job_id, redis_keys.WAKE, redis_keys.EVENTS_KEPT]
                    await self._script(
                        keys=[redis_keys.make_job_key(job_id), redis_keys.EVENTS], args=args, client=pipe
                    )
                said = await pipe.execute()
            found |= {i: word.decode() for i, word in zip(doubtful, said, strict=True) if word is not None}
            if not cursor:
                return found

    async def find_workers(self) -> list[str]:
        """Return unregistered workers whose lists still hold jobs."""
        lists = {k.decode() async for k in self._client.scan_iter(redis_keys.INFLIGHT + "*", count=_PAGE)}
        # After the lists: a worker is registered before it can have a list.
        known = {worker.decode() for worker in await self._client.hkeys(redis_keys.WORKERS)}
        return sorted({name.removeprefix(redis_keys.INFLIGHT) for name in lists} - known)

    async def _doubtful(self, names: Sequence[bytes], waiting: dict[bytes, set[bytes]]) -> list[str]:
        """Return jobs that no list seems to hold. The script decides, since only it sees a consistent state.

        LPOS is slow in a long queue, so a queue's ids are read once per look, for the first of its jobs.
        """
        async with self._client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hmget(name, "status", "origin")
            rows = await pipe.execute()
        found = []
        for name, (status, origin) in zip(names, rows, strict=True):
            job_id = name.removeprefix(redis_keys.JOB.encode())
            if status not in _ALIVE or origin is None:
                continue
            if status == b"queued":
                if origin not in waiting:
                    ids = await self._client.lrange(redis_keys.make_queue_key(origin.decode()), 0, -1)
                    waiting[origin] = set(ids)
                if job_id in waiting[origin]:
                    continue
            found.append(job_id.decode())
        return found
