"""Runs a Lua script many times in one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis
from redis.commands.core import Script

#: Keys and arguments of one call of a script.
Call = tuple[Sequence[str], Sequence[Any]]


def run_all(client: redis.Redis, script: Script, calls: Sequence[Call]) -> list[Any]:
    """Call a script that may be repeated; return its replies in order.

    redis-py asks before each pipeline whether its scripts are known, which doubles the round trips. Here
    they are taken for known; a Redis that was emptied gets them and all calls again.

    Raises:
        redis.RedisError: the first call's that failed; the others may have had their effect.
    """
    for _ in range(2):
        replies = _send(client, script.sha, calls)
        if not any(isinstance(reply, redis.exceptions.NoScriptError) for reply in replies):
            break
        client.script_load(script.script)
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


def _send(client: redis.Redis, sha: str, calls: Sequence[Call]) -> list[Any]:
    with client.pipeline(transaction=False) as pipe:
        for names, args in calls:
            pipe.evalsha(sha, len(names), *names, *args)
        return pipe.execute(raise_on_error=False)
