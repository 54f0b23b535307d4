"""The hub: passes events of jobs to subscribers and waiters. It stores nothing permanently.

A subscriber names its jobs and, when it reconnects, the stream id to resume after. It misses nothing: the
hub first registers it, then sends the events between its id and the hub's position, then new ones. For jobs
that have already ended, the hub sends their state at once and omits older events, which would look like a
new run.

A client that awaits results names its tickets and gets each result once; see :mod:`controller.results`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from app.models.jobs import redis_keys
from app.models.jobs.jobs import State
from app.runtime.redis_errors import OUTAGE
from controller.audience import Place, parse_place
from controller.follower import Row
from controller.messages import (
    BEAT_SECONDS,
    Await,
    Beat,
    Event,
    Forget,
    Message,
    Refused,
    Result,
    Subscribe,
    Subscribed,
    decode,
    encode,
    parse_event,
)
from controller.results import AwaitedResults

#: Events that may wait for one subscriber; a slower reader is disconnected and can resume.
BACKLOG = 1000
#: Bytes that may wait for one process that awaits results.
UNREAD_MAX = 8 << 20
_PAGE = 1000
#: Seconds until a client must have sent its first message.
_HELLO = 10.0
_ENDS = {State.FINISHED, State.FAILED}


class Subscriber:
    """One client: its subscription, and the events waiting to be sent."""

    def __init__(self, request: Subscribe) -> None:
        self.ids = None if request.ids is None else frozenset(request.ids)
        self.queue: asyncio.Queue[Event] = asyncio.Queue(BACKLOG)
        self.lagging = asyncio.Event()
        #: Jobs whose end the client gets as a state, and the stream position of that state.
        self.ended: frozenset[str] = frozenset()
        self.ended_by: Place = (0, 0)

    def is_interested(self, happened: Event) -> bool:
        """Return whether this event is about one of the client's jobs."""
        return self.ids is None or happened.id in self.ids

    def has_seen(self, happened: Event) -> bool:
        """Return whether this event precedes a state that the client gets."""
        return happened.id in self.ended and parse_place(happened.at) <= self.ended_by

    def queue_event(self, happened: Event) -> None:
        """Add an event, or note that the client is too slow."""
        try:
            self.queue.put_nowait(happened)
        except asyncio.QueueFull:
            self.lagging.set()


class Subscribers:
    """All clients, indexed by job."""

    def __init__(self) -> None:
        self._all: set[Subscriber] = set()
        self._by_job: dict[str, set[Subscriber]] = {}

    def add(self, subscriber: Subscriber) -> None:
        """Add a client."""
        if subscriber.ids is None:
            self._all.add(subscriber)
        for job_id in subscriber.ids or ():
            self._by_job.setdefault(job_id, set()).add(subscriber)

    def remove(self, subscriber: Subscriber) -> None:
        """Remove a client."""
        self._all.discard(subscriber)
        for job_id in subscriber.ids or ():
            interested = self._by_job.get(job_id, set())
            interested.discard(subscriber)
            if not interested:
                self._by_job.pop(job_id, None)

    def notify(self, rows: Iterable[Row]) -> None:
        """Queue events for all interested clients."""
        for at, row in rows:
            interested = self._by_job.get(row.get(b"id", b"").decode(), ())
            if self._all or interested:
                happened = parse_event(at, row)
                for subscriber in (*self._all, *interested):
                    subscriber.queue_event(happened)


class Hub:
    """Serves subscribers and waiters; the reader of the stream passes events on to it."""

    def __init__(self, client: Any, position: Callable[[], Awaitable[str]]) -> None:
        self._client = client
        self._position = position
        self._subscribers = Subscribers()
        self.results = AwaitedResults(client)

    def handle_events(self, rows: list[Row]) -> None:
        """Pass on the next entries of the event stream."""
        self.results.handle_events(rows)
        self._subscribers.notify(rows)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it hangs up."""
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            try:
                async with asyncio.timeout(_HELLO):
                    wanted = decode(await reader.readuntil())
                if isinstance(wanted, Subscribe):
                    await self._serve(wanted, reader, writer)
                elif isinstance(wanted, Await):
                    await ResultSession(self.results, writer).serve(wanted, reader)
                else:
                    raise ValueError("subscribe or await first")
            except (ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as e:
                await _send(writer, Refused(str(e) or "the request wasn't understood"))
            except OUTAGE:
                await _send(writer, Refused("Redis isn't responding"))

    async def _serve(
        self, wanted: Subscribe, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        subscriber = Subscriber(wanted)
        # An event from before the hub knows its position would reach nobody. Don't await between these lines.
        position = await self._position()
        self._subscribers.add(subscriber)
        hung_up = asyncio.create_task(reader.read(1))
        lagging = asyncio.create_task(subscriber.lagging.wait())
        try:
            # Before the confirmation, so that all later actions of the client arrive as events, not as
            # states.
            earlier = await self._earlier(wanted.since, subscriber, position)
            await _send(writer, Subscribed(position))
            for happened in earlier:
                await _send(writer, happened)
            while not (hung_up.done() or lagging.done()):
                await self._pass_on(subscriber, writer, hung_up, lagging)
            if lagging.done():
                await _send(writer, Refused("the client is too slow; resume after the last event"))
        finally:
            self._subscribers.remove(subscriber)
            hung_up.cancel()
            lagging.cancel()

    async def _pass_on(
        self, subscriber: Subscriber, writer: asyncio.StreamWriter, *ends: asyncio.Task[Any]
    ) -> None:
        following = asyncio.create_task(subscriber.queue.get())
        await asyncio.wait({following, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if not following.done():
            following.cancel()
        elif not subscriber.has_seen(following.result()):
            await _send(writer, following.result())

    async def _earlier(self, since: str | None, subscriber: Subscriber, position: str) -> list[Event]:
        """Return the events that the client missed, or the states of its jobs that have already ended."""
        if since is None:
            return await self._ended(subscriber)
        after, found = since, list[Event]()
        while rows := await self._client.xrange(redis_keys.EVENTS, f"({after}", position, count=_PAGE):
            found += [e for e in (parse_event(at, row) for at, row in rows) if subscriber.is_interested(e)]
            after = rows[-1][0].decode()
        return found

    async def _ended(self, subscriber: Subscriber) -> list[Event]:
        if not (order := list(subscriber.ids or ())):
            return []
        # One transaction: all states belong to one stream position, which the hub may not have reached yet.
        async with self._client.pipeline() as pipe:
            for job_id in order:
                pipe.hmget(redis_keys.make_job_key(job_id), "status", "error")
            pipe.xrevrange(redis_keys.EVENTS, count=1)
            *rows, newest = await pipe.execute()
        texts = [[part.decode() if part else "" for part in row] for row in rows]
        ends = [
            Event("", status, job_id, {"error": error})
            for job_id, (status, error) in zip(order, texts, strict=True)
            if status in _ENDS
        ]
        subscriber.ended = frozenset(end.id for end in ends)
        subscriber.ended_by = parse_place(newest[0][0].decode()) if newest else (0, 0)
        return ends


class ResultSession:
    """One process that awaits results over one connection, for all its waiters."""

    def __init__(self, results: AwaitedResults, writer: asyncio.StreamWriter) -> None:
        self._results = results
        self._writer = writer
        self._out: list[bytes] = []
        self._tickets: set[tuple[str, int]] = set()

    async def serve(self, first: Await, reader: asyncio.StreamReader) -> None:
        """Accept tickets and send results until the client hangs up."""
        beating = asyncio.create_task(self._beat())
        message: Message = first
        try:
            while True:
                self._take(message)
                if not (line := await reader.readline()):
                    return
                message = decode(line)
        finally:
            beating.cancel()
            self._results.forget(self._tickets, self._deliver)

    def _take(self, message: Message) -> None:
        if isinstance(message, Await):
            self._tickets.update(message.tickets)
            self._results.request_results(message.tickets, self._deliver)
        elif isinstance(message, Forget):
            self._tickets.difference_update(message.tickets)
            self._results.forget(message.tickets, self._deliver)
        else:
            raise ValueError("await or forget")

    def _deliver(self, result: Result) -> None:
        self._tickets.discard((result.id, result.since))
        if not self._out:
            # Results come in bursts; write once per burst.
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(encode(result))

    def _flush(self) -> None:
        out, self._out = self._out, []
        transport = self._writer.transport
        if transport.get_write_buffer_size() > UNREAD_MAX:
            transport.abort()  # the client then reads from Redis itself
        elif not transport.is_closing():
            transport.write(b"".join(out))

    async def _beat(self) -> None:
        while True:
            self._out.append(encode(Beat()))
            self._flush()
            await asyncio.sleep(BEAT_SECONDS)


async def _send(writer: asyncio.StreamWriter, message: Message) -> None:
    writer.write(encode(message))
    await writer.drain()
