"""What the updater decides: how much to queue, which feeds of which hosts, whom to put off. Pure.

After hours of downtime everything is due at once. The herd is worked off at the pace that the workers
show, the longest due first, all hosts in turn; ``app.feeds.schedule`` gives each feed its old place in
the hour back, so that the herd does not return as one.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from app.models.feeds.feed import DueFeed
from app.models.feeds.hosts import HostRate

#: Over so many seconds the measured pace forgets, and so long it takes until it is believed.
MEMORY, SETTLE = 60.0, 10.0
#: Batches that wait while nothing is known of the pace; twice as many after each look that finds them done.
FIRST = 4
#: Feeds that wait at most, however quick the workers are: each look reads what is in hand again, and a look
#: that takes longer than the lease queues nothing.
MOST = 20_000
#: A feed read by 2, 4, 8, … people goes before others that are due so many seconds longer.
POPULAR = 60.0

RateOf = Callable[[str], HostRate]


@dataclasses.dataclass(frozen=True, slots=True)
class DueSnapshot:
    """What a look found.

    Attributes:
        due: feeds that are due, those in hand included, the longest due first.
        all: whether ``due`` is all there is.
        in_hand: feeds that are in jobs which have not ended.
        room: feeds to queue at most.
    """

    due: Sequence[DueFeed]
    all: bool
    in_flight: Collection[int]
    limit: int


@dataclasses.dataclass(frozen=True, slots=True)
class HostState:
    """What the updater remembers of a host or group of hosts between two looks.

    Attributes:
        share: feeds of it that may be in hand.
        held: feeds of it that were in hand after the last look.
        promised: seconds from the last look until its next time not promised to a feed.
    """

    share: int
    held: int = 0
    promised: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class BatchChoice:
    """What is done after a look: feeds to queue, feeds → seconds to put off, hosts to remember."""

    feeds: list[DueFeed]
    postponed: dict[int, float]
    hosts: dict[str, HostState]


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """How fast the workers are, as seen from what ends.

    Attributes:
        mean: feeds per second over the last minute.
        seconds: time over which it was seen.
        kept_up: looks that found work done and nothing waiting.
    """

    mean: float = 0.0
    seconds: float = 0.0
    kept_up: int = 0

    @property
    def rate(self) -> float | None:
        """Feeds per second that the workers manage, None while that is not known."""
        return self.mean if self.mean and self.seconds >= SETTLE else None

    def add_done(self, done: int, seconds: float, *, busy: bool) -> Pace:
        """Return the pace with ``done`` feeds more in so many seconds.

        Feeds end in bursts, as batches do: so it is the plain mean at first, and forgets slowly then.

        Args:
            busy: something waited all the time. Else the workers might have managed more, so that what
                they did is no reason to expect less of them.
        """
        total = self.seconds + seconds
        if seconds <= 0 or not (done or busy or self.seconds):
            return self
        weight = max(seconds / total, 1 - math.exp(-seconds / MEMORY))
        mean = self.mean + (done / seconds - self.mean) * weight
        kept_up = self.kept_up + (done > 0 and not busy)
        return Pace(mean if busy or self.rate is None else max(self.mean, mean), total, kept_up)


def count_to_queue(pace: Pace, waiting: int, batch: int, work: float) -> int:
    """Return how many feeds to queue now.

    Args:
        waiting: feeds that wait in the queue.
        batch: feeds per job.
        work: seconds of work that may wait in the queue.
    """
    if pace.rate is None:
        most = FIRST * batch << min(pace.kept_up, 16)
    else:
        most = int(pace.rate * work)
    most = min(most, MOST)
    if waiting == 0:
        return max(1, most)  # never nothing: only work that is done shows how much can be done
    # Refilled when half of it is gone: each time all that is in hand is read again.
    return most - waiting if waiting <= most / 2 else 0


def compute_pause(
    backlog: int, queued: int, queued_s: float, min_seconds: float, max_seconds: float
) -> float:
    """Return the seconds until the next look, within bounds.

    Args:
        backlog: feeds that are due and not queued; queued: by this look.
        queued_s: seconds of work that wait; 0: unknown.
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
    """Say which due feeds are queued now.

    The longest due come first, a popular one some minutes before its time. Of a host only as many are in
    hand as end in good time even when each takes its longest: ``least``. A host that is done with all of
    them by the next look gets twice as many, up to what its rate allows.

    Where one host's feeds fill the whole view and hide what comes after them, those above its share are
    put off, one after the other.

    Args:
        hosts: what the last choice said to remember.
        least: feeds of one host that always may be in hand.
        seconds: since the last look; pause: until the next.
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
    """Return for how many seconds the longest due feed has been due."""
    return max(((now - feed.due_at).total_seconds() for feed in due if feed.due_at), default=0.0)


def compute_host_share(timeout: float, fetch: float, per_host: int) -> int:
    """Return how many feeds of a host end within three quarters of a job's time, each as slow as can be.

    Args:
        timeout: longest run of a job; fetch: longest fetch; per_host: fetches at once from one host.
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
    """Return what is known of a host at this look: double its share when it was quick."""
    share = host.share
    if host.held and not held:
        share = min(share * 2, MOST)
    elif held > host.held / 2:
        share = least
    return HostState(share, held, max(0.0, host.promised - seconds))


def _share(host: HostState | None, rate: HostRate, least: int, pause: float) -> int:
    share = host.share if host else least
    if rate.rate:
        # Twice what its tokens allow until the next look: the rest would only be put off.
        share = min(share, max(least, math.ceil(rate.rate * pause * 2)))
    return share


def _turns(count: int, host: HostState, rate: HostRate, pause: float) -> tuple[list[float], float]:
    """Return when each of ``count`` feeds of a host may come back, and the time after the last of them."""
    speed = _share(host, rate, host.share, pause) / pause
    step = 1 / (min(speed, rate.rate) if rate.rate else speed)
    first = max(pause, host.promised)
    return [first + step * n for n in range(count)], first + step * count
