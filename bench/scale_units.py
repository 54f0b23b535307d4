"""What a request, a mark, a poll and a new entry cost MongoDB and Redis, in the whole system.

``eventr up`` runs, and its own servers count: MongoDB's ``opcounters``, Redis's ``commandstats``, and the CPU
of both processes. What they count while nobody does anything is measured before and taken off. Requests are
those of ``bench.system``.

Then a mix of all of them is run at once, in the proportions that the simulation assumes. The figures
``scale.sim_check_*`` compare what the servers count then with the sum of the unit costs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import redis
from bson.int64 import Int64
from pymongo import MongoClient

from app import embedded
from app.mappers.mongo.indexes import INDEXES
from bench.farm import Farm
from bench.harness import Bench
from bench.scale_polls import COUNTED
from bench.system import Endpoint, build_endpoints
from bench.whole import Whole

Doc = dict[str, Any]
#: Feeds of the farm and entries of each; requests of each kind; and requests of the mix, beside its marks.
FEEDS, QUICK_FEEDS, ENTRIES = 400, 12, 25
REQUESTS, MIXED, QUICK_REQUESTS = 100, 100, 4
#: Requests before those that are measured: they fill caches.
FIRST = 5
#: Seconds over which is counted what happens when nobody does anything.
IDLE_SECONDS, QUICK_SECONDS = 15.0, 1.0
#: Commands of Redis that measuring itself sends.
_OWN = frozenset({"cmdstat_info"})
#: Documents whose bytes are measured, and how many of them a person has.
COPIES, PER_PERSON = 20_000, 100
#: The endpoints of ``bench.system``, and what the simulation calls them.
KINDS = {"list": "list_page", "article": "article_page", "search": "search", "mark": "mark"}


class UnitCost(NamedTuple):
    """What one request, poll or entry costs: operations that the servers count, and CPU in seconds.

    ``other_cpu`` is that of all other processes.
    """

    mongodb_operations: float
    redis_operations: float
    mongodb_cpu: float = 0.0
    redis_cpu: float = 0.0
    other_cpu: float = 0.0

    def times(self, count: float) -> UnitCost:
        """Return the cost of so many."""
        return UnitCost(*(value * count for value in self))

    def plus(self, other: UnitCost) -> UnitCost:
        """Return the cost of both."""
        return UnitCost(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


@dataclasses.dataclass(frozen=True, slots=True)
class Units:
    """Unit costs of the whole system.

    Attributes:
        requests: by kind, the keys of :data:`KINDS`.
        poll: of a feed without news; new_entry: what a new entry costs besides.
        subscription_bytes, mark_bytes: of a document with its index keys. feed_bytes: of a feed's document.
    """

    requests: Mapping[str, UnitCost]
    poll: UnitCost
    new_entry: UnitCost
    subscription_bytes: float
    mark_bytes: float
    feed_bytes: float


class _Meter:
    """Counts what MongoDB and Redis of a running system do."""

    def __init__(self, whole: Whole) -> None:
        self._whole, settings = whole, embedded.resolve_addresses(whole.settings)
        self.client = MongoClient[Doc](settings.mongodb_uri)
        self.database = self.client[settings.mongodb_name]
        self._redis = redis.Redis.from_url(settings.redis_url)
        self._idle = UnitCost(0, 0)

    def close(self) -> None:
        self._redis.close()
        self.client.close()

    def _read(self) -> UnitCost:
        counters = self.client.admin.command("serverStatus")["opcounters"]
        stats: Any = self._redis.info("commandstats")
        cpu = self._whole.family.cpu_by_name()
        return UnitCost(
            sum(counters[name] for name in COUNTED),
            sum(row["calls"] for name, row in stats.items() if name not in _OWN),
            mongodb := _find(cpu, "mongod"),
            cache := _find(cpu, "redis"),
            sum(cpu.values()) - mongodb - cache,
        )

    def measure_idle(self, seconds: float) -> UnitCost:
        """Measure what happens per second when nobody does anything, and take it off from now on."""
        self._whole.settle()
        before, started = self._read(), time.perf_counter()
        time.sleep(seconds)  # what is measured is time in which nothing is asked
        found = self._read().plus(before.times(-1))
        self._idle = found.times(1 / (time.perf_counter() - started))
        return self._idle

    def measure(self, work: Callable[[], object]) -> UnitCost:
        """Return what a piece of work costs, until the system is quiet again."""
        before, started = self._read(), time.perf_counter()
        work()
        self._whole.settle()
        idle = self._idle.times(-(time.perf_counter() - started))
        return self._read().plus(before.times(-1)).plus(idle)

    def measure_bytes(self, name: str) -> float:
        """Return the bytes of a document of a person's collection, uncompressed, with its index keys.

        The indexes of few documents are mostly empty pages, so copies of some documents are measured.
        """
        docs = list(self.database[name].find().limit(PER_PERSON))
        if not docs:
            raise RuntimeError(f"{name} has no documents")
        copies = self.client["scale_bytes"]
        copies[name].create_indexes(INDEXES[name])
        for person in range(COPIES // len(docs)):
            changed = {"user_id": Int64(person)}
            copies[name].insert_many(
                [{**doc, **changed, "_id": Int64(person * PER_PERSON + n)} for n, doc in enumerate(docs)]
            )
        self.client.admin.command("fsync")
        stats = copies.command("collStats", name)
        self.client.drop_database("scale_bytes")
        return float((stats["size"] + stats["totalIndexSize"]) / stats["count"])

    def measure_feed_bytes(self) -> float:
        """Return the bytes of a feed's document, uncompressed."""
        return float(self.database.command("collStats", "feeds")["avgObjSize"])


def _find(cpu: Mapping[str, float], name: str) -> float:
    return sum(value for process, value in cpu.items() if name in process)


def send_requests(endpoint: Endpoint, first: int, count: int) -> None:
    """Send requests of one kind, one after the other."""
    with contextlib.closing(endpoint.open()) as client:
        for number in range(first, first + count):
            endpoint.send(client, number)


@contextlib.contextmanager
def _running(feeds: int) -> Iterator[tuple[Whole, _Meter]]:
    with Farm(feeds, ENTRIES) as farm, Whole(farm) as whole:
        whole.sign_up()
        whole.import_all()
        whole.settle()
        with contextlib.closing(_Meter(whole)) as meter:
            yield whole, meter


def publish_units(bench: Bench, weights: Mapping[str, float], marks: float) -> Units:
    """Publish ``scale.unit_*`` and ``scale.sim_check_*``; return the unit costs.

    Args:
        weights: the part of each kind of request; marks: how many come with one request.
    """
    with _running(QUICK_FEEDS if bench.quick else FEEDS) as (whole, meter):
        units = _measure_units(bench, whole, meter)
        _check(bench, whole, meter, units, weights, marks)
    rows = {**units.requests, "poll": units.poll, "new_entry": units.new_entry}
    for name, cost in rows.items():
        bench.figure(f"scale.unit_{name}_mongodb", [cost.mongodb_operations], "operations")
        bench.figure(f"scale.unit_{name}_redis", [cost.redis_operations], "operations")
        bench.note(
            f"{name}: MongoDB {cost.mongodb_cpu * 1e3:.3g} ms, Redis {cost.redis_cpu * 1e3:.3g} ms of CPU"
        )
    for name in ("subscription_bytes", "mark_bytes", "feed_bytes"):
        bench.figure(f"scale.unit_{name}", [getattr(units, name)], "bytes")
    return units


def _measure_units(bench: Bench, whole: Whole, meter: _Meter) -> Units:
    endpoints, count = build_endpoints(whole), QUICK_REQUESTS if bench.quick else REQUESTS
    idle = meter.measure_idle(QUICK_SECONDS if bench.quick else IDLE_SECONDS)
    bench.note(f"idle, per second: {idle}")
    requests = {}
    for kind, name in KINDS.items():
        endpoint = endpoints[name]
        send_requests(endpoint, 0, FIRST)
        cost = meter.measure(lambda endpoint=endpoint: send_requests(endpoint, FIRST, count))  # type: ignore[misc]
        requests[kind] = cost.times(1 / count)
    feeds = whole.farm.feeds
    whole.refresh_all()
    whole.settle()
    before = whole.family.cpu_by_name()
    poll = meter.measure(whole.refresh_all).times(1 / feeds)
    used = {name: value - before.get(name, 0.0) for name, value in whole.family.cpu_by_name().items()}
    shown = ", ".join(f"{name} {1e6 * value / feeds:.0f}" for name, value in used.items() if value)
    bench.note(f"CPU of a poll in the whole system, µs: {shown}")
    whole.farm.publish()
    new = meter.measure(whole.refresh_all).times(1 / feeds)
    _star(whole, count)
    return Units(
        requests,
        poll,
        new.plus(poll.times(-1)),
        meter.measure_bytes("subscriptions"),
        meter.measure_bytes("marks"),
        meter.measure_feed_bytes(),
    )


def _star(whole: Whole, count: int) -> None:
    with contextlib.closing(whole.open_program()) as program:
        page = json.loads(program.get(f"/streams/all/entries?limit={count}"))
        for row in page["items"]:
            program.send("PATCH", f"/entries/{row['id']}", b'{"starred": true}')


def _check(
    bench: Bench, whole: Whole, meter: _Meter, units: Units, weights: Mapping[str, float], marks: float
) -> None:
    """Run all kinds at once, and compare what the servers count with the sum of the unit costs."""
    requests = QUICK_REQUESTS if bench.quick else MIXED
    counts = {kind: round(requests * part) for kind, part in {**weights, "mark": marks}.items()}
    endpoints = build_endpoints(whole)
    todo = [(endpoints[KINDS[kind]], n + FIRST) for kind, count in counts.items() for n in range(count)]
    random.Random(1).shuffle(todo)

    def run_all() -> None:
        polling = threading.Thread(target=whole.refresh_all)
        polling.start()
        for endpoint, number in todo:
            send_requests(endpoint, number, 1)
        polling.join()

    measured = meter.measure(run_all)
    summed = units.poll.times(whole.farm.feeds)
    for kind, count in counts.items():
        summed = summed.plus(units.requests[kind].times(count))
    bench.note(f"mix of {counts} and {whole.farm.feeds} polls: measured {measured}, from unit costs {summed}")
    for name in UnitCost._fields:
        ratio = getattr(summed, name) / max(getattr(measured, name), 1e-9)
        bench.figure(f"scale.sim_check_{name}", [ratio], "×")
