"""The manager's decisions as tables: no process, no clock."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager import policy
from queue_manager.groups import Group
from queue_manager.policy import Action, DeathVerdict, Kill, Start, Stop, WorkerView

MB = 1 << 20
NOW = 1000.0
LOOP = Group(
    name="feeds",
    queues=("feed-pull",),
    mode="loop",
    min_workers=2,
    max_workers=2,
    max_idle=60,
    cpu=90,
    slots=16,
    system_slots=4,
    memory=100 * MB,
    lifetime=3600,
    max_jobs=1000,
    stall=15,
    grace=10,
)
SOLO = Group(
    name="solo",
    queues=("maintenance",),
    mode="solo",
    min_workers=1,
    max_workers=1,
    max_idle=60,
    cpu=90,
    slots=1,
    system_slots=1,
    memory=100 * MB,
    lifetime=3600,
    max_jobs=1000,
    stall=15,
    grace=10,
)


def _worker(name: str = "a", group: str = "feeds", **changes: Any) -> WorkerView:
    fields: dict[str, Any] = {
        "born": NOW - 60,
        "last_sign": NOW - 1,
        "ready": True,
        "rss": 50 * MB,
        **changes,
    }
    return WorkerView(name=name, group=group, **fields)


def _decide(
    *workers: WorkerView,
    stopping: bool = False,
    groups: Any = (LOOP,),
    wanted: dict[str, int] | None = None,
    **not_before: float,
) -> list[Action]:
    return policy.decide_actions(
        NOW,
        groups,
        workers,
        stopping=stopping,
        targets={"feeds": 2, "solo": 1} if wanted is None else wanted,
        not_before=not_before,
    )


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, None),
        ({"deadlines": (NOW + 1,)}, None),
        ({"deadlines": (NOW + 1, NOW - 1)}, Kill("a", "timeout")),
        ({"rss": 101 * MB}, Stop("a", "memory")),
        ({"rss": 151 * MB}, Kill("a", "memory")),
        ({"last_sign": NOW - 16}, Kill("a", "stall")),
        ({"last_sign": NOW - 16, "deadlines": (NOW + 9,)}, Kill("a", "stall")),
        ({"last_sign": NOW - 16, "ready": False}, None),
        ({"last_sign": NOW - 121, "ready": False}, Kill("a", "stall")),
        ({"last_sign": NOW - 99, "killed": "stall"}, None),
        ({"leaving": NOW - 14}, None),
        ({"leaving": NOW - 14, "rss": 101 * MB}, None),
        ({"leaving": NOW - 16}, Kill("a", "shutdown")),
        ({"leaving": NOW - 16, "reason": "memory"}, Kill("a", "memory")),
    ],
)
def test_what_becomes_of_a_worker(changes: dict[str, Any], wanted: Action | None) -> None:
    actions = _decide(_worker(**changes), _worker("b"))
    assert [a for a in actions if not isinstance(a, Start)] == ([wanted] if wanted else [])


def test_a_solo_worker_may_be_silent_while_it_works() -> None:
    busy = _worker(group="solo", mode="solo", last_sign=NOW - 100, deadlines=(NOW + 20,))
    idle = _worker(group="solo", mode="solo", last_sign=NOW - 100)
    assert _decide(busy, groups=(SOLO,)) == []
    assert Kill("a", "stall") in _decide(idle, groups=(SOLO,))


@pytest.mark.parametrize(
    ("workers", "starts"),
    [
        ([], 2),
        ([_worker("a")], 1),
        ([_worker("a"), _worker("b", ready=False)], 0),
        ([_worker("a"), _worker("b", leaving=NOW - 1)], 1),
        ([_worker("a"), _worker("b", killed="stall")], 1),
    ],
)
def test_missing_workers_are_started(workers: list[WorkerView], starts: int) -> None:
    assert _decide(*workers) == [Start("feeds")] * starts


def test_a_start_waits_for_its_pause() -> None:
    assert _decide(feeds=NOW + 0.1) == []
    assert _decide(feeds=NOW - 0.1) == [Start("feeds")] * 2


def test_a_stop_asks_all_once_and_starts_none() -> None:
    leaving = _worker("b", leaving=NOW - 1)
    assert _decide(_worker("a"), leaving, stopping=True) == [Stop("a", "shutdown")]


@pytest.mark.parametrize(
    ("workers", "wanted", "leaves"),
    [
        # Those that do nothing, the oldest first, and never more than are too many.
        ([_worker("a"), _worker("b", born=NOW - 99), _worker("c")], 2, ["b"]),
        ([_worker("a"), _worker("b", born=NOW - 99), _worker("c")], 0, ["b", "a", "c"]),
        ([_worker("a", deadlines=(NOW + 9,)), _worker("b", ready=False)], 0, []),
        ([_worker("a", deadlines=(NOW + 9,)), _worker("b"), _worker("c")], 2, ["b"]),
        # One that leaves already makes the others enough.
        ([_worker("a", leaving=NOW - 1), _worker("b"), _worker("c")], 2, []),
        ([_worker("a", killed="stall"), _worker("b"), _worker("c")], 2, []),
    ],
)
def test_workers_that_are_too_many_leave(workers: list[WorkerView], wanted: int, leaves: list[str]) -> None:
    assert _decide(*workers, wanted={"feeds": wanted}) == [Stop(name, "idle") for name in leaves]


def test_one_that_must_go_anyway_counts_as_gone() -> None:
    hog, spare = _worker("hog", rss=101 * MB), _worker("b")
    assert _decide(hog, spare, _worker("c"), wanted={"feeds": 2}) == [Stop("hog", "memory")]


def test_workers_of_a_group_that_is_gone_or_changed_its_mode_leave() -> None:
    busy = _worker("a", deadlines=(NOW + 9,))
    assert _decide(busy, wanted={}) == [Stop("a", "settings")]
    assert Stop("a", "settings") in _decide(_worker("a", mode="solo"))


@pytest.mark.parametrize(
    ("exitcode", "killed", "wanted"),
    [
        (0, None, DeathVerdict(False, "ended")),
        (-15, None, DeathVerdict(False, "ended")),
        (75, None, DeathVerdict(False, "ended")),
        (255, None, DeathVerdict(False, "ended")),
        (-9, None, DeathVerdict(True, "signal 9")),
        (-11, None, DeathVerdict(True, "signal 11")),
        (1, None, DeathVerdict(True, "exit 1")),
        (None, None, DeathVerdict(True, "exit None")),
        (-9, "stall", DeathVerdict(True, "stall")),
        (-9, "memory", DeathVerdict(True, "memory")),
        (-9, "timeout", DeathVerdict(True, "timeout")),
        (-9, "shutdown", DeathVerdict(False, "shutdown")),
        (-9, "operator", DeathVerdict(False, "operator")),
        (-9, "idle", DeathVerdict(False, "idle")),
        # It ended by itself in the moment in which it was killed: what it holds is still charged.
        (0, "stall", DeathVerdict(True, "stall")),
    ],
)
def test_the_verdict_over_a_death(exitcode: int | None, killed: str | None, wanted: DeathVerdict) -> None:
    assert policy.judge_death(exitcode, killed) == wanted


def test_pauses_double_up_to_a_limit() -> None:
    pauses = [policy.compute_pause(deaths) for deaths in range(12)]
    assert pauses[:4] == [0.0, 0.25, 0.5, 1.0]
    assert pauses == sorted(pauses)
    assert pauses[-1] == policy.compute_pause(2000) == policy.PAUSE_MOST
