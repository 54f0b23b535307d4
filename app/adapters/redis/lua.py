"""Lua scripts: run many calls in one round trip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import redis
from redis.commands.core import Script

#: The script, keys and arguments of one call.
Call = tuple[Script, Sequence[str], Sequence[Any]]


#: Milliseconds that replicas have to confirm a write.
_REPLICATION_MS = 1000


def run_all(client: redis.Redis, calls: Sequence[Call], *, replicas: int = 0) -> list[Any]:
    """Run scripts; return their replies in order.

    redis-py checks before each pipeline whether Redis has its scripts, which doubles the round trips. This
    function assumes that Redis has them. If some are missing, it loads them and repeats their calls, after
    the other calls.

    Args:
        client: The client.
        calls: What to run.
        replicas: How many replicas must have the writes before this function returns, so that the fail-over
            of a set loses none of them.

    Raises:
        redis.RedisError: of the first failed call; the other calls may have taken effect. The same if too few
            replicas confirm in time: the calls have taken effect, but a fail-over may undo them.
    """
    replies = _send(client, calls, replicas)
    unknown = [n for n, reply in enumerate(replies) if isinstance(reply, redis.exceptions.NoScriptError)]
    if unknown:
        load_scripts(client, {calls[n][0] for n in unknown})
        for n, reply in zip(unknown, _send(client, [calls[n] for n in unknown], replicas), strict=True):
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


def _send(client: redis.Redis, calls: Sequence[Call], replicas: int) -> list[Any]:
    with client.pipeline(transaction=False) as pipe:
        for script, names, args in calls:
            pipe.evalsha(script.sha, len(names), *names, *args)
        if replicas:
            pipe.wait(replicas, _REPLICATION_MS)
        replies = pipe.execute(raise_on_error=False)
    if replicas:
        confirmed = replies.pop()
        if isinstance(confirmed, Exception):
            raise confirmed
        if confirmed < replicas:
            raise redis.ConnectionError(f"{confirmed} of {replicas} replicas of Redis confirmed a write")
    return replies
