"""Publishes a manager's status in Redis for the admin pages, which may be served by other machines."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from redis.backoff import NoBackoff
from redis.retry import Retry

from app.config import Settings
from app.models.jobs import redis_keys
from app.runtime import redis_connections as connections
from app.runtime.redis_errors import OUTAGE
from queue_manager.control.actions import Controls
from queue_manager.statistics import cancel_task

#: Seconds between reports: a chart that refreshes every five seconds shows data at most seven seconds old.
#: The second applies while no worker runs a job.
PERIOD, IDLE_PERIOD = 2.0, 5.0


@contextlib.asynccontextmanager
async def publish_status(settings: Settings, controls: Controls) -> AsyncIterator[None]:
    """Publish the status repeatedly while the block runs."""
    # A separate connection: reports must neither wait for the manager's work nor delay it.
    client = connections.connect_async(settings.redis_url, socket_timeout=5, retry=Retry(NoBackoff(), 0))
    telling = asyncio.create_task(_tell(client, controls))
    try:
        yield
    finally:
        await cancel_task(telling)
        with contextlib.suppress(*OUTAGE):
            await client.delete(redis_keys.make_manager_key(controls.get_status()["manager"]))
        await client.aclose()


async def _tell(client: Any, controls: Controls) -> None:
    while True:
        status = controls.get_status()
        # The next report will do; outages are logged elsewhere.
        with contextlib.suppress(*OUTAGE):
            await client.set(
                redis_keys.make_manager_key(status["manager"]),
                json.dumps(status),
                ex=redis_keys.ALIVE_SECONDS,
            )
        busy = any(worker["current"] for worker in status["workers"])
        await asyncio.sleep(PERIOD if busy else IDLE_PERIOD)
