"""Reading: the cost of a user's counts, pages and marks in the service layer, and its growth.

One user has 1,000 subscriptions. Every feed has 500 entries (500,000 in all) or 2,000 (2,000,000). 30 % of
them are unread, scattered at random: the most expensive case for the bitmaps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import bson
import pymongo
from bson.binary import Binary
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient, WriteConcern
from pymongo.database import Database

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.config import Settings
from app.embedded.child import poll
from app.models.accounts.actor import Actor
from app.models.reading.stream import MassMarkResult, Page, StreamKind, StreamQuery, StreamRef
from app.models.subscriptions.read_state import make_state
from bench.harness import Bench, benchmark, time_call

USER = 1
FOLDER, FOLDER_FEEDS = 7, 150
UNREAD = 0.3
#: Time between two entries of a feed: 500 of them in 30 days.
STEP_MS = 30 * 86_400_000 // 500
OPERATIONS = 20
#: Part of MongoDB's cache that may still be dirty when the measurement starts.
DIRTY = 0.005
#: Ids are 16-digit microseconds, as in production.
BASE = 1_790_000_000_000_000
ALL, IN_FOLDER = StreamRef(StreamKind.ALL), StreamRef(StreamKind.FOLDER, FOLDER)
Doc = dict[str, Any]
Times = dict[str, list[float]]
#: Medians by operation, in milliseconds.
Run = Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """The number of feeds, and of the newest entries of each."""

    feeds: int
    entries: int

    @property
    def total(self) -> int:
        return self.feeds * self.entries


class Dataset:
    """The user, their feeds and their entries, written directly as BSON, without the services."""

    def __init__(self, database: Database[Doc], feeds: int) -> None:
        options: Any = {"write_concern": WriteConcern(w=1)}
        self._database = database
        self._entries = database.get_collection("entries", **options)
        self._feeds, self._most = feeds, 0
        self._random = random.Random(1)
        self._newest = clock.now()

    def fill(self, entries: int) -> None:
        """Give every feed this many entries, and mark 30 % of them as unread."""
        self._most = entries
        for feed_id in range(1, self._feeds + 1):
            self._entries.insert_many([self._entry(feed_id, age) for age in range(entries)], ordered=False)
        self._database["folders"].insert_one(
            {"_id": FOLDER, "user_id": USER, "name": "Folder", "parent": None, "order": 0}
        )
        self._database["feeds"].insert_many(map(self._feed, range(1, self._feeds + 1)))
        self._database["subscriptions"].insert_many(map(self._subscription, range(1, self._feeds + 1)))

    def _at(self, feed_id: int, age: int) -> dt.datetime:
        # Each feed has its own offset; within a feed, times increase with the numbers.
        phase = feed_id * 7919 % STEP_MS
        return self._newest - dt.timedelta(milliseconds=age * STEP_MS + phase)

    def _entry(self, feed_id: int, age: int) -> RawBSONDocument:
        seq = self._most - age
        doc = {
            "_id": BASE + (seq * (self._feeds + 1) + feed_id) * 16,
            "feed_id": BASE + feed_id,
            "seq": seq,
            "guid_hash": Binary(seq.to_bytes(8, "big")),
            "at": self._at(feed_id, age),
            "arrived": self._at(feed_id, age),
            "title": f"Entry {seq} of feed {feed_id} with a title of usual length",
            "url": f"https://feed{feed_id}.example.org/posts/{seq}",
            "excerpt": "What the entry begins with. " * 6,
            "author": "",
        }
        return RawBSONDocument(bson.encode(doc))

    def _feed(self, feed_id: int) -> Doc:
        return {
            "_id": Int64(BASE + feed_id),
            "kind": "web",
            "url": f"https://feed{feed_id}.example.org/feed",
            "url_key": f"key{feed_id}",
            "title": f"Feed {feed_id}",
            "site_url": f"https://feed{feed_id}.example.org/",
            "first_seq": Int64(1),
            "last_seq": Int64(self._most),
            "last_entry_at": self._at(feed_id, 0),
            "seen": Binary(bytes(16 * 25)),
            "subscribers": 1,
            "read_at": self._newest,
            "created": self._newest,
        }

    def _subscription(self, feed_id: int) -> Doc:
        bits = 0
        for seq in range(1, self._most + 1):
            bits |= (self._random.random() >= UNREAD) << seq
        state = make_state(0, bits, 0, ())
        return {
            "_id": Int64(BASE + feed_id),
            "user_id": Int64(USER),
            "feed_id": Int64(BASE + feed_id),
            "rev": Int64(0),
            "upto": Int64(state.upto),
            "words": {k: Int64(w) for k, w in state.to_words().items()},
            "unread": [],
            "title": "",
            "folder_ids": [FOLDER] if feed_id <= FOLDER_FEEDS else [],
            "orders": {},
        }


class Reader:
    """Times a user's operations."""

    def __init__(self, services: Services) -> None:
        self._reading = services.reading
        self._actor = Actor(USER, social=False)
        self._random = random.Random(2)

    def times(self, operations: int) -> Times:
        """Return milliseconds of each operation, ``operations`` of each."""
        marks = self._marks()
        return {
            "counts_ms": _times(operations, lambda: self._reading.get_tree(self._actor)),
            "page_ms": _times(operations, lambda: self._page(ALL)),
            "folder_ms": _times(operations, lambda: self._page(IN_FOLDER)),
            "mark_ms": _times(operations, lambda: self._reading.mark(self._actor, [next(marks)], True)),
            "mark_all_ms": self._mark_all(operations),
        }

    def _page(self, ref: StreamRef) -> Page:
        return self._reading.load_page(self._actor, StreamQuery(ref, limit=50))

    def _marks(self) -> Iterator[int]:
        """Yield unread entries: each mark gets a new row of the page."""
        cursor, snapshot = None, None
        while True:
            query = StreamQuery(ALL, cursor=cursor, snapshot=snapshot, limit=1000)
            page = self._reading.load_page(self._actor, query)
            rows = [row.id for row in page.rows if not row.read]
            self._random.shuffle(rows)
            yield from rows
            cursor, snapshot = page.cursor, page.snapshot

    def _mark_all(self, operations: int) -> list[float]:
        found = []
        for _ in range(max(3, operations // 4)):
            marks: list[MassMarkResult] = []
            found.append(time_call(lambda: marks.append(self._reading.mark_all(self._actor, ALL))))  # noqa: B023
            self._reading.undo_mass_mark(self._actor, marks[0].undo)
        return found


def _times(operations: int, call: Callable[[], object]) -> list[float]:
    call()
    return [time_call(call) for _ in range(operations)]


@benchmark("reading")
def reading(bench: Bench) -> None:
    """Publish ``reading.*``: the figures at 500,000 entries, and the growth to 2,000,000.

    A user with 100 subscriptions and 50,000 entries is measured for comparison. All sizes exist side by side
    and are measured in turns, so that a busy machine affects all.
    """
    quick, real = (
        (Size(4, 20), Size(20, 20), Size(20, 80)),
        (Size(100, 500), Size(1000, 500), Size(1000, 2000)),
    )
    sizes = quick if bench.quick else real
    with bench.servers(embedded_cache=2 << 30) as running, contextlib.ExitStack() as stack:
        client = stack.enter_context(MongoClient[Doc](running.mongodb_uri, tz_aware=True))
        built = [_build(bench, running.settings, client, size) for size in sizes]
        for services in built:
            stack.callback(services.close)
        _settle(bench, client)
        operations = 2 if bench.quick else OPERATIONS
        small, middle, large = zip(
            *(_turn(bench, built, sizes, operations) for _ in range(bench.repeats)), strict=True
        )
    _publish(bench, small, middle, large)


def _build(bench: Bench, settings: Settings, client: MongoClient[Doc], size: Size) -> Services:
    settings = dataclasses.replace(settings, mongodb_name=f"bench_{size.feeds}_{size.entries}")
    services = bootstrap.build(settings)
    services.migrate()
    started = time.monotonic()
    Dataset(client[settings.mongodb_name], size.feeds).fill(size.entries)
    bench.note(f"{size.feeds:,} feeds, {size.total:,} entries built in {time.monotonic() - started:.0f} s")
    return services


def _settle(bench: Bench, client: MongoClient[Doc]) -> None:
    """Wait until MongoDB has written the new data to its files: until then, reads share the cache with it."""
    started = time.monotonic()
    with pymongo.timeout(None):
        client.admin.command("fsync")  # returns after a checkpoint
        if not poll(lambda: _dirty(client) < DIRTY, 120):
            bench.note("MongoDB has not settled: its cache stays dirty")
    bench.note(f"settled in {time.monotonic() - started:.0f} s")


def _dirty(client: MongoClient[Doc]) -> float:
    """Return the dirty part of the cache."""
    cache = client.admin.command("serverStatus")["wiredTiger"]["cache"]
    dirty: float = cache["tracked dirty bytes in the cache"] / cache["maximum bytes configured"]
    return dirty


def _turn(
    bench: Bench, built: Sequence[Services], sizes: Sequence[Size], operations: int
) -> tuple[dict[str, float], ...]:
    """Measure each size once; return the medians by operation."""
    found = []
    for services, size in zip(built, sizes, strict=True):
        times = Reader(services).times(operations)
        found.append({name: statistics.median(each) for name, each in times.items()})
        bench.note(f"{size.total:,}: " + ", ".join(f"{n} {value:.2f}" for n, value in found[-1].items()))
    return tuple(found)


def _publish(bench: Bench, small: Sequence[Run], middle: Sequence[Run], large: Sequence[Run]) -> None:
    targets = {"counts_ms": 20, "page_ms": 40, "folder_ms": 25, "mark_ms": 3, "mark_all_ms": 100}
    for name, most in targets.items():
        bench.figure(f"reading.{name}", [run[name] for run in middle], "ms", at_most=most)
    _growth(bench, "50,000 to 500,000", small, middle)
    growth = _growth(bench, "500,000 to 2,000,000", middle, large)
    bench.figure("reading.growth", list(growth.values()), "x", value=max(growth.values()), at_most=1.5)


def _growth(bench: Bench, what: str, less: Sequence[Run], more: Sequence[Run]) -> Run:
    """Print and return the factor by which each operation gets slower."""
    found = {
        name: statistics.median(b[name] / a[name] for a, b in zip(less, more, strict=True))
        for name in less[0]
    }
    bench.note(f"growth {what}: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in found.items()))
    return found
