"""R04: each job ends exactly once, whatever happens to the workers; on the real manager."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import random
import re
import signal
from typing import Any

import pytest
import redis

from app.adapters.redis.jobs import RedisJobs
from app.config import Settings
from app.models.jobs import redis_keys
from tests.jobs import support

_STARTED = re.compile(r"worker_started worker=(\S+) group=\S+ pid=(\d+)")
JOBS, FIRST, TERMS, KILLS = 2000, 200, 40, 20
_SUSPECTS = '\n[more-suspects]\nqueues = ["suspects"]\nslots = 1\nsystem_slots = 1\n'
#: What ended first is asked for last, which may be minutes later.
_KEPT = "[queue.feed-pull]\nresult_ttl = 3600\n[queue.suspects]\nresult_ttl = 3600\n"


@pytest.mark.long
@pytest.mark.timeout(400)
def test_forty_terms_and_twenty_kills_lose_and_double_nothing(
    settings: Settings, redis_client: redis.Redis, eventually: Any
) -> None:
    # Nothing is given up here: blows hit at random, and which jobs they hit is not the jobs' fault.
    # Almost no grace, so that a SIGTERM too finds jobs that must be given back.
    settings = dataclasses.replace(settings, job_retries=100, stop_grace=0.02)
    table = support.groups(settings, workers=2, extra=_SUSPECTS + _KEPT)
    settings = dataclasses.replace(settings, queues_file=table)
    rng = random.Random(20261120)
    blows = [signal.SIGTERM] * TERMS + [signal.SIGKILL] * KILLS
    rng.shuffle(blows)
    with (
        contextlib.closing(RedisJobs(settings)) as jobs,
        support.running("queue_manager.main", settings, "manager") as manager,
    ):
        tickets = jobs.enqueue_many(support.effects(FIRST, seconds=0.25))
        portion = (JOBS - FIRST) // len(blows)
        for n, blow in enumerate(blows):
            # More work with each blow, so that every one hits a worker in the middle of it.
            tickets += jobs.enqueue_many(support.effects(portion, seconds=0.25, start=FIRST + n * portion))
            victim = eventually(lambda: _victim(manager, redis_client, rng))
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, blow)
            eventually(lambda victim=victim: not support.is_alive(victim))
        ids = [ticket.id for ticket in tickets]
        assert len(set(ids)) == JOBS
        outcomes = list(jobs.await_many(tickets, 240))
        assert collections.Counter(outcome.error for outcome in outcomes) == {None: JOBS}
        eventually(lambda: not any(support.leftovers(redis_client).values()))
        assert support.states(redis_client, ids) == {"finished": JOBS}
        assert support.ends(redis_client) == dict.fromkeys(ids, 1)
        assert {redis_client.xlen(redis_keys.make_results_key(job_id)) for job_id in ids} == {1}
        _check_effects(redis_client)
        _check_blows(redis_client)
        assert manager.stop() == 0
    assert support.workers(redis_client) == {}


def _victim(manager: support.Process, client: redis.Redis, rng: random.Random) -> int | None:
    """The process of a worker that holds jobs; of any, when there are none left."""
    pids = {name: int(pid) for name, pid in _STARTED.findall(manager.log.read_text())}
    names = [
        key.decode().removeprefix(redis_keys.INFLIGHT)
        for key in sorted(client.scan_iter(redis_keys.INFLIGHT + "*"))
    ]
    if not names:
        waiting = any(client.llen(name) for name in client.scan_iter(redis_keys.QUEUE + "*"))
        names = [] if waiting else sorted(support.workers(client))
    alive = [pid for name in names if (pid := pids.get(name)) and support.is_alive(pid)]
    return rng.choice(alive) if alive else None


def _check_blows(client: redis.Redis) -> None:
    """Most blows must have hit a worker that held jobs, or nothing was tested."""
    rows: list[Any] = client.xrange(redis_keys.EVENTS)  # type: ignore[assignment]
    hit = {row[b"worker"] for _, row in rows if row[b"kind"] in (b"returned", b"suspect")}
    assert len(hit) >= KILLS


def _check_effects(client: redis.Redis) -> None:
    traces = support.traces(client)
    assert {key for key, _ in traces} == set(range(JOBS))
    # Run again after a kill: yes. One attempt that did its work twice: never.
    assert max(collections.Counter(traces).values()) == 1
    again = len(traces) - JOBS
    assert again <= KILLS * 16
