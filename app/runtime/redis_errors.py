"""Redis outages: the errors of an unavailable or read-only Redis, for code that continues after them."""

from __future__ import annotations

import redis

#: Redis is away, or refuses writes: its disk is full, or it isn't a primary anymore. Both may pass.
OUTAGE = (redis.ConnectionError, redis.TimeoutError, redis.ResponseError)


def describe_outage(error: Exception) -> str:
    """Return a short description of an outage for a log line: Redis's first word, else the error's type."""
    if type(error) is not redis.ResponseError:
        return type(error).__name__
    # A pipeline prefixes the command with all its data; the asyncio pipeline shows a tuple.
    _, _, said = str(error).rpartition(" of pipeline caused error: ")
    return said.lstrip("('\"").partition(" ")[0]


def describe_refusal(error: BaseException | None) -> str | None:
    """Return a sentence, which quotes no address, if Redis rejects Eventr's login; None for other errors."""
    if isinstance(error, redis.AuthenticationError):
        if "uthentication required" in str(error) or "already authenticated" in str(error):
            return "Redis needs a password. Add it to EVENTR_REDIS_URL: redis://:PASSWORD@HOST:PORT/0."
        return "Redis rejects the user name or password. Check EVENTR_REDIS_URL."
    if isinstance(error, redis.exceptions.NoPermissionError):
        return "Redis doesn't let this user run all commands that Eventr needs. Change its ACL rules."
    return None
