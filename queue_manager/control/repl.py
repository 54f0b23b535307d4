"""Runs the control socket of a manager, with the statistics that it shows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from redis.backoff import NoBackoff
from redis.retry import Retry

from app import logs
from app.config import Settings
from app.runtime import redis_connections as connections
from queue_manager.control.actions import Controls
from queue_manager.control.commands import Commands
from queue_manager.control.server import ControlServer
from queue_manager.statistics import Statistics, cancel_task

_log = logs.get(__name__)


@contextlib.asynccontextmanager
async def serve_operators(settings: Settings, controls: Controls) -> AsyncIterator[None]:
    """Serve operators while the block runs; no failure here stops the manager."""
    status = controls.get_status()
    hello = {name: status[name] for name in ("manager", "host", "pid", "since")}

    def measure_memory() -> int:
        return sum(round(worker["rss_mb"] * (1 << 20)) for worker in controls.get_status()["workers"])

    statistics = Statistics(settings, status["manager"], measure_memory)
    # Separate connections: operators must neither wait for the manager's work nor delay it.
    client = connections.connect_async(settings.redis_url, socket_timeout=5, retry=Retry(NoBackoff(), 0))
    server = ControlServer(settings, Commands(controls, statistics), hello, client)
    await server.start()
    counting = asyncio.create_task(statistics.count_forever())
    counting.add_done_callback(_on_end)
    try:
        yield
    finally:
        await cancel_task(counting)
        await server.close()
        await statistics.close()
        await client.aclose()


def _on_end(counting: asyncio.Task[None]) -> None:
    if not counting.cancelled() and (error := counting.exception()):
        _log.error("statistics_ended", error=type(error).__name__, where=str(error)[:200])
