"""R04: each job ends exactly once, whatever happens to the workers; on the real manager."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import random
import signal
from typing import Any

import psutil
import redis

from app.config import Settings
from app.jobs import RedisJobs
from app.models import keys
from tests.jobs import support

JOBS, TERMS, KILLS = 2000, 40, 20
_SUSPECTS = '\n[more-suspects]\nqueues = ["suspects"]\nslots = 1\nsystem_slots = 1\n'


def test_forty_terms_and_twenty_kills_lose_and_double_nothing(
    settings: Settings, redis_client: redis.Redis, eventually: Any
) -> None:
    # Nothing is given up here: blows hit at random, and which jobs they hit is not the jobs' fault.
    settings = dataclasses.replace(settings, job_retries=100)
    settings = dataclasses.replace(settings, queues_file=support.groups(settings, workers=2, extra=_SUSPECTS))
    rng = random.Random(20261120)
    blows = [signal.SIGTERM] * TERMS + [signal.SIGKILL] * KILLS
    rng.shuffle(blows)
    with (
        contextlib.closing(RedisJobs(settings)) as jobs,
        support.running("queue_manager.main", settings, "manager") as manager,
    ):
        tickets = jobs.enqueue_many(support.effects(JOBS, seconds=0.02))
        ids = [ticket.id for ticket in tickets]
        for n, blow in enumerate(blows):
            # Spread over the run by its progress, and only on workers that hold jobs.
            done = n * JOBS // (len(blows) + 5)
            eventually(lambda done=done: redis_client.llen("selftest:effects") >= done, timeout=60)
            victim = eventually(lambda: _busy(manager, redis_client, rng), timeout=30)
            os.kill(victim, blow)
            eventually(lambda victim=victim: not support.is_alive(victim), timeout=30)
        outcomes = list(jobs.await_many(tickets, 90))
        assert collections.Counter(outcome.error for outcome in outcomes) == {None: JOBS}
        eventually(lambda: not any(support.leftovers(redis_client).values()))
        assert support.states(redis_client, ids) == {"finished": JOBS}
        assert support.ends(redis_client) == dict.fromkeys(ids, 1)
        assert {redis_client.xlen(keys.results(job_id)) for job_id in ids} == {1}
        _check_effects(redis_client)
        assert manager.stop() == 0
    assert support.workers(redis_client) == {}


def _busy(manager: support.Process, client: redis.Redis, rng: random.Random) -> int | None:
    """A worker process that holds jobs now; of its title we know the group, of its list the jobs."""
    if not any(client.llen(name) for name in client.scan_iter(keys.INFLIGHT + "*")):
        return None
    found = [pid for group in ("feeds", "suspects", "more-suspects") for pid in support.pids(manager, group)]
    with contextlib.suppress(psutil.Error):
        return rng.choice(found) if found else None
    return None


def _check_effects(client: redis.Redis) -> None:
    traces = support.traces(client)
    assert {key for key, _ in traces} == set(range(JOBS))
    # Run again after a kill: yes. One attempt that did its work twice: never.
    assert max(collections.Counter(traces).values()) == 1
    again = len(traces) - JOBS
    assert again <= KILLS * 16
