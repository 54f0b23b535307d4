"""Awaited jobs of one process: on an end in the event stream, fetches the results and delivers them.

Nothing is missed: a job is registered first and looked up second, so its end is found by the lookup or
arrives over the stream. Silent jobs are looked up again, a few at a time: the stream drops old events,
Redis may be emptied, and a later run may replace a job.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from app import logs
from app.models.jobs import redis_keys
from app.runtime.redis_errors import OUTAGE, describe_outage
from controller.follower import Row
from controller.messages import Result

_log = logs.get(__name__)

#: Jobs looked up in one round trip.
_CHUNK = 200
#: Number of jobs to look up again, longest unseen first, and seconds between these lookups.
_AGAIN, _EVERY = 50, 0.5
#: Seconds before the same job is looked up again.
_REST = 1.0
_PAUSE = 0.5
#: RQ's Result.Type
_SUCCESSFUL, _FAILED = b"1", b"2"
_ENDS = {b"finished", b"failed"}
_TERMINAL = {b"finished", b"failed", b"stopped", b"canceled", None}

Sink = Callable[[Result], None]
TicketKey = tuple[str, int]


class _Look(NamedTuple):
    """One job to look up: the awaited runs, and whether it may be lost."""

    id: str
    runs: list[int]
    doubt: bool


class AwaitedResults:
    """The waiters of each job. Threads must not share it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        #: Job id → first stamp of the run → waiters; in the order of the last lookup.
        self._wanted: dict[str, dict[int, list[Sink]]] = {}
        self._looked: dict[str, float] = {}
        #: The jobs to look up next; True: also check whether the job can still end.
        self._ask: dict[str, bool] = {}
        self._asked = asyncio.Event()
        self._silent = asyncio.Event()  # there are jobs to look up again

    def __len__(self) -> int:
        return len(self._wanted)

    def request_results(self, tickets: Iterable[TicketKey], sink: Sink) -> None:
        """Call ``sink`` once per ticket when its job has ended; at once if it has ended already."""
        for job_id, since in tickets:
            sinks = self._wanted.setdefault(job_id, {}).setdefault(since, [])
            if sink not in sinks:
                sinks.append(sink)
            self._look_soon(job_id)

    def forget(self, tickets: Iterable[TicketKey], sink: Sink) -> None:
        """Withdraw requests for results."""
        for job_id, since in tickets:
            runs = self._wanted.get(job_id, {})
            if sink in runs.get(since, ()):
                runs[since].remove(sink)
                self._clean(job_id, since)

    def handle_events(self, rows: Iterable[Row]) -> None:
        """Handle the next entries of the event stream; they include small results."""
        for _, row in rows:
            if row.get(b"kind") not in _ENDS or (job_id := row[b"id"].decode()) not in self._wanted:
                continue
            if b"value" in row:
                stamp, value = int(row[b"stamp"]), row[b"value"].decode()
                for since in [since for since in self._wanted[job_id] if since <= stamp]:
                    self._hand_over(Result(job_id, since, value=value))
            else:
                self._ask.setdefault(job_id, False)
                self._asked.set()

    def recheck_all(self) -> None:
        """Look up all awaited jobs: events may have been missed."""
        for job_id in self._wanted:
            self._look_soon(job_id)

    async def run(self) -> None:
        """Look up jobs forever, whenever there is a reason to."""
        again = asyncio.create_task(self._look_again())
        try:
            while True:
                await self._asked.wait()
                if not await self._look(self._next()):
                    await asyncio.sleep(_PAUSE)
        finally:
            again.cancel()

    def _look_soon(self, job_id: str) -> None:
        self._ask[job_id] = True
        self._asked.set()

    async def _look_again(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            if not self._looked:
                self._silent.clear()
                await self._silent.wait()
            await asyncio.sleep(_EVERY)
            before = clock() - _REST
            for job_id in list(itertools.islice(self._looked, _AGAIN)):
                if self._looked[job_id] > before:
                    break
                self._look_soon(job_id)

    def _next(self) -> list[_Look]:
        chunk = list(itertools.islice(self._ask.items(), _CHUNK))
        for job_id, _ in chunk:
            # A job requested again during this lookup ended too late for it.
            del self._ask[job_id]
        if not self._ask:
            self._asked.clear()
        return [_Look(i, list(self._wanted[i]), doubt) for i, doubt in chunk if i in self._wanted]

    async def _look(self, looks: list[_Look]) -> bool:
        if not looks:
            return True
        try:
            replies = iter(await self._read(looks))
        except OUTAGE as e:
            _log.warning("redis_silent", while_="looking at jobs", error=describe_outage(e))
            for look in looks:
                self._look_soon(look.id)
            return False
        now = asyncio.get_running_loop().time()
        for look in looks:
            state = next(replies) if look.doubt else None
            entries = next(replies)
            for since in look.runs:
                result = find_result(look.id, since, entries) or (state and _lost(look.id, since, *state))
                if result:
                    self._hand_over(result)
            self._looked.pop(look.id, None)
            if look.id in self._wanted:
                self._looked[look.id] = now  # behind all others
                self._silent.set()
        return True

    async def _read(self, looks: list[_Look]) -> list[Any]:
        # The status before the result: both change in one step, so an ended job without a result lost it.
        async with self._client.pipeline(transaction=False) as pipe:
            for look in looks:
                if look.doubt:
                    pipe.hmget(redis_keys.make_job_key(look.id), "status", "since")
                pipe.xrange(redis_keys.make_results_key(look.id), min=f"{min(look.runs)}-0")
            rows: list[Any] = await pipe.execute()
        return rows

    def _hand_over(self, result: Result) -> None:
        sinks = self._wanted.get(result.id, {}).pop(result.since, [])
        self._clean(result.id, result.since)
        for sink in sinks:
            sink(result)

    def _clean(self, job_id: str, since: int) -> None:
        runs = self._wanted.get(job_id, {})
        if not runs.get(since):
            runs.pop(since, None)
        if not runs:
            self._wanted.pop(job_id, None)
            self._looked.pop(job_id, None)


def find_result(job_id: str, since: int, entries: Any) -> Result | None:
    """Return the first end of a run that a result stream contains from ``since`` on."""
    for at, row in entries:
        if int(at.partition(b"-")[0]) < since:
            continue
        if row[b"type"] == _SUCCESSFUL:
            return Result(job_id, since, value=row.get(b"return_value", b"").decode() or None)
        if row[b"type"] == _FAILED:
            error = row.get(b"error", b"failed").decode()
            return Result(job_id, since, error=error, message=row.get(b"message", b"").decode() or None)
    return None


def _lost(job_id: str, since: int, status: bytes | None, run: bytes | None) -> Result | None:
    """Return the error for a job that has ended, or runs again, without leaving a result."""
    if status in _TERMINAL or (run is not None and int(run) > since):
        return Result(
            job_id, since, error="lost", message="The result of this job was lost. Start the job again."
        )
    return None
