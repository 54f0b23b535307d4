"""Finding feeds by words while someone types: 10,000 feeds, and their names letter by letter.

The names have the words of real feeds. Each typed letter is one search, as the field sends it; its time
includes MongoDB.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
import statistics
import time
from typing import Any

from bson.binary import Binary
from bson.int64 import Int64

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.models.accounts.actor import Actor, Role
from app.models.subscriptions.read_state import make_state
from bench.harness import Bench, Cpu, benchmark, mongod
from bench.scale_people import compute_percentile
from tests.support import corpus
from tests.support.reader import PASSWORD

Doc = dict[str, Any]
FEEDS, NAMES, BATCH = 10_000, 60, 500
#: Milliseconds until the names of feeds appear below the field (power reading, as-you-type search).
TARGET = 30.0


@benchmark("feedsearch")
def feedsearch(bench: Bench) -> None:
    """Publish ``feedsearch.typed_p50_ms``, ``typed_p95_ms``, ``own_ms`` and ``mongod_ms``."""
    feeds, names = (300, 5) if bench.quick else (FEEDS, NAMES)
    medians, slowest, own, others = [], [], [], []
    for run in range(bench.repeats):
        with bench.servers() as running:
            # One reader types more in a minute than anyone can.
            settings = dataclasses.replace(running.settings, feed_searches_per_minute=10**6)
            with contextlib.closing(bootstrap.build(settings)) as services:
                services.migrate()
                titles = _fill(services, feeds, random.Random(run))
                admin = Actor(1, Role.ADMIN)
                ann = services.accounts.create_user(
                    admin, "ann@example.org", "ann", PASSWORD, Role.USER
                ).actor
                typed = [title[:end] for title in titles[:names] for end in range(1, min(len(title), 16))]
                times, found = [], 0
                with Cpu(mongod(running)) as cpu:
                    for text in typed:
                        start = time.perf_counter()
                        found += len(services.feed_search.find(ann, text))
                        times.append((time.perf_counter() - start) * 1000)
                medians.append(statistics.median(times))
                slowest.append(compute_percentile(times, 0.95))
                own.append(cpu.own * 1000 / len(typed))
                others.append(cpu.others * 1000 / len(typed))
                bench.note(
                    f"{len(typed)} searches of {feeds:,} feeds, {found / len(typed):.1f} found by each"
                )
    bench.figure("feedsearch.typed_p50_ms", medians, "ms", at_most=TARGET)
    bench.figure("feedsearch.typed_p95_ms", slowest, "ms", at_most=TARGET)
    bench.figure("feedsearch.own_ms", own, "ms")
    bench.figure("feedsearch.mongod_ms", others, "ms")


def _fill(services: Services, number: int, chosen: random.Random) -> list[str]:
    """Store and index feeds; half of them have two subscribers, whose privacy each search checks."""
    words = _read_words()
    chosen.shuffle(words)
    taken = itertools.cycle(words)
    titles = [" ".join(itertools.islice(taken, chosen.randrange(1, 5))) for _ in range(number)]
    now, database = clock.now(), services.store.database
    feeds = [
        {
            "_id": Int64(n + 1),
            "kind": "web",
            "url": f"https://site{n}.example.org/feed",
            "url_key": f"key{n}",
            "title": title,
            "site_url": f"https://site{n}.example.org/",
            "description": " ".join(itertools.islice(taken, 12)),
            "first_seq": Int64(1),
            "last_seq": Int64(1),
            "seen": Binary(b""),
            "subscribers": 2 if n % 2 else 100,
            "last_entry_at": now,
            "created": now,
        }
        for n, title in enumerate(titles)
    ]
    for start in range(0, number, BATCH):
        part = feeds[start : start + BATCH]
        database["feeds"].insert_many(part)
        rows = [_subscribe(feed["_id"], user) for feed in part if feed["subscribers"] == 2 for user in (2, 3)]
        database["subscriptions"].insert_many(rows)
    if services.feed_search.run(0, seconds=600.0)["next"] is not None:
        raise RuntimeError("not all feeds were indexed in 10 minutes")
    chosen.shuffle(titles)
    return titles


def _read_words() -> list[str]:
    """Return different words of real feeds."""
    texts = [row.read().decode("utf-8", "replace") for row in corpus.genuine_feeds()]
    found = {word for text in texts for word in text.split() if word.isalpha() and 3 <= len(word) <= 16}
    return sorted(found) or [f"word{n}" for n in range(5000)]


def _subscribe(feed_id: int, user_id: int) -> Doc:
    state = make_state(0, 0, 0, ())
    return {
        "_id": Int64(feed_id * 10 + user_id),
        "user_id": Int64(user_id),
        "feed_id": Int64(feed_id),
        "rev": Int64(0),
        "upto": Int64(state.upto),
        "words": {k: Int64(w) for k, w in state.to_words().items()},
        "unread": [],
        "title": "",
        "folder_ids": [],
        "orders": {},
    }
