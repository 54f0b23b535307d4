"""How many workers a group gets: tables for single decisions, simulated days for what must never happen."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from queue_manager.groups import Group
from queue_manager.scale import PAUSE_DOWN, PAUSE_UP, Load, Scale, count_needed, decide_scale

NOW = 1000.0
GROUP = Group(
    name="feeds",
    queues=("feed-pull", "feed-pull-sys"),
    mode="loop",
    min_workers=1,
    max_workers=8,
    max_idle=60,
    cpu=90,
    slots=10,
    system_slots=4,
    memory=100 << 20,
    lifetime=3600,
    max_jobs=1000,
    stall=15,
    grace=10,
)
SOLO = dataclasses.replace(GROUP, mode="solo", slots=5, min_workers=0, max_workers=3)
#: Enough waits for two workers more, and long enough.
BUSY = Load(busy=10, waiting=20, oldest=5)


@pytest.mark.parametrize(
    ("group", "load", "workers"),
    [
        (GROUP, Load(), 1),
        (GROUP, Load(busy=10), 1),
        (GROUP, Load(busy=10, waiting=1), 2),
        (GROUP, Load(waiting=31), 4),
        (GROUP, Load(waiting=1000), 8),
        # Of system jobs a worker holds fewer.
        (GROUP, Load(busy=4, busy_system=4), 1),
        (GROUP, Load(busy=4, busy_system=4, waiting=1, waiting_system=1), 2),
        (GROUP, Load(waiting=20, waiting_system=20), 5),
        # A solo worker runs one, whatever it has in hand.
        (SOLO, Load(), 0),
        (SOLO, Load(busy=1, waiting=1), 2),
        (SOLO, Load(waiting=99), 3),
    ],
)
def test_the_need(group: Group, load: Load, workers: int) -> None:
    assert count_needed(group, load) == workers


@pytest.mark.parametrize(
    ("state", "load", "more", "wanted"),
    [
        (Scale(1), BUSY, {}, 2),
        # Twice as many with each step, but no more than are needed.
        (Scale(4), Load(waiting=300, oldest=5), {}, 8),
        (Scale(4), Load(waiting=51, oldest=5), {}, 6),
        # Nobody has had the time yet to take what waits.
        (Scale(1), dataclasses.replace(BUSY, oldest=0.5), {}, 1),
        # What the last step started has not shown yet.
        (Scale(1), BUSY, {"starting": True}, 1),
        (Scale(1, changed=NOW - PAUSE_UP + 0.1), BUSY, {}, 1),
        (Scale(1, changed=NOW - PAUSE_UP), BUSY, {}, 2),
        # A busy machine gets a queue, not more processes.
        (Scale(1), BUSY, {"cpu": 91.0}, 1),
        (Scale(1), BUSY, {"cpu": 90.0}, 2),
        # Fewer: only when for all of max_idle fewer would have done, and one at a time.
        (Scale(3), Load(), {}, 2),
        (Scale(3, peaks=((NOW - 59, 3),)), Load(), {}, 3),
        (Scale(3, peaks=((NOW - 60, 3),)), Load(), {}, 2),
        (Scale(3, peaks=((NOW - 59, 2),)), Load(), {}, 2),
        (Scale(3, changed=NOW - PAUSE_DOWN + 0.1), Load(), {}, 3),
        (Scale(1), Load(), {}, 1),
        # Bounds that have been changed hold at once.
        (Scale(0), Load(), {}, 1),
        (Scale(20, changed=NOW), Load(waiting=900, oldest=9), {}, 8),
    ],
)
def test_one_decision(state: Scale, load: Load, more: dict[str, Any], wanted: int) -> None:
    assert decide_scale(NOW, GROUP, state, load, **more).wanted == wanted


def test_the_first_worker_of_a_group_starts_whatever_the_machine_does() -> None:
    state = decide_scale(NOW, SOLO, None, Load(waiting=1), cpu=100.0)
    assert state.wanted == 1
    assert decide_scale(NOW + 5, SOLO, state, Load(waiting=9, oldest=9), cpu=100.0).wanted == 1


def test_a_group_without_work_starts_with_its_minimum() -> None:
    assert decide_scale(NOW, GROUP, None, Load()).wanted == 1
    assert decide_scale(NOW, SOLO, None, Load()).wanted == 0


def _live(group: Group, arrivals: Iterable[int], length: float, cpu: float = 0.0) -> list[tuple[float, int]]:
    """Simulate a group, a second per arrival count; jobs take ``length`` seconds. Returns (time, wanted)."""
    state, steps = None, []
    waiting, running = collections.deque[tuple[int, int]](), dict[float, int]()
    for now, count in enumerate(arrivals):
        running = {end: jobs for end, jobs in running.items() if end > now}
        if count:
            waiting.append((now, count))
        free = (state.wanted if state else group.min_workers) * group.slots - sum(running.values())
        while waiting and free > 0:
            since, jobs = waiting.popleft()
            taken = min(jobs, free)
            free -= taken
            running[now + length] = running.get(now + length, 0) + taken
            if jobs > taken:
                waiting.appendleft((since, jobs - taken))
        oldest = float(now - waiting[0][0]) if waiting else 0.0
        load = Load(waiting=sum(jobs for _, jobs in waiting), oldest=oldest, busy=sum(running.values()))
        state = decide_scale(float(now), group, state, load, cpu=cpu)
        steps.append((float(now), state.wanted))
    return steps


_curves = st.lists(st.integers(0, 120), min_size=1, max_size=10).map(
    lambda levels: list(itertools.chain.from_iterable([level] * 17 for level in levels))
)
_groups = st.builds(
    lambda low, more, idle, slots: dataclasses.replace(
        GROUP, min_workers=low, max_workers=max(1, low + more), max_idle=idle, slots=slots
    ),
    *(st.integers(0, 3), st.integers(0, 8), st.sampled_from([1.0, 7.0, 60.0]), st.integers(1, 20)),
)


@effort(deadline=None, max_examples=50)
@given(_groups, _curves, st.sampled_from([0.3, 1.0, 4.0, 30.0]))
def test_no_load_makes_it_flap_or_leave_its_bounds(group: Group, arrivals: list[int], length: float) -> None:
    steps = _live(group, arrivals, length)
    assert all(group.min_workers <= wanted <= group.max_workers for _, wanted in steps)
    raised: dict[int, float] = {}
    last_down = float("-inf")
    for (_, before), (now, after) in itertools.pairwise(steps):
        if after > before:
            assert after <= max(1, 2 * before)
            raised |= dict.fromkeys(range(before + 1, after + 1), now)
        if after < before:
            assert before - after == 1
            assert now - last_down >= PAUSE_DOWN
            last_down = now
            # A level is not left within max_idle of having been reached.
            assert now - raised.get(before, float("-inf")) >= group.max_idle


@effort(deadline=None, max_examples=50)
@given(_groups, st.integers(0, 60), st.sampled_from([0.3, 1.0, 4.0]))
def test_under_a_steady_load_it_comes_to_rest(group: Group, rate: int, length: float) -> None:
    settling = int(group.max_idle + 60)
    steps = _live(group, [rate] * (settling + 200), length)
    assert len({wanted for _, wanted in steps[settling:]}) == 1


@effort(deadline=None, max_examples=50)
@given(_groups, _curves, st.sampled_from([0.3, 4.0]))
def test_after_the_load_it_is_back_at_its_minimum(group: Group, arrivals: list[int], length: float) -> None:
    backlog = sum(arrivals) * max(1.0, length) / group.slots
    rest = int(backlog + group.max_idle + group.max_workers * PAUSE_DOWN + 30)
    steps = _live(group, [*arrivals, *[0] * rest], length)
    assert steps[-1][1] == group.min_workers


@effort(deadline=None, max_examples=50)
@given(_groups, _curves)
def test_a_busy_machine_gets_no_further_worker(group: Group, arrivals: list[int]) -> None:
    steps = _live(group, arrivals, 4.0, cpu=99.0)
    assert max(wanted for _, wanted in steps) <= max(1, group.min_workers)
