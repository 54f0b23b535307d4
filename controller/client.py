"""Waiting for the ends of jobs: blocking for the web tier, async for processes with an event loop.

    for outcome in reader.await_many(tickets, timeout=5): ...

Outcomes arrive as jobs end, those of ended jobs at once; late ones are omitted. All waiters of a process
share one connection to the controller (:mod:`controller.result_channel`), since the cost of separate reads
grows with the square of the jobs. Without a controller, the channel reads from Redis itself.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import queue
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from redis.backoff import NoBackoff
from redis.retry import Retry

from app.config import Settings
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Outcome, Ticket
from app.runtime import redis_connections as connections
from app.runtime.redis_errors import OUTAGE
from controller import follower
from controller.cancel import cancel_tasks
from controller.messages import Result, get_socket_path
from controller.result_channel import ResultChannel
from controller.results import TicketKey, find_result

#: Maximum duration of the last look at the deadline, seconds.
_LOOK_SECONDS = 5.0
_LOOK_AT_ONCE = 500
#: Seconds; longer than a channel takes to close its connections.
_STOP_AGAIN = 2.0


class ResultReader:
    """A reader that threads can share. It connects and starts its thread at first use."""

    def __init__(self, redis_url: str, hub: Path) -> None:
        self._redis_url = redis_url
        self._hub = hub
        self._client = connections.connect(
            redis_url, socket_timeout=_LOOK_SECONDS, retry=Retry(NoBackoff(), 0)
        )
        self._lock = threading.Lock()
        self._thread: _LineThread | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return a reader for these settings."""
        return cls(settings.redis_url, get_socket_path(settings))

    def await_many(self, tickets: Sequence[Ticket], timeout: float) -> Iterator[Outcome]:
        """Yield outcomes as they arrive, for at most ``timeout`` seconds; late outcomes are omitted.

        A timeout of 0 looks once without waiting. Survives an outage of Redis that is shorter than the
        timeout.
        """
        pending = {(ticket.id, ticket.since_ms) for ticket in tickets}
        if timeout > 0 and pending:
            yield from self._wait(pending, time.monotonic() + timeout)
        if pending:
            # Include jobs that ended at the last moment.
            with contextlib.suppress(*OUTAGE):
                yield from self._look(pending)

    def _wait(self, pending: set[TicketKey], deadline: float) -> Iterator[Outcome]:
        line, box = self._line(), _Box()
        line.add_waiter(tuple(pending), box)
        try:
            while pending and (left := deadline - time.monotonic()) > 0:
                try:
                    result = box.queue.get(timeout=left)
                except queue.Empty:
                    return
                pending.discard((result.id, result.since))
                yield build_outcome(result)
        finally:
            if pending:
                line.remove_waiter(tuple(pending), box)

    def _look(self, pending: Iterable[TicketKey]) -> Iterator[Outcome]:
        order = list(pending)
        for start in range(0, len(order), _LOOK_AT_ONCE):
            chunk = order[start : start + _LOOK_AT_ONCE]
            with self._client.pipeline(transaction=False) as pipe:
                for job_id, since in chunk:
                    pipe.xrange(redis_keys.make_results_key(job_id), min=f"{since}-0")
                rows = pipe.execute()
            yield from _outcomes(chunk, rows)

    def _line(self) -> _LineThread:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = _LineThread(self._redis_url, self._hub)
            return self._thread

    def close(self) -> None:
        """Stop the thread and close all connections."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()
        self._client.close()


class _Box:
    """Where the channel's thread puts the results of one waiter."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[Result] = queue.SimpleQueue()

    def deliver_result(self, result: Result) -> None:
        self.queue.put(result)


class _LineThread:
    """A channel in its own event loop, for waiters in other threads."""

    def __init__(self, redis_url: str, hub: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._line = ResultChannel(redis_url, hub)
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="results", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def add_waiter(self, tickets: tuple[TicketKey, ...], box: _Box) -> None:
        self._loop.call_soon_threadsafe(self._line.add_waiter, tickets, box)

    def remove_waiter(self, tickets: tuple[TicketKey, ...], box: _Box) -> None:
        with contextlib.suppress(RuntimeError):  # closed meanwhile
            self._loop.call_soon_threadsafe(self._line.remove_waiter, tickets, box)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join()

    def _stop(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self._loop.call_later(_STOP_AGAIN, self._stop)  # see controller.cancel

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._task = self._loop.create_task(self._line.run())
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._task)
            # Tasks that the second cancellation left behind.
            self._loop.run_until_complete(cancel_tasks(asyncio.all_tasks(self._loop)))
            self._loop.run_until_complete(asyncio.sleep(0))  # lets closed transports finish
        finally:
            self._loop.close()


class AsyncResultReader:
    """The same for processes with an event loop.

    Use it as ``async with AsyncResultReader.from_settings(settings) as reader``.
    """

    def __init__(self, redis_url: str, hub: Path) -> None:
        self._line = ResultChannel(redis_url, hub)
        self._client = follower.connect(redis_url)
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return a reader for these settings."""
        return cls(settings.redis_url, get_socket_path(settings))

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._line.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if self._task is not None:
                await cancel_tasks([self._task])
        finally:
            await self._client.aclose()

    async def await_many(self, tickets: Sequence[Ticket], timeout: float) -> AsyncIterator[Outcome]:
        """Yield outcomes as they arrive, as :meth:`ResultReader.await_many` does."""
        pending = {(ticket.id, ticket.since_ms) for ticket in tickets}
        box = _AsyncBox()
        self._line.add_waiter(pending, box)
        try:
            deadline = asyncio.get_running_loop().time() + timeout
            while pending and (result := await _next(box, deadline)):
                pending.discard((result.id, result.since))
                yield build_outcome(result)
        finally:
            self._line.remove_waiter(pending, box)
        for late in await self._look(pending):
            yield late

    async def _look(self, pending: Iterable[TicketKey]) -> list[Outcome]:
        order = list(pending)
        try:
            async with self._client.pipeline(transaction=False) as pipe:
                for job_id, since in order:
                    pipe.xrange(redis_keys.make_results_key(job_id), min=f"{since}-0")
                return list(_outcomes(order, await pipe.execute()))
        except OUTAGE:
            return []


class _AsyncBox:
    def __init__(self) -> None:
        self.queue: asyncio.Queue[Result] = asyncio.Queue()

    def deliver_result(self, result: Result) -> None:
        self.queue.put_nowait(result)


async def _next(box: _AsyncBox, deadline: float) -> Result | None:
    try:
        async with asyncio.timeout_at(deadline):
            return await box.queue.get()
    except TimeoutError:
        return None


def build_outcome(result: Result) -> Outcome:
    """Return a result as waiters see it."""
    value = None if result.value is None else json.loads(base64.b64decode(result.value))
    return Outcome(result.id, value=value, error=result.error, message=result.message)


def _outcomes(order: Sequence[TicketKey], rows: Sequence[Any]) -> Iterator[Outcome]:
    for (job_id, since), entries in zip(order, rows, strict=True):
        if (result := find_result(job_id, since, entries)) is not None:
            yield build_outcome(result)
