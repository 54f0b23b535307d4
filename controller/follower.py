"""Follows Redis streams: one connection and one blocking read for a whole process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from redis.backoff import NoBackoff
from redis.retry import Retry

from app import logs
from app.runtime import redis_connections as connections
from app.runtime.redis_errors import OUTAGE, describe_outage

_log = logs.get(__name__)

#: Longest wait of a read for the next entry, milliseconds, and seconds that the answer may be late.
_BLOCK_MS, _LATE = 4000, 2.0
_PAGE = 1000
_PAUSE = 0.5
#: Seconds. Events that happen together come in several entries; waiting for them halves the CPU time.
_GATHER = 0.001

Row = tuple[bytes, dict[bytes, bytes]]
Told = Callable[[str, list[Row]], None]


def connect(redis_url: str) -> Any:
    """Return a client for blocking reads, without retries: each retry would block again."""
    return connections.connect_async(
        redis_url, socket_timeout=_BLOCK_MS / 1000 + _LATE, retry=Retry(NoBackoff(), 0)
    )


class Follower:
    """Reads streams from their newest entries on, and resumes after an outage where it stopped.

    Args:
        client: A client from :func:`connect`.
        streams: The names of the streams.
        on_entries: Called with a stream and its next entries, in order.
        on_reconnect: Called when Redis answers again after an outage.
    """

    def __init__(
        self, client: Any, streams: tuple[str, ...], on_entries: Told, on_reconnect: Callable[[], None]
    ) -> None:
        self._client = client
        self._told = on_entries
        self._back = on_reconnect
        #: Stream → id of the last entry that was passed on.
        self.at: dict[str, str] = dict.fromkeys(streams, "0-0")
        self._placed = asyncio.Event()

    async def seek_newest(self) -> None:
        """Move to the newest entries; wait while Redis is down."""
        while True:
            try:
                for stream in self.at:
                    rows = await self._client.xrevrange(stream, count=1)
                    self.at[stream] = rows[0][0].decode() if rows else "0-0"
                self._placed.set()
                return
            except OUTAGE as e:
                _log.warning("redis_silent", while_="starting", error=describe_outage(e))
                await asyncio.sleep(_PAUSE)

    async def get_position(self, stream: str) -> str:
        """Return the position in a stream, as soon as it is known."""
        await self._placed.wait()
        return self.at[stream]

    async def run(self) -> None:
        """Read forever."""
        away = False
        while True:
            try:
                reply = await self._client.xread(dict(self.at), count=_PAGE, block=_BLOCK_MS)
            except OUTAGE as e:
                away = True
                _log.warning("redis_silent", while_="following", error=describe_outage(e))
                await asyncio.sleep(_PAUSE)
                continue
            if away:
                away = False
                self._back()
            for stream, rows in _streams(reply):
                self.at[stream] = rows[-1][0].decode()
                self._told(stream, rows)
            if reply:
                await asyncio.sleep(_GATHER)


def _streams(reply: Any) -> list[tuple[str, list[Row]]]:
    pairs = reply.items() if isinstance(reply, dict) else reply or ()
    return [(name.decode(), _rows(entries)) for name, entries in pairs]


def _rows(entries: Any) -> list[Row]:
    # Redis' newer protocol answers with one more level of lists.
    return entries[0] if entries and isinstance(entries[0], list) else entries
