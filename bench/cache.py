"""The shared cache: what a list page costs MongoDB with and without it, side by side.

``cache.mongod_percent`` is MongoDB's CPU time of the whole list page of a user with 1,000 subscriptions with
the cache, as a percentage of that without it. The same for the list pane, and for 100 subscriptions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import statistics

import psutil

from bench.harness import Bench, Cpu, benchmark
from bench.web import ask, site

#: Requests of each round. Rounds with and without the cache alternate.
REQUESTS = 40
ROUNDS = 5
#: Main process, web workers, MongoDB, Redis.
Costs = dict[str, list[float]]


@benchmark("cache")
def cache(bench: Bench) -> None:
    """Publish ``cache.*``."""
    rounds = 2 if bench.quick else ROUNDS
    with bench.servers(embedded_cache=1 << 30) as running:
        family = psutil.Process().children(recursive=True)
        mongod = _find(family, "mongod")
        redis = _find(family, "redis-server")
        for feeds in (50,) if bench.quick else (1000, 100):
            with contextlib.ExitStack() as stack:
                sites = {}
                for on in (False, True):
                    name = f"bench_cache_{feeds}_{on}".lower()
                    own = dataclasses.replace(running.settings, cache=on, web_workers=1)
                    sites[on] = stack.enter_context(
                        site(
                            own,
                            feeds,
                            50 if bench.quick else 500,
                            name=name,
                        )
                    )
                for part, label in (("", "page"), ("div#stream", "pane")):
                    _compare(bench, sites, (mongod, redis), f"{label}_{feeds}", part, rounds)


def _compare(
    bench: Bench,
    sites: dict[bool, tuple[int, str]],
    servers: tuple[int, int],
    label: str,
    part: str,
    rounds: int,
) -> None:
    cost: dict[bool, Costs] = {on: {"mongod": [], "redis": [], "web": []} for on in sites}
    webs = {on: _list_web(port) for on, (port, _) in sites.items()}
    for port, cookie in sites.values():
        _ask_often(port, cookie, part, 10)
    for _ in range(rounds):
        for on, (port, cookie) in sites.items():
            with Cpu(servers[0]) as mongod, Cpu(servers[1]) as redis, Cpu(*webs[on]) as web:
                _ask_often(port, cookie, part, REQUESTS)
            for name, cpu in (("mongod", mongod), ("redis", redis), ("web", web)):
                cost[on][name].append(1000 * cpu.others / REQUESTS)
    for name in ("mongod", "redis", "web"):
        off, on = (statistics.median(cost[on][name]) for on in (False, True))
        bench.note(f"{label}: {name} {off:.2f} ms without, {on:.2f} ms with the cache")
    percents = [100 * on / off for off, on in zip(cost[False]["mongod"], cost[True]["mongod"], strict=True)]
    limit = 60 if label == "page_1000" else 105
    bench.figure(f"cache.mongod_{label}_percent", percents, "%", at_most=limit)


def _ask_often(port: int, cookie: str, part: str, count: int) -> None:
    client = http.client.HTTPConnection("127.0.0.1", port)
    for _ in range(count):
        ask(client, cookie, "/read/all", part)
    client.close()


def _find(family: list[psutil.Process], name: str) -> int:
    return next(p.pid for p in family if name in p.name())


def _list_web(port: int) -> list[int]:
    """Return the processes that serve a port."""
    listening = [c for c in psutil.net_connections("tcp") if c.laddr and c.laddr.port == port]
    return sorted({c.pid for c in listening if c.pid and c.status == psutil.CONN_LISTEN})
