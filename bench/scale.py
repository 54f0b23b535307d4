"""Scale: loading and reading 0.1, 1 and 10 million entries of 20,000 feeds, side by side on one MongoDB.

The entries arrive in turns: each feed publishes one entry, then each feed publishes the next one. That is
the worst order for indexes that begin with the feed. ``EntryMapper.add``, as pulls use it, writes the
documents, with titles and texts of about 400 characters from the corpus; fetching, parsing and HTML are left
out. The largest size gets its indexes after the load. The search index has each entry's title and 20 words of
its text.

One reader has 1,000 of the feeds; at random, 30 % of their entries are unread.

``python -m bench scale`` measures 0.1 and 1 million, and with ``--large`` also 10 million, in a temporary
folder.
``python -m bench.scale load FOLDER`` and ``python -m bench.scale read FOLDER`` keep the data.
``python -m bench.scale standby FOLDER`` builds a standby index of the entries in FOLDER, and searches in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import functools
import itertools
import json
import os
import random
import re
import resource
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pymongo
from bson.binary import Binary
from bson.int64 import Int64
from pymongo import MongoClient, WriteConcern
from pymongo.database import Database

from app import clock, embedded
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.mappers.feeds.entries import EntryMapper, NumberedEntry
from app.mappers.mongo.indexes import INDEXES
from app.models.accounts.actor import Actor
from app.models.reading.entry import NewEntry
from app.models.reading.search import SearchDocument
from app.models.reading.stream import Sort, StreamKind, StreamQuery, StreamRef
from app.models.subscriptions.read_state import make_state
from bench import docs, harness
from bench.harness import Bench, benchmark, time_call
from bench.scale_people import compute_percentile, publish_simulation
from bench.scale_polls import publish_polls
from tests.support import corpus
from tests.support.indexing import serve_search

Doc = dict[str, Any]
FEEDS, SUBSCRIBED, UNREAD = 20_000, 1000, 0.3
SIZES, LARGE = (100_000, 1_000_000), 10_000_000
USER = 1
#: The second server and the one with the index need the same key.
KEY = "the key of a benchmark, with 32 characters"
#: Ids of feeds are 16-digit microseconds, as in production.
BASE = 1_790_000_000_000_000
#: All entries of a size arrive within so many days.
DAYS = 365
#: Characters of a text, and its words in the search index.
LENGTH, INDEXED = 400, 20
#: Entries of one statement, and of one commit of the search index.
BATCH, COMMIT = 2000, 20_000
OPERATIONS = 40
#: Seconds of one run of a standby index, and between two lines about its progress.
STANDBY_SECONDS, STANDBY_SAY = 10.0, 60.0
CACHE = 3 << 30
ALL = StreamRef(StreamKind.ALL)
#: Searches: common words, a rare one, and two words.
WORDS = ("people", "world", "government", "linux kernel", "music")


@functools.cache
def read_words() -> list[str]:
    """Return the words of the corpus's genuine feeds in their order, without markup."""
    found: list[str] = []
    for row in list(corpus.genuine_feeds())[:400]:
        plain = re.sub(r"<[^>]*>|&\w+;|<!\[CDATA\[", " ", row.read().decode("utf-8", "replace"))
        found += [word for word in plain.split() if word.isalpha() and len(word) < 30]
    return found


class Texts:
    """Titles and texts: passages of the corpus, the same for each entry in every run."""

    def __init__(self) -> None:
        self._words = read_words()

    def make(self, number: int) -> tuple[str, str]:
        """Return the title of an entry (7 words), and its text (about 400 characters)."""
        start = number * 7919 % (len(self._words) - 100)
        title = " ".join(self._words[start : start + 7])
        return title, " ".join(self._words[start + 7 : start + 90])[:LENGTH]


class Loader:
    """Fills one database with ``total`` entries, and the search index of its services."""

    def __init__(self, services: Services, database: Database[Doc], total: int, feeds: int) -> None:
        quick = WriteConcern(w=1, j=False)
        self._services, self._database = services, database
        self._entries = EntryMapper(database.with_options(write_concern=quick))
        self._feeds, self._rounds = feeds, total // feeds
        self._texts, self._total = Texts(), total
        self._newest = clock.now().replace(microsecond=0)
        self._step = dt.timedelta(days=DAYS) / total

    def load(self, *, indexes_last: bool, say: Callable[[str], None]) -> Doc:
        """Load everything; return the seconds of each part."""
        entries = self._database["entries"]
        seconds: Doc = {}
        if indexes_last:
            entries.drop_indexes()
        with _timing(seconds, "entries"):
            for start in range(0, self._total, BATCH):
                self._entries.add([self._make(n) for n in range(start, min(start + BATCH, self._total))])
                if start % 200_000 == 0:
                    say(f"{start:,} of {self._total:,} entries")
        if indexes_last:
            with _timing(seconds, "indexes"), pymongo.timeout(None):
                entries.create_indexes(INDEXES["entries"])
        with _timing(seconds, "others"):
            self._add_others()
        return seconds

    def _at(self, number: int) -> dt.datetime:
        at = self._newest - (self._total - number) * self._step
        return at.replace(microsecond=at.microsecond // 1000 * 1000)

    def _make(self, number: int) -> NumberedEntry:
        place, feed = divmod(number, self._feeds)
        title, text = self._texts.make(number)
        at = self._at(number)
        entry = NewEntry(
            guid_hash=(number + 1).to_bytes(8, "big"),
            at=at,
            arrived=at,
            published=at,
            title=title,
            url=f"https://feed{feed}.example.org/posts/{place}",
            content=f"<p>{text}</p>",
            excerpt=text[:200],
            cleaned_by=1,
        )
        return NumberedEntry(BASE + 1 + feed, place + 1, entry)

    def _add_others(self) -> None:
        feeds = [self._feed(n) for n in range(self._feeds)]
        for start in range(0, len(feeds), BATCH):
            self._database["feeds"].insert_many(feeds[start : start + BATCH])
        step = max(1, self._feeds // SUBSCRIBED)
        rng = random.Random(1)
        self._database["subscriptions"].insert_many(
            [self._subscription(n, rng) for n in range(0, self._feeds, step)]
        )

    def _feed(self, number: int) -> Doc:
        return {
            "_id": Int64(BASE + 1 + number),
            "kind": "web",
            "url": f"https://feed{number}.example.org/feed",
            "url_key": f"key{number}",
            "title": f"Feed {number}",
            "site_url": f"https://feed{number}.example.org/",
            "first_seq": Int64(1),
            "last_seq": Int64(self._rounds),
            "last_entry_at": self._at((self._rounds - 1) * self._feeds + number),
            "seen": Binary(bytes(16 * 25)),
            "subscribers": 1,
            "read_at": self._newest,
            "created": self._newest,
        }

    def _subscription(self, number: int, rng: random.Random) -> Doc:
        bits = 0
        for seq in range(1, self._rounds + 1):
            bits |= (rng.random() >= UNREAD) << seq
        state = make_state(0, bits, 0, ())
        return {
            "_id": Int64(BASE + 1 + number),
            "user_id": Int64(USER),
            "feed_id": Int64(BASE + 1 + number),
            "rev": Int64(0),
            "upto": Int64(state.upto),
            "words": {k: Int64(w) for k, w in state.to_words().items()},
            "unread": [],
            "title": "",
            "folder_ids": [],
            "orders": {},
        }

    def fill_search(self, say: Callable[[str], None]) -> Doc:
        """Write the search index of all entries, in their order; return its seconds."""
        seconds: Doc = {}
        index = self._services.search_index
        shown = {"feed_id": 1, "seq": 1, "at": 1, "title": 1, "excerpt": 1}
        with _timing(seconds, "search"), pymongo.timeout(None):
            index.open(answer_early=True)
            cursor = self._database["entries"].find({}, shown, batch_size=COMMIT).sort("_id", 1)
            done = 0
            while batch := [_searchable(doc) for doc in itertools.islice(cursor, COMMIT)]:
                index.add(batch)
                index.commit_batch(())
                done += len(batch)
                if done % 200_000 == 0:
                    say(f"{done:,} of {self._total:,} entries can be searched")
            index.close()
        return seconds


def _searchable(doc: Doc) -> SearchDocument:
    text = " ".join(doc["excerpt"].split()[:INDEXED])
    at = int(doc["at"].timestamp() * 1000)
    return SearchDocument(
        id=doc["_id"],
        feed_id=doc["feed_id"],
        seq=doc["seq"],
        at=at,
        title=doc["title"],
        text=text,
        language="en",
    )


@contextlib.contextmanager
def _timing(into: Doc, name: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    into[name] = round(time.monotonic() - started, 1)


# -- stores that stay


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """The services and the database of one size."""

    total: int
    services: Services
    database: Database[Doc]


@contextlib.contextmanager
def _open_places(settings: Settings, totals: Sequence[int]) -> Iterator[list[Place]]:
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(MongoClient[Doc](settings.mongodb_uri, tz_aware=True))
        places = []
        for total in totals:
            name = f"scale_{total}"
            own = dataclasses.replace(settings, mongodb_name=name, home=settings.home / name)
            services = bootstrap.build(own)
            stack.callback(services.close)
            services.migrate()
            places.append(Place(total, services, client[name]))
        yield places


@contextlib.contextmanager
def _run_servers(folder: Path) -> Iterator[embedded.EmbeddedServers]:
    folder.mkdir(parents=True, exist_ok=True)
    with embedded.start_servers(Settings(home=folder, embedded_cache=CACHE, secret_key=KEY)) as running:
        yield running


@click.group()
def main() -> None:
    """Load and read entries in a folder that stays."""


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--total", "totals", multiple=True, type=int, default=(*SIZES, LARGE), show_default=True)
@click.option("--feeds", default=FEEDS, show_default=True)
@click.option("--search/--no-search", "with_search", default=True, show_default=True)
def load(folder: Path, totals: tuple[int, ...], feeds: int, *, with_search: bool) -> None:
    """Load the entries that FOLDER lacks, one database per size, and keep the seconds in load.json."""
    kept = folder / "load.json"
    done: Doc = json.loads(kept.read_text()) if kept.is_file() else {}
    with _run_servers(folder) as running, _open_places(running.settings, totals) as places:
        for place in places:
            seconds = done.setdefault(str(place.total), {})
            loader = Loader(place.services, place.database, place.total, feeds)
            if "others" not in seconds:
                for name in ("entries", "feeds", "subscriptions"):
                    place.database[name].delete_many({})
                seconds |= loader.load(indexes_last=place.total >= LARGE, say=_say)
                seconds["load_average"] = os.getloadavg()[1]
                kept.write_text(json.dumps(done, indent=1))
            if with_search and "search" not in seconds:
                seconds |= loader.fill_search(_say)
                kept.write_text(json.dumps(done, indent=1))
            _say(f"{place.total:,}: {seconds}")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.option("--total", "totals", multiple=True, type=int, default=(*SIZES, LARGE), show_default=True)
@click.option("--runs", default=3, show_default=True)
@click.option("--write", is_flag=True, help="Write the result file and the table of docs/performance.md.")
def read(folder: Path, totals: tuple[int, ...], runs: int, *, write: bool) -> None:
    """Measure the reader's operations on the entries in FOLDER."""
    done: Doc = json.loads((folder / "load.json").read_text())
    bench = Bench(repeats=runs)
    with _run_servers(folder) as running, _open_places(running.settings, totals) as places:
        for place in places:
            publish_load(bench, place, done[str(place.total)])
        publish_reads(bench, places, searched=[int(total) for total in done if "search" in done[total]])
    if write:
        harness.save(bench.figures.values())
        docs.write(bench.figures, harness.machine())


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.option("--total", type=int, default=LARGE, show_default=True)
@click.option("--seconds", default=3600.0, show_default=True, help="The build ends after so long.")
def standby(folder: Path, total: int, seconds: float) -> None:
    """Build a standby index of the entries in FOLDER, as a second server does, and search in it."""
    home = folder / "standby"
    with _run_servers(folder) as running, _open_places(running.settings, [total]) as (place,):
        own = dataclasses.replace(place.services.settings, home=home)
        with contextlib.closing(bootstrap.build(own)) as services:
            done, end, last = 0, time.monotonic() + seconds, time.monotonic()
            began, cpu = time.monotonic(), time.process_time()
            while time.monotonic() < end:
                found = services.standby.run(clock.now(), STANDBY_SECONDS)
                done += found["entries"]
                if time.monotonic() - last > STANDBY_SAY:
                    last = time.monotonic()
                    _say(f"{done:,} of {total:,} entries, load {os.getloadavg()[0]:.0f}")
                if not found["entries"]:
                    break
            spent = time.monotonic() - began
            micros = (time.process_time() - cpu) / max(1, done) * 1e6
            services.standby.close()
            size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            _say(
                f"{done:,} entries in {spent:,.0f} s: {done / spent:,.0f} per second, {micros:.0f} µs of CPU,"
                f" {size / max(1, done):.0f} bytes each, at most {most:,} MB of memory"
            )
        with serve_search(own) as (address, _):
            away = dataclasses.replace(own, search=address, home=home / "asking")
            with contextlib.closing(bootstrap.build(away)) as asking:
                reader, words = Reader(place, asking), itertools.cycle(WORDS)
                times = _time(OPERATIONS, lambda: reader.search(next(words)))
                _say(
                    f"a search: {statistics.median(times):.0f}, p95 {compute_percentile(times, 0.95):.0f} ms"
                )


# -- figures


def publish_load(bench: Bench, place: Place, seconds: Doc) -> None:
    """Publish ``scale.load_*``, and the bytes of an entry on disk."""
    size = format_size(place.total)
    bench.figure(f"scale.load_{size}_s", [seconds["entries"] + seconds.get("indexes", 0)], "s")
    if "search" in seconds:
        bench.figure(f"scale.index_{size}_s", [seconds["search"]], "s")
    for name in ("entries", "feeds", "subscriptions"):
        stats = place.database.command("collStats", name)
        indexes = {key: round(value / place.total, 1) for key, value in stats["indexSizes"].items()}
        bench.note(
            f"{place.total:,} entries, {name}: {stats['storageSize'] / 1e6:,.0f} MB, per entry {indexes}"
        )
        if name == "entries":
            bench.figure(f"scale.entry_{size}_bytes", [stats["storageSize"] / place.total], "bytes")
            total = stats["totalIndexSize"] / place.total
            bench.figure(f"scale.entry_index_{size}_bytes", [total], "bytes", at_most=400)
    folder = place.services.settings.home / "search"
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if total:
        bench.figure(f"scale.search_{size}_bytes", [total / place.total], "bytes")


class Reader:
    """Times the operations of the reader at one size."""

    def __init__(self, place: Place, asking: Services) -> None:
        self._place, self._asking = place, asking
        self._actor, self._random = Actor(USER, social=False), random.Random(place.total)

    def run(self, operations: int, *, with_search: bool) -> dict[str, list[float]]:
        """Return milliseconds of each operation, ``operations`` of each."""
        reading = self._place.services.reading
        rows = self._find_rows(2 * operations + 2)
        articles, marks = iter(rows[::2]), iter(rows[1::2])
        words = itertools.cycle(WORDS)
        found = {
            "list": _time(operations, lambda: self._load(ALL)),
            "article": _time(operations, lambda: reading.get_article(self._actor, next(articles))),
            "mark": _time(operations, lambda: reading.mark(self._actor, [next(marks)], True)),
        }
        if with_search:
            found["search"] = _time(operations, lambda: self.search(next(words)))
        return found

    def _load(self, ref: StreamRef) -> Any:
        return self._place.services.reading.load_page(self._actor, StreamQuery(ref, limit=50))

    def search(self, word: str) -> None:
        """Load a page of results."""
        wanted = StreamQuery(StreamRef(StreamKind.SEARCH, query=word), Sort.NEWEST, limit=50)
        self._asking.reading.load_page(self._actor, wanted)

    def _find_rows(self, count: int) -> list[int]:
        """Return entries of the reader's feeds at random, from the whole year."""
        feeds = [d["feed_id"] for d in self._place.database["subscriptions"].find({}, {"feed_id": 1})]
        found = []
        for feed_id in self._random.sample(feeds, min(count, len(feeds))):
            last = self._place.database["feeds"].find_one({"_id": feed_id}, {"last_seq": 1}) or {}
            wanted = {"feed_id": feed_id, "seq": self._random.randint(1, last["last_seq"])}
            doc = self._place.database["entries"].find_one(wanted, {"_id": 1}) or {}
            found.append(doc["_id"])
        return found


def _time(operations: int, call: Callable[[], object]) -> list[float]:
    call()
    return [time_call(call) for _ in range(operations)]


def publish_reads(bench: Bench, places: Sequence[Place], *, searched: Sequence[int]) -> None:
    """Publish p50 and p95 of each operation at each size, and the growth from the smallest to the largest.

    The sizes take turns. Searches are answered by another process, as by the server with the index.

    Args:
        searched: The sizes that have a search index.
    """
    found: dict[int, dict[str, list[list[float]]]] = {p.total: defaultdict(list) for p in places}
    operations = 2 if bench.quick else OPERATIONS
    with contextlib.ExitStack() as stack:
        readers = {}
        for place in places:
            settings = place.services.settings
            address, _ = stack.enter_context(serve_search(settings))
            away = dataclasses.replace(settings, search=address, home=settings.home / "asking")
            asking = stack.enter_context(contextlib.closing(bootstrap.build(away)))
            readers[place.total] = Reader(place, asking)
        for _ in range(bench.repeats):
            for total, reader in readers.items():
                for name, times in reader.run(operations, with_search=total in searched).items():
                    found[total][name].append(times)
    bench.note(f"load average {os.getloadavg()[0]:.1f}")
    for total, by_name in found.items():
        for name, runs in by_name.items():
            size = format_size(total)
            bench.figure(f"scale.{name}_{size}_ms", [statistics.median(run) for run in runs], "ms")
            bench.figure(f"scale.{name}_{size}_p95_ms", [compute_percentile(run, 0.95) for run in runs], "ms")
    for name in found[places[0].total]:
        small, *_, large = (total for total in found if name in found[total])
        pairs = zip(found[small][name], found[large][name], strict=True)
        growth = [statistics.median(more) / statistics.median(less) for less, more in pairs]
        bench.figure(f"scale.{name}_growth", growth, "×", at_most=1.5)


def format_size(total: int) -> str:
    """Return a number of entries as in the names of figures: 100k, 1m, 10m."""
    return f"{total // 10**6}m" if total >= 10**6 else f"{total // 1000}k"


@benchmark("scale")
def measure_scale(bench: Bench) -> None:
    """Publish ``scale.*``: 10 million entries only with ``--large``."""
    totals = (1000, 2000) if bench.quick else (*SIZES, LARGE) if bench.large else SIZES
    feeds = 100 if bench.quick else FEEDS
    with (
        bench.servers(embedded_cache=CACHE, secret_key=KEY) as running,
        _open_places(running.settings, totals) as places,
    ):
        for place in places:
            loader = Loader(place.services, place.database, place.total, feeds)
            seconds = loader.load(indexes_last=place.total >= LARGE, say=lambda _: None)
            seconds |= loader.fill_search(lambda _: None)
            publish_load(bench, place, seconds)
        publish_reads(bench, places, searched=totals)
    costs = publish_polls(bench)
    publish_simulation(bench, costs[max(costs)])


def _say(text: str) -> None:
    click.echo(f"{dt.datetime.now(dt.UTC):%H:%M:%S} {text}")


if __name__ == "__main__":
    main()
