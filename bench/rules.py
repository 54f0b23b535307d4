"""Rules on new entries: 10 feeds with 1,000 new entries each, a reader with 100 rules; the job's CPU time.

The entries have the words of real ones: about 250 each, in the languages of the corpus. A third of the rules
has a regular expression. MongoDB's CPU time is noted apart.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import random
from collections.abc import Iterator
from typing import Any

from bson.binary import Binary
from bson.int64 import Int64

from app import clock
from app.bootstrap import services as bootstrap
from app.bootstrap.services import Services
from app.mappers.feeds import entry_bodies
from app.models.accounts.actor import Actor, Role
from app.models.reading.rules import Rule
from bench.harness import Bench, Cpu, benchmark, mongod
from tests.support import corpus
from tests.support.reader import PASSWORD

Doc = dict[str, Any]
FEEDS, ENTRIES, RULES = 10, 1000, 100
#: CPU seconds for all entries.
TARGET = 30.0
WORDS = 250


@benchmark("rules")
def rules(bench: Bench) -> None:
    """Publish ``rules.cpu_s``: 10,000 entries and 100 rules."""
    entries, count = (20, 10) if bench.quick else (ENTRIES, RULES)
    runs = []
    for run in range(bench.repeats):
        with bench.servers() as running, contextlib.closing(bootstrap.build(running.settings)) as services:
            services.migrate()
            _fill(services, entries, count, random.Random(run))
            with Cpu(mongod(running)) as cpu:
                done = services.rule_runner.run(clock.now(), seconds=600)
            runs.append(cpu.own)
            bench.note(f"{done}; mongod {cpu.others:.1f} s")
    bench.figure("rules.cpu_s", runs, "s", at_most=TARGET)


def _read_words() -> Iterator[list[str]]:
    """Yield the words of real feeds, again and again."""
    texts = [row.read().decode("utf-8", "replace") for row in corpus.genuine_feeds()[:40]]
    return itertools.cycle([word for word in text.split() if word.isalnum()] or ["word"] for text in texts)


def _fill(services: Services, entries: int, count: int, chosen: random.Random) -> None:
    admin = Actor(1, Role.ADMIN)
    ann = services.accounts.create_user(admin, "ann@example.org", "ann", PASSWORD, Role.USER).actor
    vocabulary, now = _read_words(), clock.now()
    feeds = [
        services.subscriptions.subscribe(ann, f"https://feed{n}.example.org/").subscription.feed_id
        for n in range(FEEDS)
    ]
    for number in range(count):
        word = chosen.choice(next(vocabulary)).lower()
        query = (f"title:/^{word[:3]}/", f"{word} -sport", f'"{word} {chosen.choice(next(vocabulary))}"')
        services.rules.save(ann, Rule(0, f"Rule {number}", query[number % 3], highlight=True))
    database = services.store.database
    for feed_id in feeds:
        docs = [_make_entry(feed_id, seq, next(vocabulary), chosen, now) for seq in range(1, entries + 1)]
        database["entries"].insert_many(docs)
        fields = {"first_seq": Int64(1), "last_seq": Int64(entries), "news_at": now}
        database["feeds"].update_one({"_id": feed_id}, {"$set": fields})
    database["subscriptions"].update_many({}, {"$set": {"ruled": Int64(0)}})


def _make_entry(feed_id: int, seq: int, words: list[str], chosen: random.Random, now: dt.datetime) -> Doc:
    html = "<p>" + " ".join(chosen.choices(words, k=WORDS)) + "</p>"
    return {
        "_id": Int64(feed_id * 1000 + seq),
        "feed_id": Int64(feed_id),
        "seq": Int64(seq),
        "guid_hash": Binary(seq.to_bytes(8, "big")),
        "at": now,
        "arrived": now,
        "title": " ".join(chosen.choices(words, k=8)),
        "url": f"https://feed.example.org/{seq}",
        "author": "",
        "excerpt": html[3:200],
        "revision": 1,
        "body": entry_bodies.pack(html, "", b""),
    }
