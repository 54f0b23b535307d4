"""What the updater decides, as tables, and a whole day of it simulated: the herd after a downtime."""

from __future__ import annotations

import collections
import datetime as dt
import heapq
import itertools
import random

import pytest

from app.feeds import schedule
from app.models.feeds.feed import DueFeed
from app.models.feeds.hosts import HostRates
from app.models.feeds.schedule import Hints
from app.services.feeds.pull import HOST_SHARE, make_batches
from workers.updater import batching
from workers.updater.batching import BatchChoice, DueSnapshot, HostState, Pace

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
CROWDED = "crowded.example"
RATES = HostRates(2, 20, ("free.example=0", "*.big.example=100"))


def _due(*hosts: str, start: int = 0, readers: int = 1) -> list[DueFeed]:
    """Feeds of these hosts, each a second less due than the one before."""
    begin = NOW - dt.timedelta(hours=1)
    return [
        DueFeed(start + n, host, begin + dt.timedelta(seconds=start + n), readers)
        for n, host in enumerate(hosts)
    ]


def _choose(
    due: list[DueFeed],
    room: int = 1000,
    in_hand: set[int] | None = None,
    hosts: dict[str, HostState] | None = None,
    *,
    all: bool = True,
) -> BatchChoice:
    look = DueSnapshot(due, all, in_hand or set(), room)
    return batching.choose_feeds(look, hosts or {}, RATES.get_rate, min_share=6, seconds=1, pause=1)


def _ids(choice: BatchChoice) -> list[int]:
    return [feed.id for feed in choice.feeds]


def _seen(*looks: tuple[int, float, bool]) -> float | None:
    pace = Pace()
    for done, seconds, busy in looks:
        pace = pace.add_done(done, seconds, busy=busy)
    return pace.rate


def test_the_pace_follows_what_is_done() -> None:
    assert _seen() is None
    # Nothing is believed after a moment, nor before something is done.
    assert _seen((50, 1, True)) is None
    assert _seen((0, 100, True)) is None
    assert _seen((50, 1, True), *[(0, 1, True)] * 9) == pytest.approx(5)
    # Bursts of batches are no pace of their own.
    steady = [(50, 1, True), *[(0, 1, True)] * 4] * 40
    assert _seen(*steady) == pytest.approx(10, rel=0.1)
    # Slower and faster workers are noticed within a minute or two.
    assert _seen(*steady, *[(2, 1, True)] * 120) == pytest.approx(3, abs=0.5)
    assert _seen(*steady, *[(100, 1, True)] * 120) == pytest.approx(88, abs=5)
    # With nothing to do there is no reason to expect less, but more may show.
    assert _seen(*steady, *[(0, 5, False)] * 100) == pytest.approx(10, rel=0.1)
    assert (_seen(*steady, *[(100, 1, False)] * 60) or 0) > 60
    assert _seen(*steady, (100, 0, True)) == _seen(*steady)


@pytest.mark.parametrize(
    ("rate", "waiting", "room"),
    [
        (None, 0, 200),
        (None, 150, 0),
        (100.0, 0, 6000),
        (100.0, 3000, 3000),
        (100.0, 3001, 0),  # half of it still waits
        (100.0, 9999, 0),
        (2000.0, 0, 20_000),  # a look must not take long
        (0.001, 0, 1),  # never nothing: only work shows that workers are back
        (0.001, 1, 0),
    ],
)
def test_the_queue_holds_so_many_seconds_of_work(rate: float | None, waiting: int, room: int) -> None:
    pace = Pace() if rate is None else Pace(rate, 100.0)
    assert batching.count_to_queue(pace, waiting, 50, 60) == room


def test_while_the_pace_is_unknown_more_is_queued_as_long_as_nothing_of_it_waits() -> None:
    pace, rooms = Pace(), []
    for _ in range(10):
        rooms.append(batching.count_to_queue(pace, 0, 50, 60))
        pace = pace.add_done(rooms[-1], 1.0, busy=False)
    assert rooms == [200, 400, 800, 1600, 3200, 6400, 12_800, 20_000, 20_000, 20_000]
    # Workers that do not keep up get no more, and looks at which nothing was done say nothing.
    slow = Pace().add_done(100, 1.0, busy=True).add_done(0, 1.0, busy=False)
    assert slow.kept_up == 0
    assert batching.count_to_queue(slow, 0, 50, 60) == 200


@pytest.mark.parametrize(
    ("backlog", "queued", "queued_s", "pause"),
    [
        (0, 0, 0.0, 5),
        (0, 50, 9.0, 5),  # all that is due is in hand
        (900, 50, 9.0, 1),  # what was quick may have more at once
        (900, 0, 60.0, 5),
        (900, 0, 8.0, 2),  # before the queue runs dry
        (900, 0, 1.0, 1),
        (900, 0, 0.0, 1),
    ],
)
def test_it_looks_again_before_the_queue_runs_dry(
    backlog: int, queued: int, queued_s: float, pause: float
) -> None:
    assert batching.compute_pause(backlog, queued, queued_s, 1, 5) == pause


def test_the_longest_due_come_first_and_popular_ones_some_minutes_sooner() -> None:
    due = _due("a", "b", "c", "d")
    assert _ids(_choose(due, room=2)) == [0, 1]
    popular = [feed._replace(readers=1000 if feed.id == 3 else 1) for feed in due]
    assert _ids(_choose(popular, room=2)) == [3, 0]
    # … minutes, not hours: nobody waits for ever.
    later = [f._replace(due_at=NOW) if f.id == 3 else f for f in popular]
    assert _ids(_choose(later, room=2)) == [0, 1]


def test_what_is_in_hand_is_left_alone_and_counts_for_its_host() -> None:
    due = _due(*["slow.example"] * 10, "b")
    choice = _choose(due, in_hand={0, 1, 2, 3})
    assert _ids(choice) == [4, 5, 10]
    assert choice.hosts["slow.example"].held == 6
    assert not choice.postponed


def test_a_quick_host_gets_more_each_time_and_a_slow_one_never() -> None:
    due = _due(*["free.example"] * 500)
    hosts: dict[str, HostState] = {}
    taken = []
    for _ in range(5):
        choice = _choose(due, hosts=hosts)
        due = [feed for feed in due if feed not in choice.feeds]  # all done by the next look
        hosts = choice.hosts
        taken.append(len(choice.feeds))
    assert taken == [6, 12, 24, 48, 96]
    # Then it slows down: what was sent stays in hand, and it starts anew.
    stuck = _due(*["free.example"] * 500)
    held = set(range(96))
    slow = _choose(stuck, in_hand=held, hosts={"free.example": HostState(192, 96)})
    assert slow.feeds == []
    assert slow.hosts["free.example"].share == 6


def test_a_rated_host_gets_what_its_tokens_allow() -> None:
    quick = {"a.example": HostState(500, 1)}
    assert len(_choose(_due(*["a.example"] * 500), hosts=quick).feeds) == 6
    group = {"*.big.example": HostState(500, 1)}
    assert len(_choose(_due(*[f"{n}.big.example" for n in range(500)]), hosts=group).feeds) == 200


def test_a_host_that_is_quick_for_hours_can_be_put_off_then() -> None:
    hosts: dict[str, HostState] = {}
    for _ in range(1100):  # twice as much each time: no float holds that any more
        hosts = _choose(_due("big.test"), hosts=hosts).hosts
    choice = _choose(_due(*["big.test"] * 100), hosts=hosts, all=False)
    assert (len(choice.feeds), len(choice.postponed)) == (6, 94)
    assert choice.hosts["big.test"].share <= batching.MOST


def test_hosts_that_hide_others_are_put_off_one_after_the_other() -> None:
    due = _due(*["big.test"] * 100)
    choice = _choose(due, all=False)
    assert len(choice.feeds) == 6
    waits = [choice.postponed[n] for n in range(6, 100)]
    assert waits[0] == 1
    assert {round(b - a, 6) for a, b in itertools.pairwise(waits)} == {0.5}
    # The next ones are put behind them.
    after = _choose(_due(*["big.test"] * 100, start=100), all=False, hosts=choice.hosts)
    assert min(after.postponed.values()) == pytest.approx(max(waits) + 0.5 - 1)
    # While all that is due can be seen, or the room is used up, nobody is moved.
    assert not _choose(due).postponed
    assert not _choose(due, room=6, all=False).postponed


def test_six_slow_feeds_of_a_host_end_within_the_time_of_a_job() -> None:
    assert batching.compute_host_share(120, 30, 2) == HOST_SHARE == 6
    assert batching.compute_host_share(10, 30, 2) == 1


class Day:
    """Feeds polled hourly, a downtime, and what the updater and the workers then do, second by second."""

    def __init__(self, count: int, capacity: float, down: float, *, in_step: bool = True) -> None:
        self.rng = random.Random(7)
        self.capacity, self.in_step = capacity, in_step
        self.hosts = [CROWDED if n < count // 10 else f"h{n % (count // 3)}.example" for n in range(count)]
        # Planned within the hour in which everything stopped; it is up again at zero.
        self.planned = {n: -down + self.rng.uniform(0, 3600) for n in range(count)}
        self.queue: collections.deque[list[int]] = collections.deque()
        self.hand: set[int] = set()
        self.polls: list[tuple[float, int]] = []
        self.most_queued = 0.0
        self.done, self.budget = 0, 0.0
        self.pace, self.looked, self.next_look = Pace(), 0.0, 0.0
        self.known: dict[str, HostState] = {}
        self.bucket = collections.defaultdict[str, float](float)

    def run(self, seconds: int) -> None:
        for now in range(seconds):
            if now >= self.next_look:
                self.next_look = now + (1.0 if self.look(float(now)) else 5.0)
            self.work(float(now))

    def look(self, now: float) -> bool:
        """Return whether something was left to queue."""
        self.pace = self.pace.add_done(self.done, now - self.looked, busy=bool(self.queue))
        since, self.done, self.looked = now - self.looked, 0, now
        room = batching.count_to_queue(self.pace, sum(map(len, self.queue)), 50, 60)
        if not room:
            return False
        limit = len(self.hand) + room + min(2 * room, 2000)
        due = [
            DueFeed(n, self.hosts[n], NOW + dt.timedelta(seconds=at))
            for at, n in heapq.nsmallest(limit, ((at, n) for n, at in self.planned.items() if at <= now))
        ]
        look = DueSnapshot(due, len(due) < limit, self.hand, room)
        choice = batching.choose_feeds(look, self.known, RATES.get_rate, min_share=6, seconds=since, pause=1)
        self.known = choice.hosts
        for n, wait in choice.postponed.items():
            self.planned[n] = now + wait
        for batch in make_batches(choice.feeds, 50):
            assert not self.hand & set(batch), "a feed in two batches"
            self.hand |= set(batch)
            self.queue.append(batch)
        self.most_queued = max(self.most_queued, sum(map(len, self.queue)) / self.capacity)
        return bool(choice.feeds) and not (look.all and len(choice.feeds) == len(due))

    def work(self, now: float) -> None:
        self.budget = min(self.budget, 0.0) + self.capacity
        while self.queue and self.budget > 0:
            batch = self.queue.popleft()
            self.budget -= len(batch)
            self.done += len(batch)
            self.hand -= set(batch)
            for n in batch:
                self.poll(n, now)

    def poll(self, n: int, now: float) -> None:
        rate = RATES.get_rate(self.hosts[n])
        tat = max(now, self.bucket[rate.group])
        if tat - now > (rate.burst - 1) / rate.rate:
            self.planned[n] = tat - (rate.burst - 1) / rate.rate + self.rng.uniform(0, 5)
            return
        self.bucket[rate.group] = tat + 1 / rate.rate
        self.polls.append((now, n))
        late = now - self.planned[n] if self.in_step else 0.0
        moment = NOW + dt.timedelta(seconds=now)
        plan = schedule.plan(schedule.EMPTY, moment, Hints(), schedule.Limits(), rng=self.rng, lateness=late)
        self.planned[n] = (plan.next_check_at - NOW).total_seconds()

    def first(self, *, crowded: bool) -> list[float]:
        """When each feed was polled first after the downtime."""
        found: dict[int, float] = {}
        for at, n in self.polls:
            if (self.hosts[n] == CROWDED) == crowded:
                found.setdefault(n, at)
        return sorted(found.values())

    def peak(self, start: int, end: int) -> float:
        """Polls in the busiest five minutes, as a multiple of the mean; of hosts that no budget holds up."""
        times = [at for at, n in self.polls if start <= at < end and self.hosts[n] != CROWDED]
        slots = collections.Counter(int(at) // 300 for at in times)
        return max(slots.values()) / (len(times) / ((end - start) / 300))


@pytest.mark.parametrize("capacity", [10, 40])
def test_the_herd_after_a_downtime(capacity: int) -> None:
    """2,000 feeds polled hourly were away for six hours; workers manage 10 or 40 feeds per second."""
    day = Day(2000, capacity, 6 * 3600)
    day.run(2 * 3600)
    first = day.first(crowded=False)
    assert len(first) == 1800
    # The queue never holds more than two minutes of work, from the first look on.
    assert day.most_queued <= 120
    # The herd is worked off at the pace of the workers …
    assert first[-1] <= 1.5 * 2000 / capacity + 60
    # … but no host is asked more often than it may be: a tenth of the feeds are on one of them.
    crowded = [at for at, n in day.polls if day.hosts[n] == CROWDED]
    for start in range(0, 2 * 3600, 10):
        assert sum(start <= at < start + 10 for at in crowded) <= 20 + 10 * 2
    assert len(day.first(crowded=True)) == 200
    assert day.first(crowded=True)[-1] < 900
    # … and it does not come back as one.
    assert day.peak(3600, 2 * 3600) < 1.5


def test_without_their_old_rhythm_the_feeds_would_come_back_as_one() -> None:
    day = Day(2000, 40, 6 * 3600, in_step=False)
    day.run(2 * 3600)
    assert day.peak(3600, 2 * 3600) > 3


@pytest.mark.parametrize("late", [361, 3600, 3 * 3600 + 600, 50_000])
def test_a_late_feed_gets_its_place_in_the_hour_back(late: float) -> None:
    limits, rng = schedule.Limits(), random.Random(1)
    found = schedule.plan(schedule.EMPTY, NOW, Hints(), limits, rng=rng, lateness=late)
    wait = (found.next_check_at - NOW).total_seconds()
    turn = 3600 - late % 3600
    assert max(120, 0.9 * turn) <= wait <= max(120, 1.1 * turn)


def test_a_feed_that_is_hardly_late_or_in_error_is_planned_as_ever() -> None:
    def wait(late: float, hints: Hints) -> float:
        limits, rng = schedule.Limits(), random.Random(1)
        found = schedule.plan(schedule.EMPTY, NOW, hints, limits, rng=rng, lateness=late)
        return (found.next_check_at - NOW).total_seconds()

    assert wait(300, Hints()) == wait(0, Hints())
    assert wait(-4000, Hints()) == wait(0, Hints())
    assert wait(10_000, Hints(errors=3)) == wait(0, Hints(errors=3))
    assert wait(10_000, Hints(retry_after=5000)) == 5000
