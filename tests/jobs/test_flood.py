"""People before the system, always: a flood of system work delays a person's job by one batch at most."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from app.models.jobs import redis_keys
from app.models.jobs.jobs import Job, Queue, Task
from tests.jobs.conftest import Engine

#: One worker of each mode whose file names the system's queue first: people still come first.
GROUPS = """
[mixed]
queues = ["maintenance", "import"]
mode = "solo"
slots = 4
system_slots = 3
"""
FLOOD, SLOTS, SOLO_BATCH, PERSONS = 150, 8, 3, 6


def _starts(client: redis.Redis, user: str, queue: Queue) -> tuple[int, int]:
    """How many jobs of a system queue were started while a person's job waited, and how many after it."""
    rows: list[Any] = client.xrange(redis_keys.EVENTS)  # type: ignore[assignment]
    since = int(client.hget(redis_keys.make_job_key(user), "since") or 0)  # type: ignore[arg-type]
    counts, started = [0, 0], False
    for at, row in rows:
        if row[b"kind"] == b"started" and int(at.split(b"-")[0]) >= since:
            started = started or row[b"id"].decode() == user
            counts[started] += row[b"queue"].decode() == queue
    assert started
    return counts[0], counts[1]


@pytest.mark.parametrize(
    ("system", "user", "most"),
    [
        # In the worst case one TAKE was under way when the person asked.
        (Queue.PULL_SYSTEM, Queue.PULL, SLOTS),
        (Queue.PULL_SYSTEM, Queue.DISCOVERY, SLOTS),
        (Queue.MAINTENANCE, Queue.IMPORT, SOLO_BATCH),
    ],
)
def test_a_flood_of_system_work_delays_a_person_by_one_batch(
    engine: Engine, system: Queue, user: Queue, most: int
) -> None:
    start = 100_000 * (1 + list(Queue).index(user))
    flood, persons = [], []
    for n in range(PERSONS):
        effects = [
            Job(Task.EFFECT, {"keys": [start + n * FLOOD + k], "seconds": 0.02}, system) for k in range(FLOOD)
        ]
        # Behind the whole flood, when some of it may run already. At once, or much of it may have ended.
        tickets = engine.jobs.enqueue_many([*effects, Job(Task.ECHO, {"person": start + n}, user)])
        flood += tickets[:-1]
        persons += tickets[-1:]
        assert [o.error for o in engine.jobs.await_many(persons[-1:], 60)] == [None]
    assert len(list(engine.jobs.await_many(flood, 120))) == FLOOD * PERSONS
    starts = [_starts(engine.client, ticket.id, system) for ticket in persons]
    assert max(before for before, _ in starts) <= most
    # It was a flood: without their precedence people would have waited for much of it.
    assert min(after for _, after in starts) > FLOOD // 3
