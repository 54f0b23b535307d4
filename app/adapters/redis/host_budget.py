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
from app.runtime import redis_connections as connections
from app.runtime.lazy import lazy

log = logs.get(__name__)

#: Longest pause of a host, seconds: no one may silence a host permanently (V08).
STOP_MAX = 86400
#: Seconds. Redis responds in under a millisecond, and a pull must not wait long for permission to start.
_PATIENCE = 2.0
#: The script's mode of requests that a pause doesn't stop; 1 is urgent, 0 neither.
_FREE = 2

#: Addresses that must ask before their host is paused.
SEVERAL = 3

#: One address can't speak for its whole host: ARGV[4] addresses together pause it for ARGV[3] at most. Each
#: further address that asks doubles that limit, up to the requested time.
_STOP = """
local asked, most = tonumber(ARGV[1]), tonumber(ARGV[3])
if redis.call('SCARD', KEYS[2]) < 20 then redis.call('SADD', KEYS[2], ARGV[2]) end
redis.call('PEXPIRE', KEYS[2], math.max(1, asked, redis.call('PTTL', KEYS[2])))
local further = redis.call('SCARD', KEYS[2]) - tonumber(ARGV[4])
if further < 0 then
  return 0
end
local ms = math.min(asked, most * 2 ^ further)
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
        return connections.connect(
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

    def take_tokens(
        self, hosts: Sequence[str], *, urgent: bool = False, unpaused: Sequence[bool] = ()
    ) -> list[float]:
        """Take one token per host entry; see :class:`app.ports.HostBudget`."""
        entries = list(zip(hosts, unpaused, strict=True)) if unpaused else [(host, False) for host in hosts]
        wanted = Counter(entries)
        if not wanted:
            return []
        rates = {entry: self._rates.get_rate(entry[0]) for entry in wanted}
        names: list[str] = []
        args: list[float] = []
        for (host, free), rate in rates.items():
            names += (redis_keys.HOST_STOP + host, redis_keys.HOST_RATE + rate.group)
            args += (wanted[host, free], 1000 / rate.rate if rate.rate else 0)
            args += (rate.burst * (2 if urgent else 1), _FREE if free else int(urgent))
        try:
            rows: list[Any] | None = self._take(keys=names, args=[json.dumps(args)])
        except redis.RedisError as e:
            log.warning("budget_without_redis", error=type(e).__name__)
            return [0.0] * len(hosts)
        if rows is None:
            return [0.0] * len(hosts)
        queues: dict[tuple[str, bool], list[float]] = defaultdict(list)
        for (entry, rate), (granted, wait) in zip(rates.items(), rows, strict=True):
            step = 1 / rate.rate if rate.rate else 0.0
            late = [max(0.001, wait / 1000) + step * n for n in range(wanted[entry] - granted)]
            queues[entry] = [0.0] * granted + late
        # Each host's entries get their waits in order.
        answers = {entry: iter(queue) for entry, queue in queues.items()}
        return [next(answers[entry]) for entry in entries]

    def pause_host(self, host: str, seconds: float, url: str) -> None:
        """Pause requests to a host; see :class:`app.ports.HostBudget`."""
        asked = int(min(max(seconds, 0), STOP_MAX) * 1000)
        who = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        names = [redis_keys.HOST_STOP + host, redis_keys.HOST_ASKS + host]
        try:
            ms: Any = self._stop(keys=names, args=[asked, who, int(self._rest * 1000), SEVERAL])
        except redis.RedisError as e:
            log.warning("budget_without_redis", error=type(e).__name__)
        else:
            log.info("host_backoff", host=host, seconds=ms // 1000, asked=asked // 1000)

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
