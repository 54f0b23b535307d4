"""Runs Lua scripts, many calls in one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis
from redis.commands.core import Script

#: A script, keys and arguments of one call.
Call = tuple[Script, Sequence[str], Sequence[Any]]


def run_all(client: redis.Redis, calls: Sequence[Call]) -> list[Any]:
    """Call scripts that may be repeated; return their replies in order.

    redis-py asks before each pipeline whether its scripts are known, which doubles the round trips. Here
    they are taken for known; a Redis that was emptied gets them and all calls again.

    Raises:
        redis.RedisError: the first call's that failed; the others may have had their effect.
    """
    for _ in range(2):
        replies = _send(client, calls)
        if not any(isinstance(reply, redis.exceptions.NoScriptError) for reply in replies):
            break
        for script in {script for script, _, _ in calls}:
            client.script_load(script.script)
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


def _send(client: redis.Redis, calls: Sequence[Call]) -> list[Any]:
    with client.pipeline(transaction=False) as pipe:
        for script, names, args in calls:
            pipe.evalsha(script.sha, len(names), *names, *args)
        return pipe.execute(raise_on_error=False)
