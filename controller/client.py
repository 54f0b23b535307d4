"""Await the ends of jobs: blocking for the web tier, async for processes with a loop.

Redis itself holds the truth: a finish writes status and result in one step, so a waiter reads the
result streams from its ticket's stamp on and can neither come too late nor see an earlier run's result.
No hub is needed for it; see jobs.md, "Awaiting bulk results".
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.models import keys
from app.models.jobs import Outcome, Ticket

#: Longest wait of one XREAD, ms; after a silent one the states are looked at.
BLOCK_MS = 1000
#: With many keys each XREAD is dear, so results are let gather for so long, seconds.
_GATHER = 0.005
_MANY = 100
_RECONNECT = 0.2
_OUTAGE = (redis.ConnectionError, redis.TimeoutError)
#: RQ's Result.Type
_SUCCESSFUL, _FAILED = b"1", b"2"
_TERMINAL = {b"finished", b"failed", b"stopped", b"canceled", None}


def _options() -> dict[str, Any]:
    # Longer than the block, so a hung server is noticed; no silent retries, which would multiply a block.
    return {"socket_timeout": BLOCK_MS / 1000 + 5, "retry": Retry(NoBackoff(), 0)}


class ResultReader:
    """Blocking reader with connections of its own; safe to share between threads."""

    def __init__(self, redis_url: str) -> None:
        self._client = redis.Redis.from_url(redis_url, **_options())

    def await_many(self, tickets: Sequence[Ticket], timeout: float) -> Iterator[Outcome]:
        """Yield outcomes as they come, at most ``timeout`` seconds; what is late is left out.

        Survives an outage of Redis that is shorter than the timeout.
        """
        pending = Pending(tickets)
        deadline = time.monotonic() + timeout
        while pending and (left := deadline - time.monotonic()) > 0:
            try:
                yield from self._round(pending, left)
            except _OUTAGE:
                time.sleep(min(_RECONNECT, left))
        if pending:
            # What ended in the last moment counts; a timeout of 0 is a look without waiting.
            with contextlib.suppress(*_OUTAGE):
                yield from pending.take(self._client.xread(pending.streams()))

    def _round(self, pending: Pending, left: float) -> Iterator[Outcome]:
        block = max(1, min(BLOCK_MS, int(left * 1000)))
        reply = self._client.xread(pending.streams(), block=block)
        yield from pending.take(reply)
        if not reply:
            with self._client.pipeline(transaction=False) as pipe:
                for key in pending.jobs():
                    pipe.hmget(key, "status", "since")
                yield from pending.lost(pipe.execute())
        elif len(pending) > _MANY:
            time.sleep(min(_GATHER, left))

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


async def await_many(redis_url: str, tickets: Sequence[Ticket], timeout: float) -> AsyncIterator[Outcome]:
    """The same for processes with an event loop, on a connection of its own."""
    pending = Pending(tickets)
    deadline = time.monotonic() + timeout
    async with redis.asyncio.Redis.from_url(redis_url, **_options()) as client:
        while pending and (left := deadline - time.monotonic()) > 0:
            try:
                for outcome in await _async_round(client, pending, left):
                    yield outcome
            except _OUTAGE:
                await asyncio.sleep(min(_RECONNECT, left))


async def _async_round(client: Any, pending: Pending, left: float) -> list[Outcome]:
    reply = await client.xread(pending.streams(), block=max(1, min(BLOCK_MS, int(left * 1000))))
    if reply:
        if len(pending) > _MANY:
            await asyncio.sleep(min(_GATHER, left))
        return list(pending.take(reply))
    async with client.pipeline(transaction=False) as pipe:
        for key in pending.jobs():
            pipe.hmget(key, "status", "since")
        return list(pending.lost(await pipe.execute()))


class Pending:
    """The jobs that have not answered yet; knows the keys and the format, does no I/O."""

    def __init__(self, tickets: Sequence[Ticket]) -> None:
        self._since = {ticket.id: ticket.since_ms for ticket in tickets}
        self._doubted: set[str] = set()

    def __len__(self) -> int:
        return len(self._since)

    def streams(self) -> dict[Any, Any]:
        """Stream key → the last possible id before this run's result."""
        return {keys.results(i): f"{ms - 1}-18446744073709551615" for i, ms in self._since.items()}

    def jobs(self) -> list[str]:
        """Keys of the job hashes, in a fixed order."""
        return [keys.job(i) for i in self._since]

    def take(self, reply: Any) -> Iterator[Outcome]:
        """Read an XREAD reply."""
        for key, entries in reply.items() if isinstance(reply, dict) else reply or ():
            job_id = key.decode().removeprefix(keys.RESULTS)
            for _, row in _entries(entries):
                if job_id in self._since and row[b"type"] in (_SUCCESSFUL, _FAILED):
                    del self._since[job_id]
                    yield _outcome(job_id, row)

    def lost(self, rows: Iterable[Any]) -> Iterator[Outcome]:
        """Read (status, since) per job: ended, or of a later run, and yet without a result: lost.

        A job must look lost twice, with a read of the results in between: it may end while we look.
        """
        doubted = set()
        for (job_id, since), (status, run) in zip(list(self._since.items()), rows, strict=True):
            if status in _TERMINAL or (run is not None and int(run) > since):
                doubted.add(job_id)
        for job_id in doubted & self._doubted:
            del self._since[job_id]
            yield Outcome(job_id, error="lost", message="The result of this job is gone. Start it again.")
        self._doubted = doubted


def _entries(entries: Any) -> list[Any]:
    # The newer protocol of Redis answers with one more level of lists.
    return entries[0] if entries and isinstance(entries[0], list) else entries


def _outcome(job_id: str, row: dict[bytes, bytes]) -> Outcome:
    if row[b"type"] == _SUCCESSFUL:
        value = row.get(b"return_value")
        return Outcome(job_id, value=json.loads(base64.b64decode(value)) if value else None)
    error = row.get(b"error", b"failed").decode()
    return Outcome(job_id, error=error, message=row.get(b"message", b"").decode() or None)
