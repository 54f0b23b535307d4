"""A simulation of large installations: 1 million people and 2 million feeds, and two smaller ones.

It has two parts. Polls are simulated second by second: each feed becomes due after its interval, the updater
looks every five seconds and keeps at most 20,000 feeds in flight, hosts have their rate limits, and workers
have a fixed speed. People are computed from rates: requests, marks and new entries times measured unit costs.

All assumptions are fields of :class:`Assumptions`, and are printed. Unit costs are measured: those of
``bench.scale_polls`` and ``bench.scale_units`` in the same run, the others are figures of
``bench/results.json``. ``scale.sim_check`` compares the CPU of a poll that the simulation counts with a whole
system that was measured separately (``system.304_ms``); ``bench.scale_units`` checks the operations and the
CPU of MongoDB and Redis.
"""

from __future__ import annotations

import dataclasses
import heapq
import json
import math
import random
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Final

from app.config import Settings
from bench.harness import RESULTS, Bench
from bench.scale_polls import PollCost
from bench.scale_units import UnitCost, Units, publish_units
from workers.updater.batching import MOST

DAY: Final = 86_400


@dataclasses.dataclass(frozen=True, slots=True)
class Assumptions:
    """What the simulation assumes about an installation; all rates are means over a day unless named."""

    people: int
    feeds: int
    #: Part of the people who read on a day, their requests and marks, and the peak hour over the mean.
    active: float = 0.1
    requests: int = 50
    marks: int = 100
    peak: float = 5.0
    #: Requests by kind; together 1. Marks are counted above.
    lists: float = 0.45
    articles: float = 0.45
    searches: float = 0.10
    #: Seconds between polls of a feed, and new entries per feed and day.
    interval: int = 1800
    entries: float = 1.0
    #: Subscriptions per person, and entries that a person has starred or tagged.
    subscriptions: int = 100
    kept: int = 200
    #: Hosts per feed. The number of a host's feeds falls with its rank.
    hosts: float = 0.25
    #: Part of their time that workers are busy on average.
    utilization: float = 0.6
    #: Simulated seconds; the first half fills the queues and isn't counted.
    seconds: int = 5400

    @property
    def weights(self) -> dict[str, float]:
        """The part of each kind of request."""
        return {"list": self.lists, "article": self.articles, "search": self.searches}

    @property
    def marks_per_request(self) -> float:
        """How many marks come with one request."""
        return self.marks / self.requests


@dataclasses.dataclass(frozen=True, slots=True)
class PollOutcome:
    """What the simulated updater and workers did, in the second half of the time."""

    polls: float
    queue: int
    late_p95: float
    largest_host_late: float
    hosts: int
    worker_cores: float


class _Host:
    """A host's rate limit, as the updater applies it: a feed gets the next time that isn't promised yet."""

    __slots__ = ("burst", "rate", "since", "tokens")

    def __init__(self, rate: float, burst: int) -> None:
        self.rate, self.burst = rate, burst
        self.tokens, self.since = float(burst), 0.0

    def promise_wait(self, now: float) -> float:
        """Return the seconds until a feed may be fetched; the time is taken."""
        self.tokens = min(self.burst, self.tokens + (now - self.since) * self.rate) - 1
        self.since = now
        return max(0.0, -self.tokens / self.rate)


def compute_percentile(values: Sequence[float], part: float) -> float:
    """Return the value that this part of the values doesn't exceed; 0 without values."""
    return sorted(values)[max(0, math.ceil(len(values) * part) - 1)] if values else 0.0


def place_hosts(given: Assumptions, rng: random.Random) -> list[int]:
    """Return the host of each feed: few hosts have many feeds, most have one."""
    count = max(1, round(given.feeds * given.hosts))
    # Host number r gets a share of 1/(r+20): the first has about 0.5 % of all feeds.
    return [min(count - 1, int(20 * ((count / 20 + 1) ** rng.random() - 1))) for _ in range(given.feeds)]


class PollSimulation:
    """Updater, hosts and workers, second by second.

    The largest hosts have the rates that the settings name, all others the usual one.

    Args:
        speed: Feeds per second that one busy core polls.
    """

    def __init__(self, given: Assumptions, speed: float, settings: Settings) -> None:
        self._given, rng = given, random.Random(1)
        self._of_feed = place_hosts(given, rng)
        self._size: defaultdict[int, int] = defaultdict(int)
        for host in self._of_feed:
            self._size[host] += 1
        named = [float(row.partition("=")[2]) for row in settings.fetch_host_rates]
        usual, burst = settings.fetch_host_rate, settings.fetch_host_burst
        by_size = sorted(self._size, key=lambda host: -self._size[host])
        self._rates = dict(zip(by_size, named, strict=False))
        self._hosts = {h: _Host(self._rates.get(h, usual), burst) for h, n in self._size.items() if n > 1}
        self._largest = by_size[len(named)] if len(by_size) > len(named) else by_size[0]
        self._every = max(1, round(settings.updater_interval))
        self.cores = given.feeds / given.interval / speed / given.utilization
        self._capacity, self._credit = self.cores * speed, 0.0
        self._due: defaultdict[int, list[int]] = defaultdict(list)
        for feed in range(given.feeds):
            self._due[rng.randrange(given.interval)].append(feed)
        self._waiting: deque[tuple[int, int]] = deque()
        self._running: deque[tuple[int, int]] = deque()
        self._postponed: list[tuple[float, int, int]] = []
        self._late: list[int] = []
        self._host_late = self._most = 0

    def run(self) -> PollOutcome:
        """Simulate all seconds; the first half fills the queues and isn't counted."""
        given = self._given
        half = given.seconds // 2
        for now in range(given.seconds):
            self._waiting.extend((feed, now) for feed in self._due.pop(now, ()))
            if now % self._every == 0:
                self._look(now)
            self._work(now, is_counted=now >= half)
            if now >= half:
                waiting = len(self._waiting) + len(self._running) + len(self._postponed)
                self._most = max(self._most, waiting)
        rate = len(self._late) / (given.seconds - half)
        p95 = compute_percentile(self._late, 0.95)
        return PollOutcome(rate, self._most, p95, self._host_late, len(self._size), self.cores)

    def _look(self, now: int) -> None:
        """Queue due feeds, as the updater does; postpone those whose host is at its limit."""
        while self._postponed and self._postponed[0][0] <= now and len(self._running) < MOST:
            _, feed, since = heapq.heappop(self._postponed)
            self._running.append((feed, since))
        while self._waiting and len(self._running) < MOST:
            feed, since = self._waiting.popleft()
            host = self._hosts.get(self._of_feed[feed])
            if host and (wait := host.promise_wait(now)):
                heapq.heappush(self._postponed, (now + wait, feed, since))
            else:
                self._running.append((feed, since))

    def _work(self, now: int, *, is_counted: bool) -> None:
        self._credit = min(self._capacity * 2, self._credit + self._capacity)
        while self._running and self._credit >= 1:
            feed, since = self._running.popleft()
            self._credit -= 1
            self._due[now + self._given.interval].append(feed)
            if is_counted:
                self._late.append(now - since)
                if self._of_feed[feed] == self._largest:
                    self._host_late = max(self._host_late, now - since)


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """What an installation needs in its peak hour: cores, operations per second, bytes."""

    requests: float
    web_cores: float
    worker_cores: float
    mongodb_cores: float
    redis_cores: float
    search_cores: float
    mongodb_operations: float
    redis_operations: float
    entry_bytes: float
    people_bytes: float
    search_bytes: float
    cache_bytes: float


def compute_load(given: Assumptions, costs: Mapping[str, float], poll: PollCost, units: Units) -> Load:
    """Return the load of an installation from unit costs.

    Args:
        costs: The values of ``bench/results.json``.
        poll: The cost of a poll.
        units: What requests, marks and new entries cost MongoDB and Redis.
    """
    peak = given.people * given.active / DAY * given.peak
    requests, marks = peak * given.requests, peak * given.marks
    per_second = {kind: requests * part for kind, part in given.weights.items()} | {"mark": marks}
    # What requests and marks cost per second.
    served = UnitCost(0, 0)
    for kind, rate in per_second.items():
        served = served.plus(units.requests[kind].times(rate))
    polls = given.feeds / given.interval
    new = given.feeds * given.entries / DAY
    entries = units.new_entry.times(new)
    one_new = costs["system.one_new_ms"] / 1e3
    index = costs["search.index_us"] / 1e6
    return Load(
        requests=requests + marks,
        web_cores=served.other_cpu,
        worker_cores=polls * (poll.worker + poll.updater) / 1e6
        + 1 / costs["refresh.304"] * polls
        + new * one_new,
        mongodb_cores=served.mongodb_cpu + polls * poll.mongodb / 1e6 + entries.mongodb_cpu,
        redis_cores=served.redis_cpu + polls * poll.redis / 1e6 + entries.redis_cpu,
        search_cores=requests * given.searches * costs["search.engine_cpu_ms"] / 1e3 + new * index,
        mongodb_operations=served.mongodb_operations
        + polls * poll.mongodb_operations
        + entries.mongodb_operations,
        redis_operations=served.redis_operations + polls * poll.redis_operations + entries.redis_operations,
        entry_bytes=new * DAY * 365 * costs["system.entry_bytes"],
        people_bytes=given.people
        * (given.subscriptions * units.subscription_bytes + given.kept * units.mark_bytes),
        search_bytes=new * DAY * 365 * costs["search.entry_bytes"],
        cache_bytes=given.feeds * units.feed_bytes
        + given.people * given.active * given.subscriptions * units.subscription_bytes,
    )


#: The installation whose figures are published.
LARGEST = Assumptions(1_000_000, 2_000_000)


def publish_simulation(bench: Bench, poll: PollCost) -> None:
    """Publish ``scale.sim_*``: 1 million people; smaller installations are printed."""
    units = publish_units(bench, LARGEST.weights, LARGEST.marks_per_request)
    costs = {name: doc["value"] for name, doc in json.loads(RESULTS.read_text("utf-8")).items()}
    sizes = [Assumptions(100, 2000), Assumptions(10_000, 100_000), LARGEST]
    if bench.quick:
        sizes = [Assumptions(100, 200, seconds=3600)]
    for given in sizes:
        bench.note(f"{given}")
        load = compute_load(given, costs, poll, units)
        outcome = PollSimulation(given, costs["refresh.304"], Settings()).run()
        bench.note(f"{given.people:,} people, {given.feeds:,} feeds: {_describe(load)}")
        bench.note(f"  {outcome}")
    for name, value, unit in (
        ("polls", outcome.polls, "polls/s"),
        ("queue", outcome.queue, "feeds"),
        ("late_p95_s", outcome.late_p95, "s"),
        ("largest_host_late_s", outcome.largest_host_late, "s"),
        ("requests", load.requests, "1/s"),
        ("web_cores", load.web_cores, "cores"),
        ("worker_cores", load.worker_cores, "cores"),
        ("mongodb_cores", load.mongodb_cores, "cores"),
        ("redis_cores", load.redis_cores, "cores"),
        ("search_cores", load.search_cores, "cores"),
        ("mongodb_operations", load.mongodb_operations, "1/s"),
        ("redis_operations", load.redis_operations, "1/s"),
        ("entries_tb", load.entry_bytes / 1e12, "TB/year"),
        ("search_tb", load.search_bytes / 1e12, "TB/year"),
        ("people_gb", load.people_bytes / 1e9, "GB"),
    ):
        bench.figure(f"scale.sim_{name}", [value], unit)
    # The cost of a poll has no network: its fetch is that of refresh.304. A whole system does more, such as
    # the queue manager's work, that neither has. So the sum is a lower bound.
    summed = poll.total / 1e3 + 1e3 / costs["refresh.304"]
    bench.figure("scale.sim_check", [summed / costs["system.304_ms"]], "×")


def _describe(load: Load) -> str:
    return ", ".join(f"{f.name} {getattr(load, f.name):,.3g}" for f in dataclasses.fields(load))
