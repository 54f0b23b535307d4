"""Event streams of browsers: one server-sent event stream each, without a task or a thread per stream.

A stream gets its first event at once, then at most one message per second. Events in between are merged: a
later event replaces an earlier one of its kind. So the backlog stays small, however slowly a browser reads.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import math
import random
import socket
import time
from typing import Any

from app import logs
from app.config import Settings
from app.errors import AuthRequiredError, EventrError, InvalidError, RateLimitedError, StoreError
from app.models.jobs import redis_keys
from app.models.notifications.events import EventKind, EventPass
from app.runtime.http_head import HEAD_MAX
from app.runtime.redis_errors import OUTAGE, describe_outage
from controller import http_request
from controller.audience import (
    RECENT,
    Audience,
    Place,
    RecentEvents,
    compute_spread,
    parse_place,
    read_event,
    unpack_ids,
)
from controller.follower import Row

_log = logs.get(__name__)

#: Seconds between two messages of a stream.
PACE = 1.0
#: Seconds until a request must be complete.
HELLO = 10.0
#: Most events that may wait in one stream; beyond that, the browser must reload everything.
_WAITING_MAX = 50
#: Bytes that kernel and process buffer for a slow reader.
_BUFFER = 16 << 10
#: Time before browsers reconnect, milliseconds.
_RETRY_MS = (1000, 4000)
_TICK = 0.5
#: Browsers that are admitted concurrently.
_ASKING = 16


class Stream(asyncio.Protocol):
    """One connection: its request, then its events."""

    __slots__ = (
        "_after",
        "_browsers",
        "_head",
        "_last_at",
        "_later",
        "_transport",
        "_waiting",
        "address",
        "born",
        "ends",
        "sent",
        "since",
        "stalled",
        "user_id",
        "wrote",
    )

    def __init__(self, browsers: Browsers) -> None:
        self._browsers = browsers
        self._head: bytearray | None = bytearray()
        self._waiting: dict[str, tuple[str, Any]] = {}
        self._last_at = ""
        self._after: Place | None = None
        self._later: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self.user_id: int | None = None
        self.address = ""
        self.since: Place = (0, 0)
        self.stalled: float | None = None
        self.born = self.wrote = time.monotonic()
        self.ends = math.inf
        self.sent = 0.0

    # -- the request
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 — a stream socket has no other
        self._transport = transport
        transport.set_write_buffer_limits(high=_BUFFER)
        sock = transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            # With its default buffer, the kernel would hide a stalled reader behind megabytes of data.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        self._browsers.add_stream(self)

    def data_received(self, data: bytes) -> None:
        if self._head is None:
            return  # a browser that gets events has nothing more to send
        self._head += data
        head, end, _ = bytes(self._head).partition(b"\r\n\r\n")
        if end:
            self._head = None
            self._browsers.handle_request(self, head)
        elif len(self._head) > HEAD_MAX:
            self.refuse(InvalidError())

    def connection_lost(self, exc: Exception | None) -> None:
        if self._later is not None:
            self._later.cancel()
        self._browsers.remove_stream(self)

    def pause_writing(self) -> None:
        self.stalled = time.monotonic()

    def resume_writing(self) -> None:
        self.stalled = None
        self._send_soon()

    @property
    def peer(self) -> str:
        """Address of the other end."""
        name = self._transport.get_extra_info("peername") if self._transport else None
        return str(name[0]) if isinstance(name, tuple) else ""

    @property
    def is_pending(self) -> bool:
        """Whether the request isn't complete yet."""
        return self._head is not None

    # -- the events
    def open(self, after: Place) -> None:
        """Start the stream with the events after a position, which may be ahead of this controller's own."""
        self._after = after
        retry = random.randint(*_RETRY_MS)  # noqa: S311 — spreads browsers that reconnect after an outage
        self._write(http_request.OPENING + f"retry: {retry}\n\n".encode())

    def queue_event(self, at: str, kind: str, data: dict[str, Any]) -> None:
        """Send an event now, or merge it with the waiting events."""
        if kind == EventKind.RESET:
            self._after = None  # the browser reloads everything
        elif self._after is not None:
            if parse_place(at) <= self._after:
                return  # the page includes this event already
            self._after = None
        name = f"{kind} {data.get('id')}" if kind == EventKind.IMPORT else str(kind)
        if kind == EventKind.NEW and name in self._waiting:
            data = _merged(self._waiting[name][1], data)
        self._waiting[name] = (str(kind), data)
        if len(self._waiting) > _WAITING_MAX or EventKind.RESET in self._waiting:
            self._waiting = {str(EventKind.RESET): (str(EventKind.RESET), {"spread_ms": 0, **data})}
        self._last_at = at
        self._send_soon()

    def send_heartbeat(self, at: str) -> None:
        """Send a sign of life with the current position."""
        if not self._waiting:
            behind = self._after is not None and parse_place(at) < self._after
            self._write(http_request.format_event(EventKind.BEAT, {}, "" if behind else at))

    def refuse(self, error: EventrError) -> None:
        """Answer with an error and close."""
        self._head = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(http_request.build_refusal(error))
            self._transport.close()

    def close(self) -> None:
        """Close the stream; the browser reconnects."""
        if self._transport is not None:
            self._transport.close()

    def abort_now(self) -> None:
        """Close the stream at once, discarding waiting events."""
        if self._transport is not None:
            self._transport.abort()

    def _send_soon(self) -> None:
        if not self._waiting or self._later is not None or self.stalled is not None:
            return
        wait = self.sent + PACE - time.monotonic()
        if wait <= 0:
            self._send()
        else:
            self._later = asyncio.get_running_loop().call_later(wait, self._send)

    def _send(self) -> None:
        self._later = None
        if self.stalled is not None:
            return
        waiting, self._waiting = list(self._waiting.values()), {}
        # Only the last event gets the id: a browser that has it has all of them.
        last = len(waiting) - 1
        texts = [
            http_request.format_event(kind, data, self._last_at if n == last else "")
            for n, (kind, data) in enumerate(waiting)
        ]
        self._write(b"".join(texts))
        self.sent = self.wrote

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self.wrote = time.monotonic()
            self._transport.write(data)


def _merged(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    feeds: dict[str, int] = dict(earlier["feeds"])
    for feed_id, count in later["feeds"].items():
        feeds[feed_id] = feeds.get(feed_id, 0) + count
    return {"feeds": feeds, "spread_ms": max(earlier["spread_ms"], later["spread_ms"])}


class Browsers:
    """All streams of this controller."""

    def __init__(self, client: Any, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._people = Audience()
        self._recent = RecentEvents((0, 0))
        self._at = "0-0"
        self._streams: set[Stream] = set()
        self._present = asyncio.Event()  # there are streams
        self._addresses: collections.Counter[str] = collections.Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        #: Limits Redis connections when many browsers reconnect at once.
        self._asking = asyncio.Semaphore(_ASKING)

    def __len__(self) -> int:
        return len(self._people)

    async def load_recent(self, at: str) -> None:
        """Read the newest events up to a position, for browsers that reconnect; wait while Redis is down."""
        while True:
            try:
                rows = await self._client.xrevrange(redis_keys.PEOPLE, max=at, count=RECENT)
                seconds, _ = await self._client.time()
                break
            except OUTAGE as e:
                _log.warning("redis_silent", while_="loading events", error=describe_outage(e))
                await asyncio.sleep(_TICK)
        # The stream keeps younger events completely, so only older ones can be missing.
        floor = ((seconds - redis_keys.PEOPLE_SECONDS) * 1000, 0)
        if len(rows) == RECENT:
            floor = max(floor, parse_place(rows[-1][0].decode()))
        self._recent = RecentEvents(floor)
        for row in reversed(rows):
            self._recent.add(read_event(row))
        # An empty stream has no newest entry; a browser with an id is past its beginning.
        self._at = rows[0][0].decode() if rows else f"{seconds * 1000 - 1}-0"

    def handle_events(self, rows: list[Row]) -> None:
        """Pass on the next entries of the user event stream."""
        for row in rows:
            happened = read_event(row)
            self._at = happened.at
            self._recent.add(happened)
            if happened.kind:
                self._people.notify(happened)

    def resync_all(self) -> None:
        """Let all browsers reload and reconnect: events were lost while Redis was down."""
        listeners = list(self._people.list_listeners())
        pause = compute_spread(len(listeners))
        for listener in listeners:
            listener.queue_event(self._at, EventKind.RESET, {"spread_ms": pause})
        # A browser whose session or token ended meanwhile gets no new pass.
        for stream in self._streams:
            stream.ends = time.monotonic() + PACE + random.random() * pause / 1000  # noqa: S311 — spreading

    async def run(self) -> None:
        """Maintain the streams forever: heartbeats, slow readers, expired streams."""
        while True:
            if not self._streams:
                self._present.clear()
                await self._present.wait()
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            for stream in list(self._streams):
                self._tend(stream, now)

    def _tend(self, stream: Stream, now: float) -> None:
        s = self._settings
        if stream.stalled is not None:
            if now - stream.stalled > s.events_stall:
                _log.info("stream_dropped", reason="reads nothing", user_id=stream.user_id)
                stream.abort_now()
        elif stream.user_id is None:
            if now - stream.born > HELLO:
                stream.abort_now()
        elif now - stream.born > s.events_lifetime or now > stream.ends:
            stream.close()
        elif now - stream.wrote > s.events_beat - _TICK:
            stream.send_heartbeat(self._at)

    def close(self) -> None:
        """Close all streams."""
        for task in self._tasks:
            task.cancel()
        for stream in list(self._streams):
            stream.close()

    # -- called by streams
    def add_stream(self, stream: Stream) -> None:
        """Add a connection whose request is still to come."""
        self._streams.add(stream)
        self._present.set()

    def handle_request(self, stream: Stream, head: bytes) -> None:
        """Handle a request."""
        task = asyncio.get_running_loop().create_task(self._admit(stream, head))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def remove_stream(self, stream: Stream) -> None:
        """Remove a stream."""
        self._streams.discard(stream)
        if stream.address:
            self._addresses[stream.address] -= 1
            if not self._addresses[stream.address]:
                del self._addresses[stream.address]
        if stream.user_id is not None:
            self._people.remove_listener(stream, stream.user_id)

    async def _admit(self, stream: Stream, head: bytes) -> None:
        try:
            await self._join(stream, http_request.parse(head))
        except EventrError as e:
            _log.info("stream_refused", error=e.word)
            stream.refuse(e)

    async def _join(self, stream: Stream, wish: http_request.EventsRequest) -> None:
        s = self._settings
        found = EventPass.read(s.secret_key, wish.token, s.events_pass_ttl)
        address = http_request.find_client_address(stream.peer, wish.forwarded, s.trusted_proxies)
        try:
            async with self._asking:
                raw = await self._client.get(redis_keys.make_follows_key(found.user_id))
        except OUTAGE as e:
            raise StoreError from e
        # No await from here on, so no event is missed and the limits hold.
        if stream not in self._streams:
            return  # the browser hung up meanwhile
        if self._recent.has_ended(found.user_id, found.at):
            raise AuthRequiredError("This page has expired. Reload it and try again.")
        self._check_room(found.user_id, address)
        feeds = self._recent.replay_follows(found.user_id, unpack_ids(raw), found.at)
        stream.address, stream.user_id, stream.since = address, found.user_id, parse_place(found.at)
        self._addresses[address] += 1
        self._people.add_listener(stream, found.user_id, feeds)
        after = wish.after or parse_place(found.at)
        stream.open(after)
        missed = self._recent.find_missed(found.user_id, feeds, after)
        if missed is None:
            stream.queue_event(self._at, EventKind.RESET, {"spread_ms": compute_spread(len(self._people))})
        for at, kind, data in missed or ():
            stream.queue_event(at, kind, data)

    def _check_room(self, user_id: int, address: str) -> None:
        s = self._settings
        if len(self._streams) > s.events_streams:
            raise StoreError("This server has too many open pages. Try again in a minute.")
        if (
            self._people.count_streams(user_id) >= s.events_per_user
            or self._addresses[address] >= s.events_per_address
        ):
            raise RateLimitedError("You have too many pages open. Close some of them.")
