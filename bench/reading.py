"""Reading: what one user's counts, pages and marks cost in the service layer, and how they grow.

One user with 1,000 subscriptions. Of every feed the newest 500 entries (500,000 in all) or 2,000
(2,000,000) are there, and 30 % of them are unread, strewn at random: the dearest form of the bitmaps.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import bson
from bson.binary import Binary
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient, WriteConcern
from pymongo.database import Database

from app import bootstrap, clock
from app.bootstrap import Services
from app.models.actor import Actor
from app.models.stream import Page, StreamKind, StreamQuery, StreamRef
from app.models.subscription import make_state
from bench.harness import Bench, benchmark

USER = 1
FOLDER, FOLDER_FEEDS = 7, 150
UNREAD = 0.3
#: Between two entries of a feed: 500 of them in 30 days.
STEP_MS = 30 * 86_400_000 // 500
OPERATIONS = 20
#: Ids are 16-digit microseconds, as in life.
BASE = 1_790_000_000_000_000
ALL, IN_FOLDER = StreamRef(StreamKind.ALL), StreamRef(StreamKind.FOLDER, FOLDER)
Doc = dict[str, Any]
Times = dict[str, list[float]]


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """So many feeds of which so many of the newest entries are there."""

    feeds: int
    entries: int

    @property
    def total(self) -> int:
        return self.feeds * self.entries


class Dataset:
    """The user, his feeds and their entries, written past the services and straight as BSON.

    A feed's newest entry has the number ``most``; growing adds older ones below what is there.
    """

    def __init__(self, database: Database[Doc], feeds: int, most: int) -> None:
        options: Any = {"write_concern": WriteConcern(w=1)}
        self._database = database
        self._entries = database.get_collection("entries", **options)
        self._feeds, self._most, self._there = feeds, most, 0
        self._random = random.Random(1)
        self._newest = clock.now()
        database["folders"].insert_one(
            {"_id": FOLDER, "user_id": USER, "name": "Folder", "parent": None, "order": 0}
        )

    def grow(self, entries: int) -> None:
        """Let every feed have this many entries, and make 30 % of them unread."""
        for feed_id in range(1, self._feeds + 1):
            docs = [self._entry(feed_id, age) for age in range(self._there, entries)]
            self._entries.insert_many(docs, ordered=False)
        self._there = entries
        self._database["feeds"].delete_many({})
        self._database["feeds"].insert_many(map(self._feed, range(1, self._feeds + 1)))
        self._database["subscriptions"].delete_many({})
        self._database["subscriptions"].insert_many(map(self._subscription, range(1, self._feeds + 1)))

    def _at(self, feed_id: int, age: int) -> dt.datetime:
        # Each feed posts in its own rhythm's phase; within a feed the times rise with the numbers.
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
            "first_seq": Int64(self._most - self._there + 1),
            "last_seq": Int64(self._most),
            "last_entry_at": self._at(feed_id, 0),
            "seen": Binary(bytes(16 * 25)),
            "subscribers": 1,
            "read_at": self._newest,
            "created": self._newest,
        }

    def _subscription(self, feed_id: int) -> Doc:
        upto = self._most - self._there
        bits = 0
        for seq in range(upto + 1, self._most + 1):
            bits |= (self._random.random() >= UNREAD) << seq
        state = make_state(upto, bits, 0, ())
        return {
            "_id": Int64(BASE + feed_id),
            "user_id": Int64(USER),
            "feed_id": Int64(BASE + feed_id),
            "rev": Int64(0),
            "upto": Int64(state.upto),
            "words": {k: Int64(w) for k, w in state.words().items()},
            "unread": [],
            "title": "",
            "folder_ids": [FOLDER] if feed_id <= FOLDER_FEEDS else [],
            "order": 0,
        }


class Reader:
    """Times what a user does."""

    def __init__(self, services: Services) -> None:
        self._reading = services.reading
        self._actor = Actor(USER)
        self._random = random.Random(2)

    def times(self, operations: int) -> Times:
        """Return milliseconds of each operation, ``operations`` of each."""
        marks = self._marks()
        return {
            "counts_ms": _times(operations, lambda: self._reading.tree(self._actor)),
            "page_ms": _times(operations, lambda: self._page(ALL)),
            "folder_ms": _times(operations, lambda: self._page(IN_FOLDER)),
            "mark_ms": _times(operations, lambda: self._reading.mark(self._actor, [next(marks)], True)),
            "mark_all_ms": self._mark_all(operations),
        }

    def _page(self, ref: StreamRef) -> Page:
        return self._reading.page(self._actor, StreamQuery(ref, limit=50))

    def _marks(self) -> Iterator[int]:
        """Yield unread entries: one row of the page is one mark, none twice."""
        cursor, snapshot = None, None
        while True:
            query = StreamQuery(ALL, cursor=cursor, snapshot=snapshot, limit=1000)
            page = self._reading.page(self._actor, query)
            rows = [row.id for row in page.rows if not row.read]
            self._random.shuffle(rows)
            yield from rows
            cursor, snapshot = page.cursor, page.snapshot

    def _mark_all(self, operations: int) -> list[float]:
        found = []
        for _ in range(max(3, operations // 4)):
            started = time.perf_counter()
            marked = self._reading.mark_all(self._actor, ALL)
            found.append((time.perf_counter() - started) * 1000)
            self._reading.undo(self._actor, marked.undo)
        return found


def _times(operations: int, call: Callable[[], object]) -> list[float]:
    call()
    found = []
    for _ in range(operations):
        started = time.perf_counter()
        call()
        found.append((time.perf_counter() - started) * 1000)
    return found


@benchmark("reading")
def reading(bench: Bench) -> None:
    """Publish ``reading.*``: the figures at 500,000 entries, and the growth to 2,000,000."""
    small, middle, large = (
        (Size(10, 20), Size(20, 20), Size(20, 80))
        if bench.quick
        else (Size(100, 500), Size(1000, 500), Size(1000, 2000))
    )
    with bench.servers(embedded_cache=2 << 30) as running:
        client: MongoClient[Doc] = MongoClient(running.mongodb_uri, tz_aware=True)
        found = {}
        with client:
            for sizes in ([small], [middle, large]):
                settings = dataclasses.replace(running.settings, mongodb_name=f"bench_{sizes[0].feeds}")
                found.update(_measure(bench, settings, client, sizes))
    _publish(bench, found[small], found[middle], found[large])


def _measure(bench: Bench, settings: Any, client: MongoClient[Doc], sizes: list[Size]) -> dict[Size, Times]:
    services = bootstrap.build(settings)
    services.ensure_indexes()
    dataset = Dataset(client[settings.mongodb_name], sizes[0].feeds, sizes[-1].entries)
    found = {}
    for size in sizes:
        started = time.monotonic()
        dataset.grow(size.entries)
        bench.note(
            f"{size.feeds:,} feeds, {size.total:,} entries built in {time.monotonic() - started:.0f} s"
        )
        runs = [Reader(services).times(2 if bench.quick else OPERATIONS) for _ in range(bench.repeats)]
        found[size] = {name: [statistics.median(run[name]) for run in runs] for name in runs[0]}
        bench.note(", ".join(f"{n} {statistics.median(v):.2f}" for n, v in found[size].items()))
    services.close()
    return found


def _publish(bench: Bench, small: Times, middle: Times, large: Times) -> None:
    targets = {"counts_ms": 20, "page_ms": 40, "folder_ms": 25, "mark_ms": 3, "mark_all_ms": 100}
    for name, most in targets.items():
        bench.figure(f"reading.{name}", middle[name], "ms", at_most=most)
    growth = {n: statistics.median(large[n]) / statistics.median(middle[n]) for n in targets}
    bench.note("growth " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in growth.items()))
    bench.figure("reading.growth", list(growth.values()), "x", value=max(growth.values()), at_most=1.5)
