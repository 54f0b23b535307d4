"""The shared channel for all waiters of a process: through the hub, or from Redis while there is no hub.

Both routes give the same: each ticket's end, once, even if the job ended before. After a change of route,
all pending tickets are requested again, so nothing is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from app import logs
from app.models.jobs import redis_keys
from app.runtime import sockets
from app.runtime.redis_errors import OUTAGE
from controller.cancel import cancel_tasks
from controller.follower import Follower, connect
from controller.messages import (
    BEAT_SECONDS,
    LINE_MAX,
    TICKETS_MAX,
    Await,
    Forget,
    Message,
    Refused,
    Result,
    decode,
    encode,
)
from controller.results import AwaitedResults, Sink, TicketKey

_log = logs.get(__name__)

#: Seconds between attempts to reach a missing hub.
_RETRY = 2.0
#: Seconds after which a silent hub counts as missing.
_HELLO = 2.0
#: Seconds to wait for the Redis route to close.
_GOODBYE = 1.0
_READ = 1 << 16


class Waiter(Protocol):
    """A waiter for tickets."""

    def deliver_result(self, result: Result) -> None:
        """Accept a result; called once for each ticket."""
        ...


class _Route(Protocol):
    def request_results(self, tickets: Iterable[TicketKey]) -> None: ...

    def forget(self, tickets: Iterable[TicketKey]) -> None: ...


class ResultChannel:
    """All tickets that a process awaits. Lives in one event loop; threads must not share it.

    Args:
        redis_url: The address of Redis.
        hub: The path of the hub's socket.
    """

    def __init__(self, redis_url: str, hub: Path) -> None:
        self._redis_url = redis_url
        self._hub = hub
        self._wanted: dict[TicketKey, list[Waiter]] = {}
        self._needed = asyncio.Event()
        self._way: _Route | None = None

    def add_waiter(self, tickets: Iterable[TicketKey], waiter: Waiter) -> None:
        """Deliver the results of these tickets to a waiter from now on."""
        fresh = []
        for ticket in tickets:
            waiters = self._wanted.setdefault(ticket, [])
            if not waiters:
                fresh.append(ticket)
            waiters.append(waiter)
        if self._way is not None:
            self._way.request_results(fresh)
        self._needed.set()

    def remove_waiter(self, tickets: Iterable[TicketKey], waiter: Waiter) -> None:
        """Stop delivering the results of these tickets to a waiter."""
        left = []
        for ticket in tickets:
            waiters = self._wanted.get(ticket, [])
            if waiter in waiters:
                waiters.remove(waiter)
                if not waiters:
                    del self._wanted[ticket]
                    left.append(ticket)
        if left and self._way is not None:
            self._way.forget(left)

    async def run(self) -> None:
        """Serve forever; idle until there is a waiter."""
        while True:
            await self._needed.wait()
            try:
                await self._by_hub()
            except (OSError, ValueError, TimeoutError) as e:
                _log.debug("no_hub", error=type(e).__name__)
            finally:
                self._way = None
            await self._by_redis()

    def _deliver(self, result: Result) -> None:
        for waiter in self._wanted.pop((result.id, result.since), ()):
            waiter.deliver_result(result)

    async def _by_hub(self) -> None:
        """Use the hub until it is gone or shows no sign of life."""
        with sockets.shorten_path(self._hub) as name:
            reader, writer = await asyncio.open_unix_connection(name, limit=LINE_MAX)
        with contextlib.closing(writer):
            self._way = way = _ByHub(writer)
            way.request_results(self._wanted)
            rest, patience = b"", _HELLO
            while True:
                async with asyncio.timeout(patience):
                    data = await reader.read(_READ)
                patience = BEAT_SECONDS * 3
                if not data:
                    raise ConnectionResetError("the hub has gone")
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(decode(line))

    def _take(self, message: Message) -> None:
        if isinstance(message, Result):
            self._deliver(message)
        elif isinstance(message, Refused):
            raise ValueError(message.reason)

    async def _by_redis(self) -> None:
        """Read from Redis until there is a hub again."""
        client = connect(self._redis_url)
        results = AwaitedResults(client)
        follower = Follower(
            client, (redis_keys.EVENTS,), lambda _, rows: results.handle_events(rows), results.recheck_all
        )
        tasks = [
            asyncio.create_task(results.run()),
            asyncio.create_task(self._follow(follower, results)),
        ]
        try:
            while True:
                await asyncio.wait(tasks, timeout=_RETRY, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done():
                        task.result()  # a bug
                if not self._wanted:
                    self._needed.clear()
                    return
                if await self._hub_answers():
                    return
        finally:
            self._way = None
            try:
                await cancel_tasks(tasks)
            finally:
                # The client may wait forever for a connection to close, which would block all results.
                with contextlib.suppress(TimeoutError, *OUTAGE):
                    async with asyncio.timeout(_GOODBYE):
                        await client.aclose()

    async def _follow(self, follower: Follower, results: AwaitedResults) -> None:
        # Register tickets before the position is known: repeated looks deliver results meanwhile.
        self._way = way = _ByRedis(results, self._deliver)
        way.request_results(self._wanted)
        await follower.seek_newest()
        results.recheck_all()  # finds jobs that ended before the position
        await follower.run()

    async def _hub_answers(self) -> bool:
        # Wait for a message: a hub that hangs accepts connections too.
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_HELLO):
                with sockets.shorten_path(self._hub) as name:
                    reader, writer = await asyncio.open_unix_connection(name)
                with contextlib.closing(writer):
                    writer.write(encode(Await()))
                    return bool(await reader.readline())
        return False


class _ByHub:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def request_results(self, tickets: Iterable[TicketKey]) -> None:
        rows = tuple(tickets)
        # At least one line, even if empty: the first line tells the hub the client's kind.
        for start in range(0, len(rows) or 1, TICKETS_MAX):
            self._writer.write(encode(Await(rows[start : start + TICKETS_MAX])))

    def forget(self, tickets: Iterable[TicketKey]) -> None:
        rows = tuple(tickets)
        for start in range(0, len(rows), TICKETS_MAX):
            self._writer.write(encode(Forget(rows[start : start + TICKETS_MAX])))


class _ByRedis:
    def __init__(self, results: AwaitedResults, deliver: Sink) -> None:
        self._results = results
        self._deliver = deliver

    def request_results(self, tickets: Iterable[TicketKey]) -> None:
        self._results.request_results(tickets, self._deliver)

    def forget(self, tickets: Iterable[TicketKey]) -> None:
        self._results.forget(tickets, self._deliver)
