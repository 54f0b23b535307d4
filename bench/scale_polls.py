"""What a poll costs with 2,000, 20,000 and 200,000 feeds: CPU of the updater, the worker, MongoDB and Redis.

Each size has its own database on one MongoDB, and the sizes take turns. A round finds 2,000 due feeds, as the
updater does, queues their batches, and pulls them as workers do. The answers (304) come from memory: the
network costs the same at any size. Feeds are copies of one that was created and pulled by the real code.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import statistics
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

import redis
from bson.int64 import Int64
from pymongo import MongoClient

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.embedded import EmbeddedServers
from app.models.accounts.actor import Actor
from app.models.feeds.fetched import Fetched, FetchRequest, Validators
from app.models.jobs.jobs import Job
from app.services.feeds.pull import PullService
from bench.harness import Bench, Cpu, mongod
from tests.support.reader import rss
from workers.updater.in_flight import build_pull

Doc = dict[str, Any]
SIZES, QUICK = (2000, 20_000, 200_000), (50, 100)
POLLS = 2000
#: Operations of clients, without those of monitoring and pings.
COUNTED = ("insert", "query", "update", "delete", "getmore", "command")
#: Ids of the copies begin so far above the original.
HEAD = 200_000
MOST_GROWTH = 1.15


@dataclasses.dataclass(frozen=True, slots=True)
class PollCost:
    """CPU in µs per poll, and the operations that the stores count."""

    updater: float
    worker: float
    mongodb: float
    redis: float
    mongodb_operations: float = 0.0
    redis_operations: float = 0.0

    @property
    def total(self) -> float:
        """The CPU of all."""
        return self.updater + self.worker + self.mongodb + self.redis


class _Answers:
    """Answers each request from memory: a feed for the first one, 304 for the others."""

    def __init__(self, body: bytes = b"") -> None:
        self._body = body

    async def stream_fetches(self, requests: Iterable[FetchRequest]) -> AsyncIterator[Fetched]:
        for request in requests:
            if self._body:
                found = Validators(etag='"1"')
                yield Fetched(request, 200, request.url, body=self._body, wire_bytes=1, validators=found)
            else:
                known = request.validators
                yield Fetched(request, 304, request.url, unchanged=True, validators=known, wire_bytes=200)


class FeedSet:
    """A database with a number of feeds, all of them due."""

    def __init__(self, running: EmbeddedServers, client: MongoClient[Doc], count: int) -> None:
        name, url = f"polls_{count}", running.redis_url
        settings = dataclasses.replace(running.settings, mongodb_name=name)
        self.count, self._pids = count, (mongod(running), _find_redis(running))
        self.services: Services = bootstrap.build(settings)
        self.services.migrate()
        self.database = client[name]
        self._redis = redis.Redis.from_url(url)
        self._fill()

    def close(self) -> None:
        self._redis.close()
        self.services.close()

    def _fill(self) -> None:
        subscribed = self.services.subscriptions.subscribe(Actor(1), "https://first.example.org/feed")
        feed_id = subscribed.subscription.feed_id
        items = [(f"Entry {n}", f"https://first.example.org/{n}") for n in range(12)]
        body = rss("First", items)
        asyncio.run(self._make_service().pull([feed_id], _Answers(body)))
        doc = self.database["feeds"].find_one({"_id": feed_id}) or {}
        long_ago = clock.now() - dt.timedelta(days=1)
        copies = (
            {
                **doc,
                "_id": Int64(feed_id + HEAD + n),
                "url": f"https://host{n}.example.org/feed",
                "url_key": f"https://host{n}.example.org/feed",
                "next_check_at": long_ago + dt.timedelta(seconds=n / 10),
                "checked_at": long_ago - dt.timedelta(hours=1),
            }
            for n in range(self.count)
        )
        while batch := [doc for _, doc in zip(range(5000), copies, strict=False)]:
            self.database["feeds"].insert_many(batch)
        self.database["feeds"].delete_one({"_id": feed_id})

    def _make_service(self) -> PullService:
        made = self.services
        return PullService(made.gateways.feeds, made.gateways.retention, made.settings, budget=made.budget)

    def measure(self) -> PollCost:
        """Poll up to 2,000 feeds once; make them due again afterwards."""
        self._redis.flushdb()
        services, wanted = self.services, min(POLLS, self.count)
        mongo, cache = self._pids
        pull = self._make_service()
        before = self._count_operations()
        with Cpu(mongo) as updating, Cpu(cache) as updating_redis:
            due = services.pull.find_due(clock.now(), wanted)
            batches = services.pull.make_batches(due)
            services.jobs.enqueue_many(_make_jobs(batches))
        answers = _Answers()
        with Cpu(mongo) as working, Cpu(cache) as working_redis:
            found = [asyncio.run(pull.pull(batch, answers, only_due=True)) for batch in batches]
        after = self._count_operations()
        done = sum(result.unchanged for result in found)
        if done != wanted:
            raise RuntimeError(f"{done} of {wanted} feeds were unchanged")
        self._make_due([feed.id for feed in due])
        share = 1e6 / done
        return PollCost(
            updating.own * share,
            working.own * share,
            (updating.others + working.others) * share,
            (updating_redis.others + working_redis.others) * share,
            *((more - less) / done for less, more in zip(before, after, strict=True)),
        )

    def _count_operations(self) -> tuple[int, int]:
        """Return the operations that MongoDB and Redis have counted."""
        counters = self.database.client.admin.command("serverStatus")["opcounters"]
        stats: Any = self._redis.info("stats")
        return sum(counters[name] for name in COUNTED), int(stats["total_commands_processed"])

    def _make_due(self, feed_ids: Sequence[int]) -> None:
        past = clock.now() - dt.timedelta(days=2)
        self.database["feeds"].update_many(
            {"_id": {"$in": list(feed_ids)}}, {"$set": {"next_check_at": past}}
        )


def _make_jobs(batches: Sequence[Sequence[int]]) -> list[Job]:
    return [build_pull(batch) for batch in batches]


def _find_redis(running: EmbeddedServers) -> int:
    server = next(server for server in running.servers if server.name == "redis")
    assert server.process is not None
    return server.process.pid


@contextlib.contextmanager
def open_sets(running: EmbeddedServers, sizes: Sequence[int]) -> Iterator[list[FeedSet]]:
    """Yield a set of feeds of each size."""
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(MongoClient[Doc](running.mongodb_uri, tz_aware=True))
        sets = []
        for size in sizes:
            sets.append(FeedSet(running, client, size))
            stack.callback(sets[-1].close)
        yield sets


def publish_polls(bench: Bench) -> dict[int, PollCost]:
    """Publish ``scale.poll_*``; return the median cost by number of feeds."""
    sizes = QUICK if bench.quick else SIZES
    with bench.servers(embedded_cache=1 << 30) as running, open_sets(running, sizes) as sets:
        for each in sets:
            each.measure()  # the first round fills caches
        rounds = [{each.count: each.measure() for each in sets} for _ in range(2 * bench.repeats)]
    for size in sizes:
        runs = [found[size].total for found in rounds]
        bench.figure(f"scale.poll_{size}_us", runs, "µs")
        for field in dataclasses.fields(PollCost):
            median = statistics.median(getattr(found[size], field.name) for found in rounds)
            bench.note(f"{size:,} feeds, {field.name}: {median:.4g} per poll")
    growth = [found[sizes[-1]].total / found[sizes[0]].total for found in rounds]
    bench.figure("scale.poll_growth", growth, "×", at_most=MOST_GROWTH)
    return {
        size: PollCost(
            *(
                statistics.median(getattr(found[size], field.name) for found in rounds)
                for field in dataclasses.fields(PollCost)
            )
        )
        for size in sizes
    }
