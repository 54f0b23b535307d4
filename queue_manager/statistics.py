"""Hourly statistics of job events in Redis, which cover all managers and survive their restarts.

All managers read the event stream as one consumer group: each event goes to one manager, which acknowledges
it and adds it to its hour in one step. Another manager takes over events that a dead manager read but didn't
count. So no event is counted twice, and only events that left the stream uncounted are missed.
"""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from app import clock, logs
from app.config import Settings
from app.errors import StoreError
from app.models.jobs import redis_keys
from app.models.operations import hourly_stats
from app.models.operations.hourly_stats import HOUR_MS, HOURS_KEPT, Counters
from app.runtime import redis_connections as connections

_log = logs.get(__name__)

#: Seconds between two reads while events arrive: fewer and larger reads cost a third of many small ones.
LOOK = 1.0
#: Longest wait of a read for the next event, milliseconds; the connection's time limit must be longer.
_BLOCK_MS = 3000
_PAGE = 1000
_PAUSE = 2.0
#: Events that were read this long ago but not counted are counted by the next manager that looks.
_ABANDONED_MS = 60_000
_KEEP_SECONDS = (HOURS_KEPT + 1) * HOUR_MS // 1000
_KEEP_MINUTES = (hourly_stats.MINUTES_KEPT + 1) * HOUR_MS // 1000
#: Results are base64 around JSON; a pull's counts are short.
_RESULT_MAX = 4096
_GROUP = "statistics"
_OUTAGE = (redis.RedisError, OSError)


class Statistics:
    """Adds events to their hours, and reads the hours.

    Args:
        settings: The settings.
        manager: The id of this manager, for its peak memory.
        memory: Returns the total resident memory of its workers, bytes.
    """

    def __init__(self, settings: Settings, manager: str, memory: Callable[[], int]) -> None:
        self._manager, self._memory = manager, memory
        self._client: Any = connections.connect_async(
            settings.redis_url, socket_timeout=5, retry=Retry(NoBackoff(), 0)
        )
        text = resources.files(__package__).joinpath("count.lua").read_text()
        self._script = self._client.register_script(text)
        self._peak = (0, 0)
        self._claimed_ms = 0

    async def count_forever(self) -> None:
        """Count forever; wait while Redis is down."""
        while True:
            try:
                await self._look()
            except redis.ResponseError as e:
                await self._begin(e)
            except _OUTAGE as e:
                _log.debug("redis_silent", while_="counting", error=type(e).__name__)
                await asyncio.sleep(_PAUSE)

    async def list_hours(self, limit: int) -> dict[str, Any]:
        """Return the hours with events among the last ``limit`` hours, newest first, and their sum.

        Returns:
            ``{"hours": [{"hour": ISO start, …}], "total": {…}}``; see
            :func:`app.models.operations.hourly_stats.summarise_hour`.

        Raises:
            StoreError: Redis doesn't answer.
        """
        newest = _now_ms() // HOUR_MS
        numbers = range(newest, newest - limit, -1)
        try:
            async with self._client.pipeline(transaction=False) as pipe:
                for number in numbers:
                    pipe.hgetall(redis_keys.make_hour_key(number))
                rows = await pipe.execute()
        except _OUTAGE as e:
            raise StoreError from e
        found = {
            number: {key.decode(): int(value) for key, value in row.items()}
            for number, row in zip(numbers, rows, strict=True)
            if row
        }
        return {
            "hours": [
                {"hour": _iso(number), **hourly_stats.summarise_hour(row)} for number, row in found.items()
            ],
            "total": hourly_stats.summarise_hour(hourly_stats.sum_hours(found.values())),
        }

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()

    async def _look(self) -> None:
        await self._note_memory()
        if _now_ms() - self._claimed_ms > _ABANDONED_MS:
            # Ids only: before version 7, Redis doesn't say which entries have left the stream.
            ids = await self._client.xautoclaim(
                redis_keys.EVENTS, _GROUP, _GROUP, _ABANDONED_MS, "0-0", count=_PAGE, justid=True
            )
            await self._add(await self._read(ids))
            self._claimed_ms = _now_ms()
        rows = parse_entries(
            await self._client.xreadgroup(
                _GROUP, _GROUP, {redis_keys.EVENTS: ">"}, count=_PAGE, block=_BLOCK_MS
            )
        )
        await self._add(rows)
        if 0 < len(rows) < _PAGE:
            await asyncio.sleep(LOOK)

    async def _read(self, ids: Sequence[bytes]) -> list[tuple[bytes, dict[bytes, bytes] | None]]:
        """Return these events; None for an event that has left the stream."""
        async with self._client.pipeline(transaction=False) as pipe:
            for stream_id in ids:
                pipe.xrange(redis_keys.EVENTS, min=stream_id, max=stream_id)
            replies = await pipe.execute()
        return [(i, reply[0][1] if reply else None) for i, reply in zip(ids, replies, strict=True)]

    async def _begin(self, error: redis.ResponseError) -> None:
        """Create the group if it is missing: at the first start, and after Redis was emptied."""
        try:
            if str(error).startswith("NOGROUP"):
                # Start at the oldest event: each belongs to the hour in which it happened.
                await self._client.xgroup_create(redis_keys.EVENTS, _GROUP, "0", mkstream=True)
                return
            _log.warning("statistics_refused", error=str(error)[:120])
        except redis.ResponseError as e:
            if str(e).startswith("BUSYGROUP"):
                return  # another manager was faster
            _log.warning("statistics_refused", error=str(e)[:120])
        except _OUTAGE as e:
            _log.debug("redis_silent", while_="counting", error=type(e).__name__)
        await asyncio.sleep(_PAUSE)

    async def _add(self, rows: Sequence[tuple[bytes, dict[bytes, bytes] | None]]) -> None:
        if not rows:
            return
        # None: the event left the stream before it was counted.
        known = {stream_id: row for stream_id, row in rows if row}
        results = await self._results(
            {i: row for i, row in known.items() if hourly_stats.is_pull_result(row)}
        )
        ids = [stream_id for stream_id, _ in rows]
        sums = json.dumps(_sums(known, results))
        mine = await self._script(
            keys=[redis_keys.EVENTS, redis_keys.TOTALS],
            args=[_GROUP, redis_keys.STATS, _KEEP_SECONDS, redis_keys.MINUTES, _KEEP_MINUTES, sums, *ids],
        )
        if mine:
            await self._add_part(_sums({i: known[i] for i in mine if i in known}, results))

    async def _add_part(self, sums: Sequence[tuple[int, Counters, Counters]]) -> None:
        async with self._client.pipeline(transaction=True) as pipe:
            for hour, counters, minutes in sums:
                for key, number in counters.items():
                    pipe.hincrby(redis_keys.make_hour_key(hour), key, number)
                    pipe.hincrby(redis_keys.TOTALS, key, number)
                for key, number in minutes.items():
                    pipe.hincrby(redis_keys.make_minutes_key(hour), key, number)
                pipe.expire(redis_keys.make_hour_key(hour), _KEEP_SECONDS)
                pipe.expire(redis_keys.make_minutes_key(hour), _KEEP_MINUTES)
            await pipe.execute()

    async def _results(self, rows: Mapping[bytes, dict[bytes, bytes]]) -> dict[bytes, dict[str, Any]]:
        """Return the results of pulls, by the event of their end."""
        values = {i: row[b"value"] for i, row in rows.items() if b"value" in row}
        # Results too long for their event. If the job has run again since, only its newest result is read.
        others = [i for i in rows if i not in values]
        if others:
            async with self._client.pipeline(transaction=False) as pipe:
                for i in others:
                    pipe.xrevrange(redis_keys.make_results_key(rows[i][b"id"].decode()), count=1)
                for i, reply in zip(others, await pipe.execute(), strict=True):
                    values[i] = reply[0][1].get(b"return_value", b"") if reply else b""
        return {i: result for i, value in values.items() if (result := _result(value)) is not None}

    async def _note_memory(self) -> None:
        hour, now = _now_ms() // HOUR_MS, self._memory()
        if (hour, now) > self._peak and now > 0:
            self._peak = (hour, now)
            async with self._client.pipeline(transaction=True) as pipe:
                pipe.hset(redis_keys.make_hour_key(hour), f"memory:{self._manager}", now)
                pipe.expire(redis_keys.make_hour_key(hour), _KEEP_SECONDS)
                await pipe.execute()


async def cancel_task(task: asyncio.Task[None]) -> None:
    """Cancel a task until it has ended.

    Once isn't enough: the driver waits with ``asyncio.wait_for``, which loses a cancellation that arrives in
    the same turn as the answer (fixed in Python 3.12).
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_PAUSE)


def _sums(
    rows: Mapping[bytes, dict[bytes, bytes]], results: Mapping[bytes, dict[str, Any]]
) -> list[tuple[int, Counters, Counters]]:
    """Return the sums of events for the hours that are kept, and for their minutes."""
    oldest = _now_ms() // HOUR_MS - HOURS_KEPT
    events = [
        (hourly_stats.parse_stream_ms(stream_id), row, results.get(stream_id))
        for stream_id, row in rows.items()
    ]
    minutes = hourly_stats.sum_by_minute(events)
    return [
        (hour, counters, minutes.get(hour, Counters()))
        for hour, counters in hourly_stats.sum_by_hour(events).items()
        if hour > oldest
    ]


def parse_entries(reply: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Return the entries of one stream from an answer to XREAD or XREADGROUP, in either protocol."""
    streams = reply.values() if isinstance(reply, dict) else [rows for _, rows in reply or ()]
    found: list[tuple[bytes, dict[bytes, bytes]]] = []
    for rows in streams:
        found += rows[0] if rows and isinstance(rows[0], list) else rows
    return found


def _result(text: bytes) -> dict[str, Any] | None:
    if len(text) > _RESULT_MAX:
        return None
    try:
        value = json.loads(base64.b64decode(text))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _now_ms() -> int:
    return int(clock.now().timestamp() * 1000)


def _iso(hour: int) -> str:
    return dt.datetime.fromtimestamp(hour * HOUR_MS / 1000, dt.UTC).isoformat().replace("+00:00", "Z")
