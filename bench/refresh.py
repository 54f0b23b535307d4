"""Feeds that one core refreshes per second: the real pull, over real sockets, into a real MongoDB.

A separate process serves the documents of set T with minimal HTTP/1.1. Every feed has its own loopback
address (127.1.0.1, 127.1.0.2, …) and the server closes each connection. So each poll pays for a new
connection, as in production, where polls of a feed are an hour apart. Several batches share one fetcher, as
in a worker.

A rate is feeds / CPU seconds, of this process and mongod together; the server's time isn't counted.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from pymongo import WriteConcern

from app import clock
from app.bootstrap import services as bootstrap
from app.config import Settings
from app.feeds.parse import parse
from app.gateways.feeds import entry_bodies
from app.gateways.feeds.digest import Digester
from app.models.feeds.fetched import FetchRequest, Validators
from app.ports import FetchStreamer
from app.runtime.gc import freeze_loaded
from app.services.feeds.pull import PullService
from app.services.feeds.pull_batch import PullResult
from bench import naive
from bench.bare_curl import bare_curl_loop
from bench.harness import Bench, Cpu, benchmark, mongod
from bench.pulling import pull_all
from bench.variants import Document, documents
from tests.support.manager import environment
from tests.support.rawserver import Reply, ServerProcess, file_reply

FEEDS, QUICK_FEEDS = 1000, 100
CONNECTIONS = 200
#: The same for all documents, since the bare loop sends one list of headers.
ETAG = '"captured"'
#: Long enough that all connections are open at once when the worker's memory is measured.
SLOW_ANSWER = 0.3

Replies = Callable[[Document], Reply]


@dataclasses.dataclass
class Rig:
    """The objects that a pull needs, and the feeds that it pulls."""

    server: ServerProcess
    settings: Settings
    services: bootstrap.Services
    documents: Sequence[Document]
    mongod: int
    runner: asyncio.Runner
    fetcher: FetchStreamer
    feed_ids: tuple[int, ...] = ()

    def serve(self, answer: Replies) -> None:
        """Serve this answer for each document from now on."""
        self.server.set_many({_path(i): answer(document) for i, document in enumerate(self.documents)})

    def url(self, number: int) -> str:
        """Return the address of the feed with this number, from 0; each has its own host."""
        host = f"127.1.{number // 250}.{number % 250 + 1}"
        return self.server.url(_path(number % len(self.documents)), host)

    def entries(self, feeds: int) -> int:
        """Return the number of entries that this many feeds have at first."""
        return sum(self.documents[i % len(self.documents)].entries for i in range(feeds))

    def fresh(self, feeds: int) -> None:
        """Start again with an empty database and this many feeds that were never polled."""
        database = self.services.store.database
        database.client.drop_database(self.settings.mongodb_name)
        self.services.migrate()
        gateway, now = self.services.gateways.feeds, clock.now()
        found = (gateway.get_or_create(self.url(i), now=now) for i in range(feeds))
        self.feed_ids = tuple(feed.id for feed in found)
        # A subscriber puts them into the index of due feeds, which each poll updates.
        database["feeds"].update_many({}, {"$set": {"subscribers": 1}})

    def fetch(self, urls: Sequence[str]) -> float:
        """Fetch under all rules, without a store; return the CPU seconds of this process."""
        requests = [FetchRequest(url, validators=Validators(etag=ETAG)) for url in urls]
        with Cpu() as cpu:
            unchanged = self.runner.run(_count_unchanged(self.fetcher, requests))
        if unchanged != len(urls):
            raise RuntimeError(f"{unchanged} of {len(urls)} answers were 304")
        return cpu.own

    def write_times(self) -> float:
        """Return the CPU seconds of the minimum that a poll must write, on both sides.

        One statement sets the same time for a hundred feeds. No other statement that changes documents is
        cheaper, and it doesn't even distinguish the feeds.
        """
        feeds = self.services.store.database["feeds"].with_options(write_concern=WriteConcern(w=1))
        size = self.settings.pull_batch
        with Cpu(self.mongod) as cpu:
            for start in range(0, len(self.feed_ids), size):
                ids = {"$in": list(self.feed_ids[start : start + size])}
                feeds.update_many({"_id": ids}, {"$set": {"next_check_at": clock.now()}})
        return cpu.total

    def pull(self, digester: Digester | None = None) -> tuple[Cpu, PullResult]:
        """Pull all feeds once; return the CPU time and the counts."""
        g, budget = self.services.gateways, self.services.budget
        service = PullService(g.feeds, g.retention, self.settings, digester, budget=budget)
        with Cpu(self.mongod) as cpu:
            results = self.runner.run(pull_all(service, self.feed_ids, self.fetcher, self.settings))
        return cpu, _sum(results)

    def index(self) -> float:
        """Index what the last pull has stored; return the CPU seconds, MongoDB's included."""
        with Cpu(self.mongod) as cpu:
            self.services.indexing.run(clock.now(), 3600)
        return cpu.total

    def rate(self, expect: Mapping[str, int], digester: Digester | None = None) -> float:
        """Pull once and return feeds per CPU second.

        Raises:
            RuntimeError: The counts differ from the expected ones, so something else was measured.
        """
        cpu, result = self.pull(digester)
        counts = result.counts
        wrong = {name: counts[name] for name, count in expect.items() if counts[name] != count}
        if wrong or result.errors:
            raise RuntimeError(f"expected {dict(expect)} without errors, got {counts}")
        return len(self.feed_ids) / cpu.total


async def _count_unchanged(fetcher: FetchStreamer, requests: Sequence[FetchRequest]) -> int:
    return sum([fetched.unchanged async for fetched in fetcher.stream_fetches(requests)])


def _sum(results: Sequence[PullResult]) -> PullResult:
    found = [result.counts for result in results]
    return PullResult(**{name: sum(counts[name] for counts in found) for name in PullResult().counts})


@contextmanager
def rig(bench: Bench, **settings: Any) -> Iterator[Rig]:
    """Start the servers and build the services.

    Args:
        bench: The benchmark.
        settings: Further settings.
    """
    kept, left_out = documents()
    bench.note(f"set T: {len(kept)} documents; left out: {', '.join(left_out) or 'none'}")
    with ExitStack() as stack:
        replies = {_path(i): _tagged(document) for i, document in enumerate(kept)}
        server = stack.enter_context(ServerProcess(replies, hosts=("0.0.0.0",)))
        running = stack.enter_context(
            bench.servers(
                fetch_allow=("127.0.0.0/8",),
                fetch_ports=(server.port,),
                fetch_connections=CONNECTIONS,
                # Limits as in production, except that every run polls all hosts within a second.
                fetch_host_burst=1000,
                log_level="warning",
                **settings,
            )
        )
        services = bootstrap.build(running.settings)
        stack.callback(services.close)
        # One loop and one fetcher for all pulls, as in a worker.
        runner = stack.enter_context(asyncio.Runner())
        fetcher = stack.enter_context(bootstrap.build_fetcher(running.settings))
        freeze_loaded()  # as in a worker
        yield Rig(server, running.settings, services, kept, mongod(running), runner, fetcher)


def _path(number: int) -> str:
    return f"/{number}.xml"


def _tagged(document: Document) -> Reply:
    return dataclasses.replace(file_reply(document.body, close=True), etag=ETAG)


def _untagged(document: Document) -> Reply:
    return file_reply(document.body, etag=False, close=True)


def _with_new(number: int) -> Replies:
    def answer(document: Document) -> Reply:
        return file_reply(document.with_new(number), close=True)

    return answer


@benchmark("refresh")
def refresh(bench: Bench) -> None:
    """Publish rates, ratios and memory."""
    feeds = QUICK_FEEDS if bench.quick else FEEDS
    with rig(bench) as found:
        _cold(bench, found, feeds)
        _unmodified(bench, found, feeds)
        _unchanged(bench, found, feeds)
        _one_new(bench, found, feeds)
        _beside_naive(bench, found)
        _memory(bench, found, feeds)


def _cold(bench: Bench, found: Rig, feeds: int) -> None:
    runs, indexed = [], []
    for _ in range(bench.repeats):
        found.fresh(feeds)
        runs.append(found.rate({"new": found.entries(feeds), "feeds": feeds}))
        indexed.append(found.index() / found.entries(feeds))
    bench.figure("refresh.cold", runs, "feeds/s", at_least=150)
    bench.figure("refresh.cold_index_us", [1e6 * seconds for seconds in indexed], "µs/entry")


def _unmodified(bench: Bench, found: Rig, feeds: int) -> None:
    """Measure 304s: all feeds match the ETag of the cold pull; compare with the same requests by curl."""
    urls, headers = [found.url(i) for i in range(feeds)], [f"If-None-Match: {ETAG}"]
    rates, ratios, fetching, least = [], [], [], []
    for _ in range(bench.repeats):
        rates.append(found.rate({"unchanged": feeds}))
        bare = bare_curl_loop(urls, headers)
        ratios.append(feeds / rates[-1] / bare)
        fetching.append(found.fetch(urls) / bare)
        least.append(1 + found.write_times() / bare)
    bench.figure("refresh.304", rates, "feeds/s", at_least=5500)
    bench.figure("refresh.304_vs_curl", ratios, "×", at_most=1.5)
    bench.figure("refresh.304_least_vs_curl", least, "×")
    bench.figure("refresh.fetch_vs_curl", fetching, "×", at_most=1.5)


def _unchanged(bench: Bench, found: Rig, feeds: int) -> None:
    """Measure unchanged bodies from servers without validators."""
    found.serve(_untagged)
    runs = [found.rate({"unchanged": feeds}) for _ in range(bench.repeats)]
    bench.figure("refresh.unchanged", runs, "feeds/s", at_least=5000)


def _one_new(bench: Bench, found: Rig, feeds: int) -> None:
    runs, indexed = [], []
    for number in range(1, bench.repeats + 1):
        found.serve(_with_new(number))
        runs.append(found.rate({"new": feeds}))
        indexed.append(found.index() / feeds)
    bench.figure("refresh.one_new", runs, "feeds/s", at_least=350)
    bench.figure("refresh.one_new_index_us", [1e6 * seconds for seconds in indexed], "µs/entry")


def _beside_naive(bench: Bench, found: Rig) -> None:
    """Pull each XML document once with our pipeline and once with feedparser and bleach, in turn."""
    found.serve(_tagged)
    feeds = 20 if bench.quick else sum(not document.is_json for document in found.documents)
    other = Digester(found.settings, parse=naive.parse, sanitize=naive.sanitize)
    # Parsing and cleaning at no cost: cached after the first round.
    free = Digester(
        found.settings,
        parse=functools.cache(parse),
        sanitize=functools.cache(entry_bodies.make_sanitizer(found.settings)),
    )
    ratios, most = [], []
    for number in range(min(bench.repeats, 3) + 1):
        expect = {"new": found.entries(feeds)}
        found.fresh(feeds)
        rate = found.rate(expect, free)
        if number == 0:
            continue
        found.fresh(feeds)
        ours = found.rate(expect)
        found.fresh(feeds)
        theirs = found.rate({"feeds": feeds}, other)
        ratios.append(ours / theirs)
        most.append(rate / theirs)
    bench.figure("refresh.cold_vs_naive", ratios, "×", at_least=10)
    bench.figure("refresh.cold_most_vs_naive", most, "×")


def _memory(bench: Bench, found: Rig, feeds: int) -> None:
    """Measure the peak memory of a new process that pulls everything cold, all connections open at once."""
    found.serve(lambda document: dataclasses.replace(_tagged(document), delay=SLOW_ANSWER))
    runs = []
    for _ in range(min(bench.repeats, 3)):
        found.fresh(feeds)
        done = subprocess.run(
            [sys.executable, "-m", "bench.pulling"],
            input=" ".join(map(str, found.feed_ids)),
            env={**os.environ, **environment(found.settings), "EVENTR_LOG_LEVEL": "error"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        runs.append(float(done.stdout))
    bench.note(f"a worker's peak: {statistics.median(runs):.0f} MB with {CONNECTIONS} connections")
    bench.figure("refresh.worker_mb", runs, "MB", at_most=150)
