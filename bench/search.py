"""Search: the cost of a page of results, and the cost of indexing an entry.

One user has 2,000 subscriptions with 500 entries each, 1 million in all, with the same words in all titles.
The most expensive queries are a word in every entry, and words that are in all entries but never adjacent.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import statistics
import time
from collections.abc import Iterator
from typing import Any

import psutil
from pymongo import MongoClient
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor
from app.models.reading.search import SearchDocument, SearchRequest, parse_query
from app.models.reading.stream import Sort, StreamKind, StreamQuery, StreamRef
from app.services.feeds.pull import PullService
from app.services.reading.indexing import COMMIT_ENTRIES
from bench.harness import Bench, benchmark
from bench.reading import USER, Dataset, Doc
from tests.support import corpus
from tests.support.reader import Canned

OPERATIONS = 10
#: Every title contains these words; the phrase "length title" is in none.
QUERIES = {
    "page_ms": "title",
    "words_ms": "title usual 117",
    "rare_ms": "1234",
    "phrase_ms": '"title of usual"',
    "worst_ms": '"length title"',
    "unread_ms": "title is:unread",
}
MOST = {"page_ms": 50, "words_ms": 100, "rare_ms": 50, "phrase_ms": 100, "worst_ms": 1500, "unread_ms": 100}


@benchmark("search")
def search(bench: Bench) -> None:
    """Publish ``search.*``."""
    feeds, entries = (20, 20) if bench.quick else (2000, 500)
    with bench.servers(embedded_cache=2 << 30) as running, contextlib.ExitStack() as stack:
        client = stack.enter_context(MongoClient[Doc](running.mongodb_uri, tz_aware=True))
        services = bootstrap.build(running.settings)
        stack.callback(services.close)
        database = client[running.settings.mongodb_name]
        started = time.monotonic()
        Dataset(database, feeds).fill(entries)
        services.migrate()
        _fill(services, database)
        bench.note(f"{feeds * entries:,} entries built in {time.monotonic() - started:.0f} s")
        for name, query in QUERIES.items():
            runs = [_page(services, query, 2 if bench.quick else OPERATIONS) for _ in range(bench.repeats)]
            bench.figure(f"search.{name}", runs, "ms", at_most=MOST[name])
        pairs = [_find(services, database) for _ in range(bench.repeats)]
        bench.figure("search.engine_ms", [elapsed for elapsed, _ in pairs], "ms", at_most=50)
        bench.figure("search.engine_cpu_ms", [cpu for _, cpu in pairs], "ms")
        away = running.settings.home / "index"
        _indexing(bench, dataclasses.replace(running.settings, mongodb_name="bench_index", home=away))


def _fill(services: Services, database: Database[Doc]) -> None:
    """Index the titles directly, as a rebuild would."""
    index = services.search_index
    index.open(answer_early=True)
    shown = {"feed_id": 1, "at": 1, "seq": 1, "title": 1}
    batch: list[SearchDocument] = []
    for doc in database["entries"].find({}, shown):
        at = int(doc["at"].timestamp() * 1000)
        batch.append(
            SearchDocument(
                id=doc["_id"],
                feed_id=doc["feed_id"],
                seq=doc["seq"],
                at=at,
                title=doc["title"],
                language="en",
            )
        )
        if len(batch) == COMMIT_ENTRIES:
            index.add(batch)
            index.commit_batch(())
            batch = []
    index.add(batch)
    index.commit_batch(())
    index.close()


def _page(services: Services, query: str, operations: int) -> float:
    """Return the median milliseconds of a first page."""
    wanted = StreamQuery(StreamRef(StreamKind.SEARCH, query=query), Sort.NEWEST, limit=50)
    found = []
    for _ in range(operations):
        started = time.perf_counter()
        services.reading.load_page(Actor(USER), wanted)
        found.append((time.perf_counter() - started) * 1000)
    return statistics.median(found)


def _find(services: Services, database: Database[Doc]) -> tuple[float, float]:
    """Return the median milliseconds of the engine alone for a common word, elapsed and of CPU."""
    feeds = {doc["_id"]: (1, doc["last_seq"]) for doc in database["feeds"].find({}, {"last_seq": 1})}
    wanted = SearchRequest(feeds=feeds, newest=0, terms=parse_query(QUERIES["page_ms"]).terms)
    elapsed, cpu = list[float](), list[float]()
    for _ in range(OPERATIONS):
        started, used = time.perf_counter(), time.thread_time()
        services.search_index.find(wanted, 51)
        elapsed.append((time.perf_counter() - started) * 1000)
        cpu.append((time.thread_time() - used) * 1000)
    return statistics.median(elapsed), statistics.median(cpu)


def _indexing(bench: Bench, settings: Any) -> None:
    """Publish the cost of an entry of the corpus: our CPU, MongoDB's, its size and what is written for it."""
    services = bootstrap.build(settings)
    services.migrate()
    rows = list(corpus.genuine_feeds())[: 5 if bench.quick else 150]
    bodies = {f"https://feeds.example/{row.path}": row.read() for row in rows}
    ids = [services.subscriptions.subscribe(Actor(USER), url).subscription.feed_id for url in bodies]
    pull = PullService(
        services.gateways.feeds, services.gateways.retention, services.settings, events=services.events
    )
    asyncio.run(pull.pull(ids, Canned(bodies)))
    [server] = _mongods()
    before, theirs = time.process_time(), sum(server.cpu_times()[:2])
    written = _count_written()
    entries = services.indexing.run(clock.now(), 3600)["entries"]
    bench.figure("search.index_us", [(time.process_time() - before) / entries * 1e6], "µs", at_most=1200)
    bench.figure("search.store_us", [(sum(server.cpu_times()[:2]) - theirs) / entries * 1e6], "µs")
    folder = services.settings.home / "search"
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    bench.figure("search.entry_bytes", [total / entries], "bytes", at_most=1600)
    bench.figure("search.written_bytes", [(_count_written() - written) / entries], "bytes", at_most=20_000)
    bench.note(f"{entries:,} entries")
    services.close()


def _mongods() -> Iterator[psutil.Process]:
    return (p for p in psutil.Process().children(recursive=True) if p.name() == "mongod")


def _count_written() -> int:
    """Return the bytes that this process has written to files."""
    return int(psutil.Process().io_counters().write_chars)
