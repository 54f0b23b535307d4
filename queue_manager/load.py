"""The load and switches of the queues, read from Redis."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

from app.models.jobs import redis_keys
from app.models.jobs.jobs import USER_QUEUES
from queue_manager.child import RunningJob
from queue_manager.groups import Group
from queue_manager.scale import Load


@dataclasses.dataclass(frozen=True, slots=True)
class QueueState:
    """A queue's current state.

    Attributes:
        length: Jobs that wait, or whose retry is due.
        oldest: The wait of its first job, seconds.
        planned: Jobs with a retry, due or not.
    """

    name: str
    length: int
    oldest: float
    paused: bool
    draining: bool
    planned: int = 0


class QueueLoads:
    """Reads the queues; each method raises the errors of the Redis client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        text = resources.files("app.adapters.redis").joinpath("load.lua").read_text()
        self._script = client.register_script(text)

    async def read_queues(self, queues: Iterable[str]) -> dict[str, QueueState]:
        """Return the states of these queues by name, in one round trip."""
        rows = await self._script(keys=[redis_keys.PAUSED, redis_keys.DRAINING], args=list(queues))
        found = [
            QueueState(name.decode(), int(length), float(oldest), bool(paused), bool(draining), int(planned))
            for name, length, oldest, paused, draining, planned in rows
        ]
        return {queue.name: queue for queue in found}

    async def count_managers(self) -> int:
        """Return the number of managers that share the work."""
        return max(1, int(await self._client.zcard(redis_keys.MANAGERS)))

    async def count_running(self) -> collections.Counter[str]:
        """Return for each queue the number of jobs that the system's workers hold."""
        workers = await self._client.hkeys(redis_keys.WORKERS)
        async with self._client.pipeline(transaction=False) as pipe:
            for worker in workers:
                pipe.lrange(redis_keys.make_inflight_key(worker.decode()), 0, -1)
            held = [job_id for ids in await pipe.execute() for job_id in ids]
        async with self._client.pipeline(transaction=False) as pipe:
            for job_id in held:
                pipe.hget(redis_keys.make_job_key(job_id.decode()), "origin")
            return collections.Counter(queue.decode() for queue in await pipe.execute() if queue)

    async def set_switches(
        self, queue: str, *, paused: bool | None = None, draining: bool | None = None
    ) -> None:
        """Set a queue's switches for the whole system; None leaves a switch unchanged."""
        async with self._client.pipeline(transaction=True) as pipe:
            for key, on in ((redis_keys.PAUSED, paused), (redis_keys.DRAINING, draining)):
                if on is not None:
                    (pipe.sadd if on else pipe.srem)(key, queue)
            # Idle workers look again.
            pipe.publish(redis_keys.WAKE, queue)
            await pipe.execute()


def compute_load(
    group: Group, queues: Mapping[str, QueueState], running: Iterable[RunningJob], managers: int
) -> Load:
    """Return the load of a group; all managers share the waiting jobs."""
    open_queues = [queues[q] for q in group.queues if q in queues and not queues[q].paused]
    system = sum(q.length for q in open_queues if q.name not in USER_QUEUES)
    of = [run.queue for run in running]
    return Load(
        waiting=math.ceil(sum(q.length for q in open_queues) / managers),
        waiting_system=math.ceil(system / managers),
        oldest=max((q.oldest for q in open_queues), default=0.0),
        busy=len(of),
        busy_system=sum(1 for queue in of if queue not in USER_QUEUES),
    )
