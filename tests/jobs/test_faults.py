"""Jobs that bring their worker down are found and given up, and the others are done."""

from __future__ import annotations

from typing import Any

import pytest

from app.models.jobs.jobs import Job, Queue, Task
from tests.jobs import support
from tests.jobs.conftest import Engine

SETTINGS = {"worker_stall": 4.0}
GROUPS = '\n[solo]\nqueues = ["maintenance"]\nmode = "solo"\n'


WAYS = {"kill": "signal 9", "segfault": "signal 11", "stall": "stall"}


@pytest.mark.parametrize("how", WAYS)
def test_who_brings_its_worker_down_ends_dead_after_three_crashes_alone(engine: Engine, how: str) -> None:
    first = 1000 * (1 + list(WAYS).index(how))
    assert support.crash_to_death(engine.jobs, engine.client, how, first=first) == {WAYS[how]}


def test_of_a_poisonous_batch_only_the_guilty_part_is_given_up(engine: Engine, eventually: Any) -> None:
    parts = [9001, 9002, 9003]
    batch = engine.jobs.enqueue(Job(Task.EFFECT, {"keys": parts, "poison": 9002}, Queue.PULL_SYSTEM))
    (outcome,) = engine.jobs.await_many([batch], 60)
    split = outcome.value["split"]
    wanted = {"finished": 2, "failed": 1}
    eventually(lambda: support.states(engine.client, split) == wanted)
    assert {key for key, _ in support.traces(engine.client)} >= {9001, 9003}


def test_solo_workers_do_their_jobs_and_survive_failing_ones(engine: Engine) -> None:
    good = engine.jobs.enqueue_many([Job(Task.ECHO, {"solo": n}, Queue.MAINTENANCE) for n in range(30)])
    bad = engine.jobs.enqueue(Job(Task.CRASH, {"how": "feed"}, Queue.MAINTENANCE))
    ends = {outcome.id: outcome for outcome in engine.jobs.await_many([*good, bad], 60)}
    assert ends.pop(bad.id).error == "not_a_feed"
    assert [ends[ticket.id].value for ticket in good] == [{"solo": n} for n in range(30)]
    assert engine.jobs.get_status(bad.id).crashes == 0


def test_a_task_that_takes_too_long_is_stopped_and_tried_again(engine: Engine) -> None:
    ticket = engine.jobs.enqueue(Job(Task.NAP, {"seconds": 3600}, Queue.PULL))
    (outcome,) = engine.jobs.await_many([ticket], 60)
    assert outcome.error == "timeout"
    assert engine.jobs.get_status(ticket.id).failures == engine.settings.job_retries
