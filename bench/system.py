"""The whole system as a person meets it: ``eventr up``, a farm of feeds, one account, everything over HTTP.

CPU is that of all processes, databases included, from /proc. An entry counts as searchable when the search of
the API finds it. So the figures stay comparable whatever engine works inside.

``python -m bench system --large`` adds 20,000 feeds and 1,000 × 500 entries. ``--peer COMMAND`` runs a
command that measures another reader on this machine and prints a JSON object of its figures. They are named
like ours without ``system.``, and the table then also has the ratios.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import shlex
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from pymongo import MongoClient

from app import embedded
from bench.family import Family
from bench.farm import COMMON_WORD, Farm
from bench.harness import Bench, benchmark
from bench.whole import Client, Whole

FEEDS, LARGE_FEEDS, QUICK_FEEDS = 2000, 20_000, 12
#: Feeds and entries of each, for reading.
SHAPE, LARGE_SHAPE = (100, 500), (1000, 500)
CLIENTS = 16
#: Requests of one client per endpoint, and seconds of 16 clients.
REQUESTS, SECONDS = 40, 5.0
#: Seconds over which idle CPU is measured.
IDLE_SECONDS = 60.0
#: The process that writes the search index, as the figures of a family name it.
INDEX = "worker index"
_READING, _READ = "user/-/state/com.google/reading-list", "user/-/state/com.google/read"
Runs = dict[str, list[float]]


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: its unit, and the target in issue terms, if there is one."""

    unit: str
    at_most: float | None = None


ROWS: dict[str, Row] = {
    "cold_ms": Row("ms/feed", 27),
    "cold_index_ms": Row("ms/feed"),
    "cold_s": Row("s"),
    "one_new_ms": Row("ms/feed", 8),
    "one_new_index_ms": Row("ms/feed"),
    "one_new_s": Row("s"),
    "found_s": Row("s", 8),
    "304_ms": Row("ms/feed", 0.4),
    "unchanged_ms": Row("ms/feed", 0.6),
    "entry_bytes": Row("bytes", 4096),
    "index_bytes": Row("bytes"),
    "written_bytes": Row("bytes/entry", 20_480),
    "idle_mb": Row("MB", 250),
    "work_mb": Row("MB", 600),
    "idle_cpu": Row("% of a core", 1),
    "start_s": Row("s"),
    "first_page_ms": Row("ms"),
    "patch_ms": Row("ms", 3.8),
    "mark_ms": Row("ms", 3.8),
    "ids_10000_ms": Row("ms", 21),
    "ids_1000_ms": Row("ms", 10),
    "list_ms": Row("ms", 2.7),
    "article_page_ms": Row("ms", 23),
    "list_page_ms": Row("ms", 22),
    "feeds_page_ms": Row("ms", 24),
    "feed_page_ms": Row("ms", 43),
    "search_ms": Row("ms", 50),
}


@benchmark("system")
def system(bench: Bench) -> None:
    """Publish the table, its larger sizes if wanted, and the ratios to the peer."""
    peer = _measure_peer(bench)
    runs = min(3, bench.repeats)
    _publish(
        bench, _collect(runs, lambda: _measure_feeds(bench, QUICK_FEEDS if bench.quick else FEEDS)), peer
    )
    if bench.quick:  # it has read the same feeds already
        return
    small = _collect(runs, lambda: _measure_reading(bench, *SHAPE))
    _publish(bench, small, peer)
    if bench.large:
        _publish(bench, _collect(1, lambda: _measure_feeds(bench, LARGE_FEEDS)), {}, "_20000")
        large = _collect(1, lambda: _measure_reading(bench, *LARGE_SHAPE))
        _publish(bench, large, {}, "_1000x500")
        growth = [statistics.median(large[name]) / statistics.median(small[name]) for name in _alone(small)]
        bench.figure("system.growth", [max(growth)], "×", at_most=1.5)


def _alone(runs: Runs) -> list[str]:
    return [name for name in runs if name in ROWS]


def _collect(runs: int, measure: Callable[[], Mapping[str, float]]) -> Runs:
    found: Runs = {}
    for _ in range(runs):
        for name, value in measure().items():
            found.setdefault(name, []).append(value)
    return found


def _publish(bench: Bench, runs: Runs, peer: Mapping[str, float], suffix: str = "") -> None:
    """Publish figures, and beside each one that the peer has as well its figure and the ratio."""
    for name, values in runs.items():
        row = ROWS.get(name, Row("ms"))
        bench.figure(f"system.{name}{suffix}", values, row.unit, at_most=row.at_most)
        if name in peer:
            bench.figure(f"system.{name}_peer", [peer[name]], row.unit)
            bench.figure(f"system.{name}_vs_peer", [value / peer[name] for value in values], "×")


def _measure_peer(bench: Bench) -> dict[str, float]:
    if not bench.peer:
        return {}
    bench.note(f"peer: {bench.peer}")
    done = subprocess.run(shlex.split(bench.peer), stdout=subprocess.PIPE, text=True, check=True)
    return {str(name): float(value) for name, value in json.loads(done.stdout).items()}


@contextlib.contextmanager
def _running(feeds: int, entries: int | None = None) -> Iterator[Whole]:
    with Farm(feeds, entries) as farm, Whole(farm) as whole:
        whole.sign_up()
        yield whole


class Cost:
    """CPU, elapsed time and bytes written of a piece of work."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self.started, self._written, self._cpu = time.perf_counter(), family.written(), family.cpu()

    def stop(self) -> tuple[float, float, int]:
        """Return CPU seconds, elapsed seconds and bytes written since the start."""
        cpu = self._family.cpu() - self._cpu
        return cpu, time.perf_counter() - self.started, self._family.written() - self._written


# -- feeds


def _measure_feeds(bench: Bench, feeds: int) -> dict[str, float]:
    with _running(feeds) as whole:
        found = {"start_s": whole.start_seconds} | _measure_idle(bench, whole)
        with whole.family.peak(0.5) as memory:
            found |= _import(bench, whole)
            found |= _measure_unchanged(whole)
            found |= _publish_one(bench, whole)
        peak = max(memory, key=lambda sample: sum(sample.values()))
        bench.note(_list("memory at work, MB", peak))
        found["work_mb"] = sum(peak.values())
        found |= _measure_disk(bench, whole)
        if bench.quick:
            found |= _read(bench, whole)
        whole.restart()
        found["first_page_ms"] = _time_first_page(whole)
    return found


def _measure_idle(bench: Bench, whole: Whole) -> dict[str, float]:
    """Measure CPU and memory of the system when nobody does anything."""
    whole.settle()
    seconds = 1.0 if bench.quick else IDLE_SECONDS
    before, started = whole.family.cpu_by_name(), time.perf_counter()
    time.sleep(seconds)
    after, elapsed = whole.family.cpu_by_name(), time.perf_counter() - started
    used = {name: 100 * (value - before.get(name, 0.0)) / elapsed for name, value in after.items()}
    memory = whole.family.memory_by_name()
    bench.note(_list("idle CPU, % of a core", used))
    bench.note(_list("idle memory, MB", memory))
    return {"idle_cpu": sum(used.values()), "idle_mb": sum(memory.values())}


def _import(bench: Bench, whole: Whole) -> dict[str, float]:
    """Import all feeds; the end is when the search finds all entries."""
    cost, before = Cost(whole.family), whole.family.cpu_by_name()
    whole.import_all()
    imported = time.perf_counter()
    whole.wait_found()
    bench.note(f"searchable {time.perf_counter() - imported:.1f} s after the end of the import")
    whole.settle()
    cpu, seconds, _ = cost.stop()
    after = whole.family.cpu_by_name()
    used = {name: value - before.get(name, 0.0) for name, value in after.items()}
    bench.note(_list("CPU of the import, s", used))
    index = used.get(INDEX, 0.0)
    feeds = whole.farm.feeds
    return {"cold_ms": 1000 * cpu / feeds, "cold_index_ms": 1000 * index / feeds, "cold_s": seconds}


def _measure_unchanged(whole: Whole) -> dict[str, float]:
    """Poll all feeds while nothing is new: with 304s, and with the same documents."""
    found = {}
    for name, validators in (("304_ms", True), ("unchanged_ms", False)):
        whole.farm.use_validators(validators)
        before, cost = whole.farm.count(), Cost(whole.family)
        whole.refresh_all()
        whole.settle()
        cpu = cost.stop()[0]
        after = whole.farm.count()
        answers = after.unchanged - before.unchanged if validators else after.documents - before.documents
        if answers < whole.farm.feeds:
            raise RuntimeError(f"{name}: only {answers} of {whole.farm.feeds} responses are of this kind")
        found[name] = 1000 * cpu / whole.farm.feeds
    whole.farm.use_validators(True)
    return found


def _publish_one(bench: Bench, whole: Whole) -> dict[str, float]:
    """Let every feed publish one entry; the end is when the search finds all of them."""
    whole.farm.publish()
    whole.flush()  # what the import left in memory isn't written for the new entries
    cost, before = Cost(whole.family), whole.family.cpu_by_name()
    whole.refresh_all()
    fetched = time.perf_counter()
    whole.wait_found()
    ended = time.perf_counter()
    whole.settle()
    whole.flush()
    cpu, _, written = cost.stop()
    index = whole.family.cpu_by_name().get(INDEX, 0.0) - before.get(INDEX, 0.0)
    feeds = whole.farm.feeds
    bench.note(f"all fetched {ended - fetched:.1f} s before the search found them")
    return {
        "one_new_ms": 1000 * cpu / feeds,
        "one_new_index_ms": 1000 * index / feeds,
        "one_new_s": ended - cost.started,
        "found_s": ended - fetched,
        "written_bytes": written / feeds,
    }


def _measure_disk(bench: Bench, whole: Whole) -> dict[str, float]:
    """Return the size of all data on disk per entry, without logs and journals; note its parts."""
    entries = whole.farm.corpus.total() + whole.farm.epoch * whole.farm.feeds
    parts: dict[str, float] = {}
    settings = embedded.resolve_addresses(whole.settings)
    whole.flush()
    with MongoClient[dict[str, Any]](settings.mongodb_uri) as client:
        database = client[settings.mongodb_name]
        for name in database.list_collection_names():
            stats = database.command("collStats", name)
            parts[name] = (stats["storageSize"] + stats["totalIndexSize"]) / entries
    for folder in [*whole.home.glob("var/*"), *whole.home.glob("var/data/*")]:
        if folder.is_dir() and folder.name not in ("data", "log", "run", "mongodb", "redis"):
            parts[folder.name] = sum(map(_size, folder.rglob("*"))) / entries
    bench.note(_list("bytes on disk per entry", parts))
    return {"entry_bytes": sum(parts.values()), "index_bytes": parts.get("search", 0.0)}


def _size(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512 if path.is_file() else 0
    except FileNotFoundError:
        return 0


def _time_first_page(whole: Whole) -> float:
    """Return the milliseconds of the first page after a start."""
    with contextlib.closing(whole.open_browser()) as browser:
        started = time.perf_counter()
        browser.get("/read/all")
        return 1000 * (time.perf_counter() - started)


# -- reading


def _measure_reading(bench: Bench, feeds: int, entries: int) -> dict[str, float]:
    with _running(feeds, entries) as whole:
        whole.import_all()
        whole.wait_found()
        whole.settle()
        return _read(bench, whole)


def _read(bench: Bench, whole: Whole) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, endpoint in build_endpoints(whole).items():
        found |= {f"{name}{suffix}": value for suffix, value in _time(bench, whole, endpoint).items()}
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """A request that is repeated: who opens the connection, and what the nth request sends."""

    open: Callable[[], Client]
    send: Callable[[Client, int], bytes]


def build_endpoints(whole: Whole) -> dict[str, Endpoint]:
    """Return the requests that are measured, by name."""
    with contextlib.closing(whole.open_program()) as program:
        page = json.loads(program.get("/streams/all/entries?show=unread&limit=1000"))
        ids = [row["id"] for row in page["items"]]
    with contextlib.closing(whole.open_browser()) as browser:
        search = browser.locate(f"/search?q={quote(COMMON_WORD)}")
        article = browser.locate(f"/entries/{ids[9 % len(ids)]}")

    def page_of(path: str) -> Endpoint:
        return Endpoint(whole.open_browser, lambda client, _: client.get(path))

    def ids_of(count: int) -> Endpoint:
        query = urlencode({"output": "json", "n": count, "s": _READING, "xt": _READ})
        return Endpoint(whole.open_app, lambda client, _: client.get(f"/stream/items/ids?{query}"))

    def patch(client: Client, number: int) -> bytes:
        # Alternately read and unread, so that each request changes something.
        change = {"read": number // len(ids) % 2 == 0}
        return client.send("PATCH", f"/entries/{ids[number % len(ids)]}", json.dumps(change).encode())

    def mark(client: Client, number: int) -> bytes:
        change = {"ids": [ids[number % len(ids)]], "read": number // len(ids) % 2 == 1}
        return client.send("POST", "/entries/mark", json.dumps(change).encode())

    return {
        "list_page": page_of("/read/all"),
        "article_page": page_of(article),
        "feeds_page": page_of("/subscriptions"),
        "feed_page": page_of(f"/read/feed/{page['items'][0]['feed_id']}"),
        "search": page_of(search),
        "list": Endpoint(whole.open_app, lambda client, _: client.get("/subscription/list?output=json")),
        "ids_10000": ids_of(10_000),
        "ids_1000": ids_of(1000),
        "patch": Endpoint(whole.open_program, patch),
        "mark": Endpoint(whole.open_program, mark),
    }


def _time(bench: Bench, whole: Whole, endpoint: Endpoint) -> dict[str, float]:
    """Return the median milliseconds with one client and with 16, and the CPU of a request with 16."""
    numbers = iter(range(1_000_000))
    with contextlib.closing(endpoint.open()) as client:
        alone = [_request(endpoint, client, next(numbers)) for _ in range(4 if bench.quick else REQUESTS)]
    cost, times, lock = Cost(whole.family), list[float](), threading.Lock()
    ends = time.perf_counter() + (0.2 if bench.quick else SECONDS)
    errors: list[Exception] = []

    def repeat() -> None:
        try:
            with contextlib.closing(endpoint.open()) as client:
                while True:  # at least one request, however late this thread starts
                    with lock:
                        number = next(numbers)
                    times.append(_request(endpoint, client, number))
                    if time.perf_counter() > ends:
                        return
        except (OSError, http.client.HTTPException, RuntimeError) as e:
            errors.append(e)

    threads = [threading.Thread(target=repeat) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    cpu = cost.stop()[0]
    return {
        "_ms": statistics.median(alone[1:]),
        "_16_ms": statistics.median(times),
        "_16_cpu_ms": 1000 * cpu / len(times),
    }


def _request(endpoint: Endpoint, client: Client, number: int) -> float:
    started = time.perf_counter()
    endpoint.send(client, number)
    return 1000 * (time.perf_counter() - started)


def _list(what: str, parts: Mapping[str, float]) -> str:
    sizes = sorted(parts.items(), key=lambda pair: -pair[1])
    return f"{what}: " + ", ".join(f"{name} {value:,.4g}" for name, value in sizes if value)
