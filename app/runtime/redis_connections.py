"""Clients of Redis by address; see :mod:`app.models.jobs.redis_address` for the forms.

Before each new connection to a set, the client asks the Sentinels for the primary (Redis Sentinel client
specification). A connection to a server that has become a replica ends with its first refused write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis
import redis.asyncio

from app.models.jobs.redis_address import SentinelSet, is_sentinel_url, parse_sentinel_url

#: Seconds to wait for a Sentinel before the next one is asked.
_SENTINEL_PATIENCE = 1.0


class _Client(redis.Redis):
    """Closes its connections to the Sentinels as well."""

    def close(self) -> None:
        super().close()
        for sentinel in _list_sentinels(self):
            sentinel.close()


class _AsyncClient(redis.asyncio.Redis):
    """As above."""

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        for sentinel in _list_sentinels(self):
            await sentinel.aclose()


def _list_sentinels(client: Any) -> list[Any]:
    return list(client.connection_pool.sentinel_manager.sentinels)


def connect(url: str, **options: Any) -> redis.Redis:
    """Return a client that connects at its first command.

    Args:
        url: the address.
        options: as for ``redis.Redis.from_url``.

    Raises:
        ValueError: the address can't be read.
    """
    if not is_sentinel_url(url):
        return redis.Redis.from_url(url, **options)
    import redis.sentinel as module

    client: redis.Redis = _follow_primary(module.Sentinel, _Client, parse_sentinel_url(url), options)
    return client


def connect_async(url: str, **options: Any) -> Any:
    """Return a client for an event loop; see :func:`connect`."""
    if not is_sentinel_url(url):
        return redis.asyncio.Redis.from_url(url, **options)
    import redis.asyncio.sentinel as module

    return _follow_primary(module.Sentinel, _AsyncClient, parse_sentinel_url(url), options)


def notify_connects(client: redis.Redis, notify: Callable[[], None]) -> None:
    """Call ``notify`` after each new connection of a client: it may lead to another server than before."""

    def run_callback(connection: Any) -> None:
        connection.on_connect()
        notify()

    client.connection_pool.connection_kwargs["redis_connect_func"] = run_callback


def _follow_primary(
    kind: Any, client: type[redis.Redis | redis.asyncio.Redis], found: SentinelSet, options: dict[str, Any]
) -> Any:
    parse_url: Any = redis.connection.parse_url
    own = dict(parse_url(found.plain))
    # redis-py names TLS by a class of connections, but connections by way of Sentinels have their own.
    tls = {"ssl": True} if own.pop("connection_class", None) else {}
    del own["host"]
    patience = min(_SENTINEL_PATIENCE, options.get("socket_timeout") or _SENTINEL_PATIENCE)
    certificates = {key: value for key, value in own.items() if key.startswith("ssl_")}
    asking = {
        "socket_timeout": patience,
        "socket_connect_timeout": patience,
        **({"retry": options["retry"]} if "retry" in options else {}),
        **certificates,
        **tls,
        **found.login,
    }
    known = kind(found.sentinels, sentinel_kwargs=asking)
    return known.master_for(found.name, client, **{**own, **tls, **options})
