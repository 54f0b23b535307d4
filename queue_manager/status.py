"""What a manager says of itself in Redis, for administrators' screens, which may be on other machines."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.config import Settings
from app.models.jobs import redis_keys
from app.runtime.redis_errors import OUTAGE
from queue_manager.control.actions import Controls
from queue_manager.statistics import cancel_task

#: Time between two words, seconds: a chart that is drawn each five seconds shows nothing older than seven.
PERIOD = 2.0


@contextlib.asynccontextmanager
async def publish_status(settings: Settings, controls: Controls) -> AsyncIterator[None]:
    """Say it again and again for the time of a block."""
    # Its own connection, as that of operators: it must not wait for the manager's work, nor delay it.
    client = redis.asyncio.Redis.from_url(settings.redis_url, socket_timeout=5, retry=Retry(NoBackoff(), 0))
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
        # Its next word says it too; nobody needs to know that Redis is away from here.
        with contextlib.suppress(*OUTAGE):
            await client.set(
                redis_keys.make_manager_key(status["manager"]),
                json.dumps(status),
                ex=redis_keys.ALIVE_SECONDS,
            )
        await asyncio.sleep(PERIOD)
