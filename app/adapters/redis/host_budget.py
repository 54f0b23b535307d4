"""Per-host budgets: a token bucket per host in Redis, shared by all workers and servers.

A batch takes its tokens with one script for all its hosts. For a batch of 50 feeds that costs about as
much as one 304 response, so polls without news stay cheap.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from importlib import resources
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app import logs
from app.config import Settings
from app.models.feeds.hosts import HostRates
from app.models.jobs import redis_keys
from app.runtime.lazy import lazy

log = logs.get(__name__)

#: Longest pause of a host, seconds: no one may silence a host permanently (V08).
STOP_MAX = 86400
#: Seconds. Redis responds in under a millisecond, and a pull must not wait long for permission to start.
_PATIENCE = 2.0

#: One address can't speak for its whole host: its request pauses the host for ARGV[3] at most. Each
#: further address that asks doubles that limit, up to the requested time.
_STOP = """
local asked, most = tonumber(ARGV[1]), tonumber(ARGV[3])
if redis.call('SCARD', KEYS[2]) < 20 then redis.call('SADD', KEYS[2], ARGV[2]) end
redis.call('PEXPIRE', KEYS[2], math.max(1, asked, redis.call('PTTL', KEYS[2])))
local ms = math.min(asked, most * 2 ^ (redis.call('SCARD', KEYS[2]) - 1))
local time = redis.call('TIME')
local till = time[1] * 1000 + math.floor(time[2] / 1000) + ms
local known = redis.call('GET', KEYS[1])
if not known or till > tonumber(string.match(known, '^%S+')) then
  redis.call('SET', KEYS[1], string.format('%.0f', till), 'PX', math.max(1, ms))
end
return ms
"""


class RedisBudget:
    """:class:`app.ports.HostBudget` on Redis. Connects at first use; safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.redis_url
        self._rates = HostRates.from_settings(settings)
        self._rest = settings.fetch_host_rest

    @lazy
    def _client(self) -> redis.Redis:
        # No retries: tokens would be taken twice.
        return redis.Redis.from_url(
            self._url,
            socket_timeout=_PATIENCE,
            socket_connect_timeout=_PATIENCE,
            retry=Retry(NoBackoff(), 0),
        )

    @lazy
    def _take(self) -> Any:
        return self._client.register_script(
            resources.files("app.adapters.redis").joinpath("budget.lua").read_text()
        )

    @lazy
    def _stop(self) -> Any:
        return self._client.register_script(_STOP)

    def take_tokens(self, hosts: Sequence[str], *, urgent: bool = False) -> list[float]:
        """Take one token per host entry; see :class:`app.ports.HostBudget`."""
        wanted = Counter(hosts)
        if not wanted:
            return []
        rates = {host: self._rates.get_rate(host) for host in wanted}
        names: list[str] = []
        args: list[float] = []
        for host, rate in rates.items():
            names += (redis_keys.HOST_STOP + host, redis_keys.HOST_RATE + rate.group)
            args += (wanted[host], 1000 / rate.rate if rate.rate else 0, rate.burst * (2 if urgent else 1))
        try:
            rows: list[Any] | None = self._take(keys=names, args=[json.dumps(args)])
        except redis.RedisError as e:
            log.warning("budget_without_redis", error=type(e).__name__)
            return [0.0] * len(hosts)
        if rows is None:
            return [0.0] * len(hosts)
        queues: dict[str, list[float]] = defaultdict(list)
        for (host, rate), (granted, wait) in zip(rates.items(), rows, strict=True):
            step = 1 / rate.rate if rate.rate else 0.0
            late = [max(0.001, wait / 1000) + step * n for n in range(wanted[host] - granted)]
            queues[host] = [0.0] * granted + late
        # Each host's entries get their waits in order.
        answers = {host: iter(queue) for host, queue in queues.items()}
        return [next(answers[host]) for host in hosts]

    def pause_host(self, host: str, seconds: float, url: str) -> None:
        """Pause requests to a host; see :class:`app.ports.HostBudget`."""
        asked = int(min(max(seconds, 0), STOP_MAX) * 1000)
        who = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        names = [redis_keys.HOST_STOP + host, redis_keys.HOST_ASKS + host]
        try:
            ms: Any = self._stop(keys=names, args=[asked, who, int(self._rest * 1000)])
        except redis.RedisError as e:
            log.warning("budget_without_redis", error=type(e).__name__)
        else:
            log.info("host_stopped", host=host, seconds=ms // 1000, asked=asked // 1000)

    def find_pauses(self, hosts: Sequence[str]) -> list[float]:
        """Return the remaining pauses of hosts; see :class:`app.ports.HostBudget`."""
        try:
            with self._client.pipeline(transaction=False) as pipe:
                for host in hosts:
                    pipe.pttl(redis_keys.HOST_STOP + host)
                left: list[int] = pipe.execute()
        except redis.RedisError as e:
            log.warning("budget_without_redis", error=type(e).__name__)
            return [0.0] * len(hosts)
        return [max(0, ms) / 1000 for ms in left]

    def close(self) -> None:
        """Close the connections that were opened."""
        if (client := self.__dict__.get("_client")) is not None:
            client.close()
