"""Search: the cost of a page of results, and the cost of indexing an entry.

One user has 2,000 subscriptions with 250 entries each, 500,000 in all, with the same words in all titles. The
most expensive queries are a word in every entry, and words that are in all entries but never adjacent.
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
from app.models.reading.search import SearchDocument
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
MOST = {"page_ms": 150, "words_ms": 300, "rare_ms": 100, "phrase_ms": 400, "worst_ms": 1500, "unread_ms": 300}


@benchmark("search")
def search(bench: Bench) -> None:
    """Publish ``search.*``."""
    feeds, entries = (20, 20) if bench.quick else (2000, 250)
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
