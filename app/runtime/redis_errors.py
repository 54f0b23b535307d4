"""What Redis says while it is away or refuses to write, for those who go on as soon as that has passed."""

from __future__ import annotations

import redis

#: Redis is away, or it refuses to write: its disk is full, or it is no primary any more. Both pass.
OUTAGE = (redis.ConnectionError, redis.TimeoutError, redis.ResponseError)


def describe_outage(error: Exception) -> str:
    """Return what a log line needs of an outage: Redis' first word when it refuses, else the kind."""
    if type(error) is not redis.ResponseError:
        return type(error).__name__
    # A pipeline puts the command before it, with all that was to be written; that of asyncio shows a tuple.
    _, _, said = str(error).rpartition(" of pipeline caused error: ")
    return said.lstrip("('\"").partition(" ")[0]
