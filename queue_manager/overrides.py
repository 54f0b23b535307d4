"""Live settings: changes in Redis that override the file, for all managers.

Every manager reads them each second; the channel only speeds this up. They survive restarts of managers.
When Redis is emptied, they are gone and the file applies again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from app import logs
from app.errors import InvalidError
from app.models.jobs import redis_keys
from app.models.jobs.jobs import Queue
from app.runtime.redis_errors import OUTAGE
from queue_manager import groups
from queue_manager.groups import OF_GROUPS, OF_QUEUES, QueueSettings

_log = logs.get(__name__)
_PAUSE = 0.5

#: Name of a group or queue → key → value as text.
Changes = Mapping[str, Mapping[str, str]]


class Overrides:
    """Reads and writes live settings; each method raises the errors of the Redis client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def read(self, table: QueueSettings) -> Changes:
        """Return all changes to what this manager serves."""
        names = sorted({*(group.name for group in table.groups), *map(str, Queue)})
        async with self._client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hgetall(redis_keys.make_live_settings_key(name))
            rows = await pipe.execute()
        return {
            name: {key.decode(): value.decode("utf-8", "replace") for key, value in row.items()}
            for name, row in zip(names, rows, strict=True)
            if row
        }

    async def write(self, name: str, key: str, value: str | None) -> None:
        """Store a change and notify all managers; None removes the change."""
        async with self._client.pipeline(transaction=True) as pipe:
            if value is None:
                pipe.hdel(redis_keys.make_live_settings_key(name), key)
            else:
                pipe.hset(redis_keys.make_live_settings_key(name), key, value)
            pipe.publish(redis_keys.LIVE_CHANGED, name)
            await pipe.execute()

    async def follow_changes(self, on_change: Callable[[], None], on_arrival: Callable[[str], None]) -> None:
        """Call back forever: on changed settings, and with a queue's name when an idle queue gets jobs."""
        while True:
            try:
                async with self._client.pubsub(ignore_subscribe_messages=True) as hints:
                    await hints.subscribe(redis_keys.LIVE_CHANGED, redis_keys.WAKE)
                    async for hint in hints.listen():
                        if hint["channel"].decode() == redis_keys.WAKE:
                            on_arrival(hint["data"].decode())
                        else:
                            on_change()
            except OUTAGE:
                await asyncio.sleep(_PAUSE)


def find_target(table: QueueSettings, name: str, key: str) -> str:
    """Return the group or queue that a change applies to: a queue stands for the group that serves it.

    Raises:
        InvalidError: The name or key doesn't exist; the error lists the existing ones.
    """
    queues = list(map(str, Queue))
    if key in OF_QUEUES:
        if name in queues:
            return name
        raise InvalidError(f"{key} is a queue setting. The queues are {', '.join(queues)}.", setting=key)
    if key not in OF_GROUPS:
        text = f"Group settings: {', '.join(OF_GROUPS)}. Queue settings: {', '.join(OF_QUEUES)}."
        raise InvalidError(f"{key} isn't a setting. {text}", setting=key)
    group = table.find_group(name) or table.find_serving_group(name)
    if group is None:
        names = ", ".join(group.name for group in table.groups)
        raise InvalidError(
            (f"This manager doesn't serve a group or queue named {name}. Its groups are {names}."), group=name
        )
    return group.name


def check(table: QueueSettings, name: str, key: str, value: str) -> None:
    """Check a change against the settings in force; ``name`` is the result of :func:`find_target`.

    Raises:
        InvalidError: The change isn't valid; the error describes valid values.
    """
    changed, before = groups.change_setting(table, name, key, value).find_group(name), table.find_group(name)
    if changed is None or before is None or changed.min_workers <= changed.max_workers:
        return
    bound = f"least {before.min_workers}" if key == "max_workers" else f"most {before.max_workers}"
    raise InvalidError(f"{name}.{key} must currently be at {bound}.", setting=key)


def apply(table: QueueSettings, changes: Changes) -> QueueSettings:
    """Return the file's table with the changes, without those that aren't valid (anymore)."""
    for name, row in changes.items():
        for key, value in row.items():
            try:
                table = groups.change_setting(table, find_target(table, name, key), key, value)
            except InvalidError as e:
                _log.warning("live_setting_ignored", name=name, key=key, error=e.message)
    return groups.clamp_minimums(table)
