"""The updater's decisions: how many feeds to queue, which feeds of which hosts, which to put off. Pure.

After hours of downtime all feeds are due at once. The backlog is worked off at the workers' pace, longest
due first, hosts in turn. ``app.feeds.schedule`` then restores each feed's old place in the hour, so that the
feeds don't all become due together again.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from app.models.feeds.feed import DueFeed
from app.models.feeds.hosts import HostRate

#: Seconds over which the measured pace decays, and seconds until it counts as known.
MEMORY, SETTLE = 60.0, 10.0
#: Batches that may wait while the pace is unknown; doubled after each look that finds them done.
FIRST = 4
#: Most waiting feeds, however fast the workers are: each look reads all in-flight feeds again, and a look
#: that takes longer than the lease queues nothing.
MOST = 20_000
#: A feed with 2, 4, 8, … readers precedes feeds that have been due this many seconds longer.
POPULAR = 60.0

RateOf = Callable[[str], HostRate]


@dataclasses.dataclass(frozen=True, slots=True)
class DueSnapshot:
    """The findings of a look.

    Attributes:
        due: Due feeds, including those in flight, longest due first.
        all: Whether ``due`` contains all due feeds.
        in_flight: Feeds in jobs that haven't ended.
        limit: Most feeds to queue.
    """

    due: Sequence[DueFeed]
    all: bool
    in_flight: Collection[int]
    limit: int


@dataclasses.dataclass(frozen=True, slots=True)
class HostState:
    """The updater's memory of a host or group of hosts between two looks.

    Attributes:
        share: Most of its feeds that may be in flight.
        held: Its feeds that were in flight after the last look.
        promised: Seconds from the last look until its next time that isn't promised to a feed.
    """

    share: int
    held: int = 0
    promised: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class BatchChoice:
    """The decision of a look: feeds to queue, feeds → seconds to put off, hosts to remember."""

    feeds: list[DueFeed]
    postponed: dict[int, float]
    hosts: dict[str, HostState]


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """The pace of the workers, measured by ended jobs.

    Attributes:
        mean: Feeds per second over the last minute.
        seconds: Time over which it was measured.
        kept_up: Looks that found work done and nothing waiting.
    """

    mean: float = 0.0
    seconds: float = 0.0
    kept_up: int = 0

    @property
    def rate(self) -> float | None:
        """Feeds per second that the workers manage; None if unknown."""
        return self.mean if self.mean and self.seconds >= SETTLE else None

    def add_done(self, done: int, seconds: float, *, busy: bool) -> Pace:
        """Return the pace after ``done`` more feeds in this many seconds.

        Feeds end in bursts, as batches do. So the value is the plain mean at first, and decays slowly later.

        Args:
            done: Feeds that ended.
            seconds: The time in which they ended.
            busy: Whether jobs were always waiting. If not, the workers might have managed more, so a low
                number doesn't lower the pace.
        """
        total = self.seconds + seconds
        if seconds <= 0 or not (done or busy or self.seconds):
            return self
        weight = max(seconds / total, 1 - math.exp(-seconds / MEMORY))
        mean = self.mean + (done / seconds - self.mean) * weight
        kept_up = self.kept_up + (done > 0 and not busy)
        return Pace(mean if busy or self.rate is None else max(self.mean, mean), total, kept_up)


def count_to_queue(pace: Pace, waiting: int, batch: int, work: float) -> int:
    """Return the number of feeds to queue now.

    Args:
        pace: The workers' pace.
        waiting: Feeds that wait in the queue.
        batch: Feeds per job.
        work: Seconds of work that may wait in the queue.
    """
    if pace.rate is None:
        most = FIRST * batch << min(pace.kept_up, 16)
    else:
        most = int(pace.rate * work)
    most = min(most, MOST)
    if waiting == 0:
        return max(1, most)  # never 0: the pace is measured by completed work
    # Refill only when half is gone, since each look reads all in-flight feeds again.
    return most - waiting if waiting <= most / 2 else 0


def compute_pause(
    backlog: int, queued: int, queued_s: float, min_seconds: float, max_seconds: float
) -> float:
    """Return the seconds until the next look, within bounds.

    Args:
        backlog: Feeds that are due and not queued.
        queued: Feeds that this look queued.
        queued_s: Seconds of waiting work; 0: unknown.
        min_seconds: The lower bound.
        max_seconds: The upper bound.
    """
    if not backlog:
        return max_seconds
    return min_seconds if queued else min(max_seconds, max(min_seconds, queued_s / 4))


def choose_feeds(
    snapshot: DueSnapshot,
    hosts: Mapping[str, HostState],
    rate_of: RateOf,
    *,
    min_share: int,
    seconds: float,
    pause: float,
) -> BatchChoice:
    """Return which due feeds to queue now.

    The longest due come first; a popular feed moves up by some minutes. A host may only have as many feeds in
    flight as end in time even if each takes its longest: ``min_share``. A host that has finished all of them
    by the next look gets twice as many, up to its rate.

    If the feeds of one host fill the whole snapshot and hide later ones, those above its share are put off,
    one after the other.

    Args:
        snapshot: The due feeds.
        hosts: The hosts that the last choice remembered.
        rate_of: Returns the rate of a host.
        min_share: Feeds of one host that may always be in flight.
        seconds: Seconds since the last look.
        pause: Seconds until the next look.
    """
    group_of = _Groups(rate_of)
    held = Counter(group_of(feed.host).group for feed in snapshot.due if feed.id in snapshot.in_flight)
    known = {name: _seen(host, held[name], min_share, seconds) for name, host in hosts.items()}
    chosen: list[DueFeed] = []
    crowd: dict[str, list[DueFeed]] = defaultdict(list)
    for feed in sorted((f for f in snapshot.due if f.id not in snapshot.in_flight), key=_rank):
        rate = group_of(feed.host)
        if held[rate.group] >= _share(known.get(rate.group), rate, min_share, pause):
            crowd[rate.group].append(feed)
        elif len(chosen) < snapshot.limit:
            chosen.append(feed)
            held[rate.group] += 1
    later: dict[int, float] = {}
    if not snapshot.all and len(chosen) < snapshot.limit:
        for name, feeds in crowd.items():
            rate = group_of(feeds[0].host)
            waits, promised = _turns(len(feeds), known.get(name, HostState(min_share)), rate, pause)
            later |= zip((feed.id for feed in feeds), waits, strict=True)
            known[name] = dataclasses.replace(known.get(name, HostState(min_share)), promised=promised)
    for name, count in held.items():
        host = known.get(name, HostState(min_share))
        known[name] = HostState(host.share, count, host.promised)
    return BatchChoice(chosen, later, {n: h for n, h in known.items() if h.held or h.promised})


def compute_lateness(due: Sequence[DueFeed], now: dt.datetime) -> float:
    """Return the seconds for which the longest due feed has been due."""
    return max(((now - feed.due_at).total_seconds() for feed in due if feed.due_at), default=0.0)


def compute_host_share(timeout: float, fetch: float, per_host: int) -> int:
    """Return the number of a host's feeds that end within 3/4 of a job's time, even if each is slow.

    Args:
        timeout: Longest run of a job, seconds.
        fetch: Longest fetch, seconds.
        per_host: Concurrent fetches from one host.
    """
    return max(1, int(timeout * 0.75 / fetch) * per_host)


class _Groups(dict[str, HostRate]):
    def __init__(self, rate_of: RateOf) -> None:
        super().__init__()
        self._rate_of = rate_of

    def __call__(self, host: str) -> HostRate:
        return self[host]

    def __missing__(self, host: str) -> HostRate:
        found = self[host] = self._rate_of(host)
        return found


def _rank(feed: DueFeed) -> float:
    due = feed.due_at.timestamp() if feed.due_at else 0.0
    return due - POPULAR * math.log2(max(1, feed.readers))


def _seen(host: HostState, held: int, least: int, seconds: float) -> HostState:
    """Return a host's state at this look, with double its share if it was fast."""
    share = host.share
    if host.held and not held:
        share = min(share * 2, MOST)
    elif held > host.held / 2:
        share = least
    return HostState(share, held, max(0.0, host.promised - seconds))


def _share(host: HostState | None, rate: HostRate, least: int, pause: float) -> int:
    share = host.share if host else least
    if rate.rate:
        # Twice what its rate allows until the next look; more would only be put off.
        share = min(share, max(least, math.ceil(rate.rate * pause * 2)))
    return share


def _turns(count: int, host: HostState, rate: HostRate, pause: float) -> tuple[list[float], float]:
    """Return when each of ``count`` feeds of a host may return, and the time after the last of them."""
    speed = _share(host, rate, host.share, pause) / pause
    step = 1 / (min(speed, rate.rate) if rate.rate else speed)
    first = max(pause, host.promised)
    return [first + step * n for n in range(count)], first + step * count
