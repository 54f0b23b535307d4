"""Stories: what finding copies costs per new entry, in CPU time and in bytes of ``twins``.

10,000 entries of 20 feeds with 300 words each. Every tenth is a copy of an earlier one: half of them have its
address, the others only 2 % other words.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import random
from typing import Any

from app import clock
from app.bootstrap import services as bootstrap
from app.feeds.fingerprints import hash_linked_page, hash_text
from app.models.reading.entry import EntryKey
from app.models.reading.story import Fingerprint
from bench.harness import Bench, Cpu, benchmark, mongod

Doc = dict[str, Any]
FEEDS, ENTRIES, WORDS = 20, 10_000, 300
#: Entries per call, as the job that updates the search index has.
BATCH = 500
#: Every so many entries, one is a copy.
COPY = 10
#: Bytes per entry: data and indexes of ``twins``.
BYTES_TARGET = 1000
#: Milliseconds of CPU per entry, with MongoDB.
CPU_TARGET = 1.5


@benchmark("stories")
def stories(bench: Bench) -> None:
    """Publish ``stories.hash_ms``, ``record_ms``, ``mongod_ms`` and ``bytes_per_entry``."""
    number = 500 if bench.quick else ENTRIES
    hashing, recording, storing, sizes = [], [], [], []
    for run in range(bench.repeats):
        with bench.servers() as running, contextlib.closing(bootstrap.build(running.settings)) as services:
            services.migrate()
            with Cpu() as hashed:
                prints = _make_prints(number, random.Random(run))
            gateway, found = services.gateways.stories, 0
            with Cpu(mongod(running)) as cpu:
                for start in range(0, number, BATCH):
                    found += gateway.record(prints[start : start + BATCH], clock.now())
            services.store.database.client.admin.command("fsync")
            stats = services.store.database.command("collStats", "twins")
            hashing.append(hashed.own * 1000 / number)
            recording.append(cpu.own * 1000 / number)
            storing.append(cpu.others * 1000 / number)
            sizes.append((stats["size"] + stats["totalIndexSize"]) / number)
            bench.note(
                f"{found} copies; documents {stats['size'] / number:.0f} B per entry, on disk "
                f"{stats['storageSize'] / number:.0f} B, indexes {stats['totalIndexSize'] / number:.0f} B"
            )
    bench.figure("stories.hash_ms", hashing, "ms")
    bench.figure("stories.record_ms", recording, "ms", at_most=CPU_TARGET)
    bench.figure("stories.mongod_ms", storing, "ms", at_most=CPU_TARGET)
    bench.figure("stories.bytes_per_entry", sizes, "B", at_most=BYTES_TARGET)


def _make_prints(number: int, chosen: random.Random) -> list[Fingerprint]:
    """Return the fingerprints of new entries, oldest first."""
    words = [f"word{n}" for n in range(5000)]
    now, found, texts = clock.now(), list[Fingerprint](), list[list[str]]()
    for n in range(number):
        url = f"https://site{n % FEEDS}.example.org/{n}"
        text = chosen.choices(words, k=WORDS)
        if n % COPY == 0 and n >= COPY * 2:
            first = n - COPY - chosen.randrange(1, COPY)  # never a copy itself
            text = list(texts[first])
            if n % (2 * COPY):
                url = f"https://site{first % FEEDS}.example.org/{first}"
            else:
                for place in chosen.sample(range(WORDS), WORDS // 50):
                    text[place] = "changed"
        texts.append(text)
        at = now - dt.timedelta(seconds=number - n)
        key = EntryKey(n + 1, n % FEEDS + 1, n // FEEDS + 1, round(at.timestamp() * 1000))
        found.append(Fingerprint(key, hash_linked_page(url), hash_text(" ".join(text)), "en"))
    return found
