"""Job events as they happen, for one reader: read from Redis no faster than the reader reads."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Sequence
from typing import Any

import redis

from app.models.jobs import redis_keys
from app.models.operations import hourly_stats
from queue_manager.statistics import parse_entries

_PAGE = 100
_BLOCK_MS = 1000
_PAUSE = 1.0
_OUTAGE = (redis.RedisError, OSError)


async def find_newest_id(client: Any) -> str:
    """Return the stream id of the newest event; later events are new."""
    rows = await client.xrevrange(redis_keys.EVENTS, count=1)
    return rows[0][0].decode() if rows else "0-0"


async def follow_events(client: Any, after: str, filters: Sequence[str]) -> AsyncIterator[dict[str, str]]:
    """Yield events forever.

    Args:
        client: An async client of Redis.
        after: Stream id to start after.
        filters: Only events that have each of these as a value: kind, queue, task, worker, job id or error.

    Yields:
        ``at`` (ISO), ``kind``, ``id`` and further fields as texts. During an outage of Redis: one
        ``{"at", "kind": "redis_silent"}``.
    """
    wanted, at, silent = frozenset(filters), after, False
    while True:
        try:
            rows = parse_entries(await client.xread({redis_keys.EVENTS: at}, count=_PAGE, block=_BLOCK_MS))
        except _OUTAGE:
            if not silent:
                yield {"at": _iso(dt.datetime.now(dt.UTC)), "kind": "redis_silent"}
            silent = True
            await asyncio.sleep(_PAUSE)
            continue
        silent = False
        for stream_id, row in rows:
            at = stream_id.decode()
            fields = {k.decode("utf-8", "replace"): v.decode("utf-8", "replace") for k, v in row.items() if v}
            if wanted <= set(fields.values()):
                moment = dt.datetime.fromtimestamp(hourly_stats.parse_stream_ms(stream_id) / 1000, dt.UTC)
                yield {"at": _iso(moment), **fields}


def _iso(moment: dt.datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
