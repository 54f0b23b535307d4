"""Delay of entries and number of polls: Eventr's schedule compared with other readers' formulas.

**Times.** The posting times are those of captured feeds that readers polled. Left out are feeds with fewer
than ten dated entries; feeds whose dates have no time of day (over 30 % midnights) or aren't the entries' own
(under 60 % different times); copies of a feed in other encodings. Two kinds remain:

- *long*: the entries span 20 days to 2 years. They are replayed unchanged. The first half, 10 to 30 days,
  warms up the schedulers; the rest, at most 60 days, is measured.
- *busy*: at least 20 entries over 2 to 20 days; a feed file holds no more of a busy site. Such a capture is
  shorter than the feed's past, so it is extended by the feed's own entries only. It is cut into whole days of
  24 hours; each of 44 days is one of them, drawn at random (seeded by the feed's name), with all entries at
  their real times of day. 30 days warm up, 14 are measured. This can't show trends and weekdays. It makes
  days as regular as the captured ones, which helps formulas that learn times of day, as far as two to twenty
  different days allow.

**Rules.** An entry is in the feed from its published time on; a poll takes no time and never fails; no feed
gives hints, is pushed or is suspended for lack of readers. Each scheduler sees all entries it has found so
far; CommaFeed's sees the current feed document (as many entries as were captured). The first poll is at a
random time in the first hour. Entries of the measured part count even if they are found after its end; polls
only count inside it.

**Formulas**, with their projects' default settings, from their public sources:

- ``miniflux``: ``entry_frequency`` of v2 (internal/model/feed.go, storage.WeeklyFeedEntryCount):
  a week / ceil(a week / mean gap of the last week's entries), 5 minutes to 24 hours, 24 hours with
  fewer than two entries. (As shipped, it looks for due feeds only once an hour; that is left out.)
- ``commafeed``: FeedRefreshIntervalCalculator of 5.x: half the mean gap of the feed document, 5
  minutes to 1 hour; 1, 2, 4 hours when the last entry is 7, 14, 30 days old.
- ``newsblur``: Feed.get_next_scheduled_update for a feed with one premium subscriber: 60 minutes from
  one story a day on, else (1 - stories a day) x 12 hours, 12 hours for none in a month, plus up to a
  quarter at random. ``newsblur_popular``: with more than ten such subscribers: 6 minutes, (1 -
  stories a day) x 60 minutes, 6 hours.
"""

from __future__ import annotations

import bisect
import dataclasses
import datetime as dt
import math
import random
import statistics
from collections.abc import Callable, Sequence
from typing import Protocol

from app.errors import ParseError
from app.feeds import schedule
from app.feeds.parse import parse
from app.models.feeds.schedule import Hints
from bench.harness import Bench, benchmark
from tests.support import corpus

MINUTE, HOUR, DAY = 60, 3600, 86400
WARM_UP, BUSY_DAYS, LONG_DAYS = 30, 14, 60
OLDEST, NEWEST = dt.datetime(1999, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 12, 31, tzinfo=dt.UTC)


@dataclasses.dataclass(frozen=True, slots=True)
class Replay:
    """A feed's posting times and the measured part of them, all in seconds since 1970.

    ``document`` is the number of entries that a poll sees.
    """

    name: str
    times: tuple[float, ...]
    document: int
    measured_from: float
    measured_to: float


class Poller(Protocol):
    """A scheduler with its state for one feed."""

    def wait(self, seen: Sequence[float], new: int, now: float) -> float:
        """Return the seconds to the next poll; the last ``new`` of the entries seen are new."""


# -- the schedulers


class Eventr:
    """Eventr's schedule, as used by the pull."""

    def __init__(self, feed: Replay) -> None:
        self._random = random.Random(f"eventr {feed.name}")
        self._history: schedule.History | None = None

    def wait(self, seen: Sequence[float], new: int, now: float) -> float:
        moment = _moment(now)
        times = [_moment(time) for time in seen[len(seen) - new :]]
        if self._history is None:
            self._history = schedule.seed(times, moment)
        else:
            self._history = schedule.record_arrivals(self._history, times, moment)
        planned = schedule.plan(self._history, moment, Hints(), schedule.Limits(), rng=self._random)
        return (planned.next_check_at - moment).total_seconds()


class Fixed:
    """A fixed interval."""

    def __init__(self, minutes: int) -> None:
        self._seconds = minutes * MINUTE

    def wait(self, seen: Sequence[float], new: int, now: float) -> float:
        return self._seconds


class Miniflux:
    """Miniflux's formula, see the module's docstring."""

    def wait(self, seen: Sequence[float], new: int, now: float) -> float:
        week = seen[bisect.bisect_left(seen, now - 7 * DAY) :]
        if len(week) < 2 or week[0] == week[-1]:
            return DAY
        weekly = math.ceil(7 * DAY / ((week[-1] - week[0]) / (len(week) - 1)))
        return min(max(round(7 * DAY / MINUTE / weekly), 5), 1440) * MINUTE


class CommaFeed:
    """CommaFeed's formula, see the module's docstring."""

    def __init__(self, feed: Replay) -> None:
        self._document = feed.document

    def wait(self, seen: Sequence[float], new: int, now: float) -> float:
        document = seen[-self._document :]
        age = (now - document[-1]) / DAY if document else math.inf
        for days, hours in ((30, 4), (14, 2), (7, 1)):
            if age >= days:
                return hours * HOUR
        if len(document) < 2:
            return 4 * HOUR
        mean_gap = (document[-1] - document[0]) / (len(document) - 1)
        return min(max(mean_gap / 2, 5 * MINUTE), HOUR)


class NewsBlur:
    """NewsBlur's formula, see the module's docstring."""

    def __init__(self, feed: Replay, subscribers: int) -> None:
        self._random = random.Random(f"newsblur {feed.name}")
        self._fast, self._slow, self._silent = (6, 60, 360) if subscribers > 10 else (60, 720, 720)

    def wait(self, seen: Sequence[float], new: int, now: float) -> float:
        per_day = (len(seen) - bisect.bisect_left(seen, now - 30 * DAY)) / 30
        if per_day >= 1:
            minutes = float(self._fast)
        elif per_day > 0:
            minutes = self._slow * (1 - per_day)
        else:
            months = (now - seen[-1]) // (30 * DAY) if seen else 1
            minutes = self._silent * max(1, months)
        whole = max(1, int(min(minutes, 12 * 60)))
        return (whole + self._random.randint(0, whole) // 4) * MINUTE


SCHEDULERS: dict[str, Callable[[Replay], Poller]] = {
    "eventr": Eventr,
    "fixed_15": lambda _: Fixed(15),
    "fixed_60": lambda _: Fixed(60),
    "miniflux": lambda _: Miniflux(),
    "commafeed": CommaFeed,
    "newsblur": lambda feed: NewsBlur(feed, 1),
    "newsblur_popular": lambda feed: NewsBlur(feed, 11),
}


# -- the replay


def replay(feed: Replay, poller: Poller) -> tuple[float, list[float]]:
    """Return the polls per day and the seconds until each entry of the measured part was seen."""
    now = feed.times[0] + random.Random(feed.name).random() * HOUR
    last = bisect.bisect_left(feed.times, feed.measured_to)
    seen = polls = 0
    delays: list[float] = []
    while now < feed.measured_to or seen < last:
        found = bisect.bisect_right(feed.times, now)
        polls += feed.measured_from <= now < feed.measured_to
        delays += [now - t for t in feed.times[seen:found] if feed.measured_from <= t < feed.measured_to]
        now += poller.wait(feed.times[:found], found - seen, now)
        seen = found
    delays += [now - t for t in feed.times[seen:last] if t >= feed.measured_from]
    return polls / ((feed.measured_to - feed.measured_from) / DAY), delays


@dataclasses.dataclass(frozen=True, slots=True)
class Score:
    """Polls per day and feed; seconds of delay over all entries."""

    polls: float
    median: float
    p95: float

    def dominates(self, other: Score) -> bool:
        """Return whether this score is better than the other in every respect."""
        return self.polls < other.polls and self.median < other.median and self.p95 < other.p95


def score(feeds: Sequence[Replay], make: Callable[[Replay], Poller]) -> Score:
    """Replay all feeds with one scheduler."""
    results = [replay(feed, make(feed)) for feed in feeds]
    delays = sorted(delay for _, found in results for delay in found)
    polls = statistics.fmean(per_day for per_day, _ in results)
    return Score(polls, statistics.median(delays), delays[int(len(delays) * 0.95)])


# -- the feeds


def replays() -> tuple[list[Replay], list[Replay]]:
    """Return the long and the busy feeds of the corpus."""
    long, busy, known = [], [], set()
    for row in corpus.genuine_feeds():
        times = _posting_times(row)
        if times in known or not _has_times_of_its_own(times):
            continue
        known.add(times)
        days = (times[-1] - times[0]) / DAY
        if 20 <= days <= 730:
            long.append(_as_it_is(row.path, times, days))
        elif 2 <= days < 20 and len(times) >= 20:
            busy.append(_extended(row.path, times, int(days)))
    return long, busy


def _posting_times(row: corpus.Row) -> tuple[float, ...]:
    try:
        feed = parse(row.read(), url="http://example.org/feed")
    except ParseError:
        return ()
    dates = (entry.published or entry.updated for entry in feed.entries)
    return tuple(sorted(date.timestamp() for date in dates if date and OLDEST < date < NEWEST))


def _has_times_of_its_own(times: Sequence[float]) -> bool:
    midnights = sum(time % DAY == 0 for time in times)
    return len(times) >= 10 and len(set(times)) >= 0.6 * len(times) and midnights <= 0.3 * len(times)


def _as_it_is(name: str, times: tuple[float, ...], days: float) -> Replay:
    start = times[0] + min(max(days / 2, 10), WARM_UP) * DAY
    return Replay(name, times, len(times), start, min(times[-1] + 1, start + LONG_DAYS * DAY))


def _extended(name: str, times: tuple[float, ...], days: int) -> Replay:
    chance = random.Random(name)
    start = times[-1] + 1 - days * DAY
    own = [[t - start - day * DAY for t in times if 0 <= t - start - day * DAY < DAY] for day in range(days)]
    drawn = (chance.choice(own) for _ in range(WARM_UP + BUSY_DAYS))
    made = sorted(start + day * DAY + offset for day, offsets in enumerate(drawn) for offset in offsets)
    measured = start + WARM_UP * DAY
    return Replay(name, tuple(made), len(times), measured, measured + BUSY_DAYS * DAY)


def _moment(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


@benchmark("polling")
def polling(bench: Bench) -> None:
    """Print all schedulers over the long feeds, the busy ones and both; publish both."""
    long, busy = replays()
    if bench.quick:
        long, busy = long[:5], busy[:2]
    bench.note(f"{len(long)} long feeds as they are, {len(busy)} busy ones extended by their own days")
    for title, feeds in (("long", long), ("busy", busy)):
        for name, make in SCHEDULERS.items():
            bench.note(f"{title}  {_line(name, score(feeds, make))}")
    scores = {name: score([*long, *busy], make) for name, make in SCHEDULERS.items()}
    for name, found in scores.items():
        bench.figure(f"polling.{name}_polls_per_day", [found.polls], "polls/day")
        bench.figure(f"polling.{name}_median_s", [found.median], "s")
        bench.figure(f"polling.{name}_p95_s", [found.p95], "s")
    better = [name for name, found in scores.items() if found.dominates(scores["eventr"])]
    bench.note(f"better than eventr in all three: {', '.join(better) or 'none'}")
    bench.figure("polling.dominated_by", [len(better)], "schedulers", at_most=0)


def _line(name: str, found: Score) -> str:
    return (
        f"{name:18} {found.polls:7.1f} polls/day  median {found.median / MINUTE:6.1f} min"
        f"  p95 {found.p95 / MINUTE:7.1f} min"
    )
