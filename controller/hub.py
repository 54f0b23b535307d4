"""The hub: reads the event stream once and passes events on to whoever subscribed. Keeps no truth.

A subscriber says which jobs it means and, when it comes back, after which stream id it wants to go on.
It misses nothing: the hub first notes it, then sends what lies between its id and the hub's own
position, then what comes. For jobs that have ended before, their state is sent at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

import redis
import redis.asyncio

from app import logs
from app.models import keys
from app.models.jobs import State
from controller.messages import Event, Refused, Subscribe, Subscribed, decode, encode, event

_log = logs.get(__name__)

#: Events that may wait for one subscriber; who reads more slowly is cut off and can resume.
BACKLOG = 1000
_BLOCK_MS = 1000
_PAGE = 1000
_PAUSE = 0.5
#: A client must say what it wants within so many seconds.
_HELLO = 10.0
_OUTAGE = (redis.ConnectionError, redis.TimeoutError)
_ENDS = {State.FINISHED, State.FAILED}


class Subscriber:
    """One client: what it wants, and what waits to be written to it."""

    def __init__(self, wanted: Subscribe) -> None:
        self._ids = None if wanted.ids is None else frozenset(wanted.ids)
        self.queue: asyncio.Queue[Event] = asyncio.Queue(BACKLOG)
        self.lagging = asyncio.Event()

    def wants(self, happened: Event) -> bool:
        """Whether this event is about its jobs."""
        return self._ids is None or happened.id in self._ids

    def offer(self, happened: Event) -> None:
        """Add an event, or note that the client is too slow."""
        try:
            self.queue.put_nowait(happened)
        except asyncio.QueueFull:
            self.lagging.set()


class Hub:
    """Reads events from Redis and serves subscribers on streams."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._client: Any = client
        self._subscribers: set[Subscriber] = set()
        self._at = "0-0"

    async def follow(self) -> None:
        """Read the event stream for ever; waits while Redis is away."""
        await self._until_positioned()
        while True:
            try:
                reply = await self._client.xread({keys.EVENTS: self._at}, count=_PAGE, block=_BLOCK_MS)
            except _OUTAGE:
                _log.warning("redis_silent", while_="following")
                await asyncio.sleep(_PAUSE)
                continue
            for happened in _events(reply):
                self._at = happened.at
                for subscriber in self._subscribers:
                    if subscriber.wants(happened):
                        subscriber.offer(happened)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it hangs up."""
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            try:
                async with asyncio.timeout(_HELLO):
                    wanted = decode(await reader.readuntil())
                if not isinstance(wanted, Subscribe):
                    raise ValueError("subscribe first")
                await self._serve(wanted, reader, writer)
            except (ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as e:
                await _send(writer, Refused(str(e) or "say what you want"))
            except _OUTAGE:
                await _send(writer, Refused("Redis does not answer"))

    async def _serve(
        self, wanted: Subscribe, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        subscriber = Subscriber(wanted)
        self._subscribers.add(subscriber)
        position = self._at
        hung_up = asyncio.create_task(reader.read(1))
        lagging = asyncio.create_task(subscriber.lagging.wait())
        try:
            await _send(writer, Subscribed(position))
            for happened in await self._earlier(wanted, position):
                await _send(writer, happened)
            while not (hung_up.done() or lagging.done()):
                await self._pass_on(subscriber, writer, hung_up, lagging)
            if lagging.done():
                await _send(writer, Refused("too slow; resume after the last event"))
        finally:
            self._subscribers.discard(subscriber)
            hung_up.cancel()
            lagging.cancel()

    async def _pass_on(
        self, subscriber: Subscriber, writer: asyncio.StreamWriter, *ends: asyncio.Task[Any]
    ) -> None:
        following = asyncio.create_task(subscriber.queue.get())
        await asyncio.wait({following, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            await _send(writer, following.result())
        else:
            following.cancel()

    async def _earlier(self, wanted: Subscribe, position: str) -> list[Event]:
        """What the client missed, and the ends of its jobs that are past already."""
        if wanted.since is not None:
            subscriber, after, found = Subscriber(wanted), wanted.since, list[Event]()
            while rows := await self._client.xrange(keys.EVENTS, f"({after}", position, count=_PAGE):
                found += [e for e in (event(at, row) for at, row in rows) if subscriber.wants(e)]
                after = rows[-1][0].decode()
            return found
        return [] if wanted.ids is None else await self._ended(wanted.ids)

    async def _ended(self, ids: Iterable[str]) -> list[Event]:
        order = list(ids)
        async with self._client.pipeline(transaction=False) as pipe:
            for job_id in order:
                pipe.hmget(keys.job(job_id), "status", "error")
            rows = await pipe.execute()
        texts = [[part.decode() if part else "" for part in row] for row in rows]
        return [
            Event("", status, job_id, {"error": error})
            for job_id, (status, error) in zip(order, texts, strict=True)
            if status in _ENDS
        ]

    async def _until_positioned(self) -> None:
        """Start at the newest event: who wants earlier ones says from where."""
        while True:
            try:
                rows = await self._client.xrevrange(keys.EVENTS, count=1)
            except _OUTAGE:
                _log.warning("redis_silent", while_="starting")
                await asyncio.sleep(_PAUSE)
            else:
                self._at = rows[0][0].decode() if rows else "0-0"
                return


def _events(reply: Any) -> list[Event]:
    streams = reply.values() if isinstance(reply, dict) else [entries for _, entries in reply or ()]
    found = []
    for entries in streams:
        rows = entries[0] if entries and isinstance(entries[0], list) else entries
        found += [event(at, row) for at, row in rows]
    return found


async def _send(writer: asyncio.StreamWriter, message: Event | Subscribed | Refused) -> None:
    writer.write(encode(message))
    await writer.drain()
