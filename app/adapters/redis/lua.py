"""Lua scripts: run many calls in one round trip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import redis
from redis.commands.core import Script

#: The script, keys and arguments of one call.
Call = tuple[Script, Sequence[str], Sequence[Any]]


def run_all(client: redis.Redis, calls: Sequence[Call]) -> list[Any]:
    """Run scripts; return their replies in order.

    redis-py checks before each pipeline whether Redis has its scripts, which doubles the round trips. This
    function assumes that Redis has them. If some are missing, it loads them and repeats their calls, after
    the other calls.

    Raises:
        redis.RedisError: of the first failed call; the other calls may have taken effect.
    """
    replies = _send(client, calls)
    unknown = [n for n, reply in enumerate(replies) if isinstance(reply, redis.exceptions.NoScriptError)]
    if unknown:
        load_scripts(client, {calls[n][0] for n in unknown})
        for n, reply in zip(unknown, _send(client, [calls[n] for n in unknown]), strict=True):
            replies[n] = reply
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


def load_scripts(client: redis.Redis, scripts: Iterable[Script]) -> None:
    """Load scripts into Redis."""
    with client.pipeline(transaction=False) as pipe:
        for script in scripts:
            pipe.script_load(script.script)
        pipe.execute()


def _send(client: redis.Redis, calls: Sequence[Call]) -> list[Any]:
    with client.pipeline(transaction=False) as pipe:
        for script, names, args in calls:
            pipe.evalsha(script.sha, len(names), *names, *args)
        return pipe.execute(raise_on_error=False)
